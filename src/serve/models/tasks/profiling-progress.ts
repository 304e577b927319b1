import type { Clock } from "../../../wire/clock/clock.js";

const US_PER_SECOND = 1e6;
/** Clients are not asked to stay away for longer: what keeps profiling waiting may end. */
const RETRY_S_MAX = 300;

/** How far a task's profiling is: images that were run, of all that are to be, over all gammas. */
export class ProfilingProgress {
  private readonly clock: Pick<Clock, "now">;
  readonly of: number;
  private startedAt: number | null = null;
  private run = 0;

  constructor(clock: Pick<Clock, "now">, of: number) {
    this.clock = clock;
    this.of = of;
  }

  /** From its first image, also where it is tried again. */
  begin(): void {
    this.startedAt = this.clock.now();
    this.run = 0;
  }

  ran(images: number): void {
    this.run += images;
  }

  get done(): number {
    return this.run;
  }

  /** If it goes on as it went; null: nothing has run. */
  get leftS(): number | null {
    if (this.startedAt === null || this.run === 0) return null;
    return ((this.clock.now() - this.startedAt) * (this.of - this.run)) / this.run / US_PER_SECOND;
  }

  /** Whole seconds. */
  get retryAfterS(): number {
    return Math.min(RETRY_S_MAX, Math.max(1, Math.ceil(this.leftS ?? 1)));
  }
}
