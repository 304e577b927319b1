import { durationUs } from "../../../core/time.js";
import type { Clock } from "../../../wire/clock/clock.js";
import { ServingError } from "../../../wire/serving-error.js";
import type { Log } from "../../observation/log.js";
import { type BreakerRule, CrashBreaker } from "../../workers/crash-breaker.js";

/** A process is started again within 2 s for the first four ends: what goes on then is no accident. */
const RULE: BreakerRule = {
  killsMax: 5,
  memoryUs: durationUs(60_000_000),
  openUs: durationUs(10_000_000),
  trustBatches: 0,
};
/** Without an end for so long, pauses begin anew. */
const FORGET_US = 600_000_000;

/**
 * Whether a pipeline may be asked: not where its steps ended their process again and again. Then requests are refused at the entrance, by the cause;
 * after a pause one is let in to try, and pauses double while it ends the process, too (CrashBreaker).
 */
export class StepHealth {
  private readonly breaker = new CrashBreaker(RULE);
  private because = "";
  private endedAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly pipeline: string,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /** The process ended. @returns whether requests are refused from now on. */
  ended(because: string): boolean {
    const { breaker, clock, pipeline } = this;
    const now = clock.now();
    if (now - this.endedAt > FORGET_US) breaker.forget(pipeline);
    this.endedAt = now;
    this.because = because;
    const openUs = breaker.killed(pipeline, now);
    if (openUs === null) return false;
    this.log.error(
      { pipeline, because, refusedS: openUs / 1e6 },
      "steps keep ending their process: requests are refused",
    );
    return true;
  }

  /** A run ended, and its process did not. */
  survived(): void {
    this.breaker.survived(this.pipeline);
  }

  /** Why requests are refused now; "": they are not. After the pause whoever asks no other may send again. */
  get fault(): string {
    return this.breaker.isOpen(this.pipeline, this.clock.now())
      ? `its steps keep ending their process: ${this.because}`
      : "";
  }

  /** Asked by each request that would enter: the first after the pause may. @returns why this one may not; null: it may. */
  refusal(): ServingError | null {
    const now = this.clock.now();
    const until = this.breaker.refusedUntil(this.pipeline, now);
    if (until === null) return null;
    const leftS = (until - now) / 1e6;
    return new ServingError(
      "unavailable",
      `pipeline '${this.pipeline}': ${this.fault}; tried again in ${leftS.toFixed(1)} s`,
      { reason: "worker-crashed", retryAfterS: Math.max(1, Math.ceil(leftS)) },
    );
  }
}
