/** One timer with sub-millisecond precision that does not occupy a core. */
import { Worker } from "node:worker_threads";
import type { TimeUs } from "../../core/time.js";
import { NEVER } from "../../core/time.js";
import { threadFile } from "../thread-file.js";
import { monotonicNow } from "./monotonic-clock.js";

/** A wake-up of the timer thread and its message take about this long (measured: 60 to 110 µs): ask that much earlier. */
const LEAD_US = 80;
/** What is left after an early wake-up is spun away; longer is left to the thread again. */
const SPIN_US_MAX = 120;

export class PreciseTimer {
  private readonly counter = new Int32Array(new SharedArrayBuffer(4));
  private readonly moment = new Float64Array(new SharedArrayBuffer(8));
  private readonly thread: Worker;
  /** Resolves when the thread runs: before that a moment may be noticed late. */
  readonly started: Promise<void>;
  private wakeAt: TimeUs = NEVER;

  /**
   * @param onWake Called at or after the moment last set, never before it; it may set the next.
   * @param keepsAlive The process does not end while the timer is open.
   */
  constructor(
    private readonly onWake: () => void,
    keepsAlive = false,
  ) {
    this.moment[0] = Number.POSITIVE_INFINITY;
    this.thread = new Worker(threadFile(import.meta.url, "./timer-thread.js"), {
      workerData: { counter: this.counter, moment: this.moment },
      name: "timer",
      // Not the program's own: some (--input-type of `node -e`) are refused where a file is run.
      execArgv: [],
    });
    this.started = new Promise((resolve) => this.thread.once("online", () => resolve()));
    this.thread.on("message", () => this.woken());
    if (!keepsAlive) this.thread.unref();
  }

  /** Replaces the moment; NEVER disarms. */
  set(at: TimeUs): void {
    if (at === this.wakeAt) return;
    this.wakeAt = at;
    this.arm();
  }

  private arm(): void {
    this.moment[0] = this.wakeAt - LEAD_US;
    Atomics.store(this.counter, 0, (Atomics.load(this.counter, 0) + 1) & 0x7fffffff);
    Atomics.notify(this.counter, 0);
  }

  private woken(): void {
    if (this.wakeAt === NEVER) return;
    const early = this.wakeAt - monotonicNow();
    if (early > SPIN_US_MAX) {
      this.arm();
      return;
    }
    while (monotonicNow() < this.wakeAt);
    this.wakeAt = NEVER;
    this.onWake();
  }

  async close(): Promise<void> {
    Atomics.store(this.counter, 0, -1);
    Atomics.notify(this.counter, 0);
    await this.thread.terminate();
  }
}
