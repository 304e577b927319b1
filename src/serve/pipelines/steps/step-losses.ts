import { FAIL_CAUSES } from "../../../core/outcome.js";
import type { Clock } from "../../../wire/clock/clock.js";
import type { Log } from "../../observation/log.js";

/** A line for each thread that ends would fill the log where every request ends one. */
const LINE_US = 1_000_000;

/** Threads of one pipeline's steps that ended, counted, and logged at most once a second. */
export class StepLosses {
  private nextLineAt = Number.NEGATIVE_INFINITY;
  /** Since the last line. */
  private unsaid = 0;

  constructor(
    private readonly pipeline: string,
    private readonly count: (cause: string) => void,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /** @param step that it ran; "": none. */
  lost(cause: number, step: string, message: string): void {
    const name = FAIL_CAUSES[cause]!;
    this.count(name);
    const now = this.clock.now();
    if (now < this.nextLineAt) {
      this.unsaid++;
      return;
    }
    this.nextLineAt = now + LINE_US;
    const { pipeline, unsaid } = this;
    this.unsaid = 0;
    this.log.warn({ pipeline, cause: name, step, because: message, unsaid }, "a thread of steps ended and is replaced");
  }
}
