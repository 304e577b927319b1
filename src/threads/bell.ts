import { waitAsync } from "../wire/wait-async.js";

/**
 * Wakes a thread that sleeps because it has nothing to do, and costs a load where it does not sleep.
 *
 * Rings are seen without it: whoever wrote to a thread's ring rings its bell afterwards. A thread says that it sleeps
 * before it looks at its rings for the last time, so that no record is missed.
 */
const AWAKE = 0;
const ASLEEP = 1;
/** Words per bell: a cache line. */
const STRIDE = 16;

export function createBells(count: number): SharedArrayBuffer {
  return new SharedArrayBuffer(count * STRIDE * Int32Array.BYTES_PER_ELEMENT);
}

export class Bell {
  private readonly words: Int32Array;
  private readonly at: number;

  constructor(bells: SharedArrayBuffer, index: number) {
    this.words = new Int32Array(bells);
    this.at = index * STRIDE;
  }

  ring(): void {
    if (Atomics.load(this.words, this.at) !== ASLEEP) return;
    if (Atomics.exchange(this.words, this.at, AWAKE) === ASLEEP) Atomics.notify(this.words, this.at);
  }

  /** Sleeps until it is rung or `timeoutMs` passed (Infinity: no limit), unless there is work. */
  sleep(hasWork: () => boolean, timeoutMs: number): void {
    Atomics.store(this.words, this.at, ASLEEP);
    if (!hasWork()) Atomics.wait(this.words, this.at, ASLEEP, timeoutMs);
    Atomics.store(this.words, this.at, AWAKE);
  }

  /** The same without blocking. @returns null when there is work already. It does not keep the process alive. */
  sleepAsync(hasWork: () => boolean): Promise<unknown> | null {
    Atomics.store(this.words, this.at, ASLEEP);
    const rung = hasWork() ? null : waitAsync(this.words, this.at, ASLEEP);
    if (rung === null) Atomics.store(this.words, this.at, AWAKE);
    return rung;
  }

  /** Sleeps for this long, deaf: what comes meanwhile is taken together. */
  pause(ms: number): void {
    Atomics.wait(this.words, this.at + 1, 0, ms);
  }
}
