/**
 * What parts take of accelerators that the modules of a pipeline share, and how many a request makes, as seen. A profile knows neither how long
 * their inputs are nor what else runs there; what was measured in batches of one says little of twenty that come together.
 */

/** Weight of the newest batch, and of the newest request in how many parts one makes: means of the last fifty and thirty; of fewer, of all. */
const NEWEST = 0.02;
const NEWEST_PARTS = 0.03;
/** What was seen before that is of another time. */
const STALE_US = 3_000_000;

export class SeenParts {
  /** By module: batches, accelerator time of a part in them, µs, and how many times as long as by the profile they took. */
  private readonly batches: Float64Array;
  private readonly measuredUs: Float64Array;
  private readonly slowness: Float64Array;
  /** When the last one ended, or was to be tried. */
  private readonly toldAt: Float64Array;
  /** By module that fans out: requests that did, and parts that one made. */
  private readonly fannedOut: Float64Array;
  private readonly madeParts: Float64Array;

  constructor(modules: number) {
    const zeros = (): Float64Array => new Float64Array(modules);
    this.batches = zeros();
    this.measuredUs = zeros();
    this.slowness = zeros();
    this.toldAt = zeros().fill(Number.NEGATIVE_INFINITY);
    this.fannedOut = zeros();
    this.madeParts = zeros();
  }

  /** A part ran in a batch of this size. @param profileUs of such a batch. */
  ran(module: number, size: number, execUs: number, profileUs: number, at: number): void {
    const weight = Math.max(NEWEST, 1 / ++this.batches[module]!);
    this.measuredUs[module]! += (execUs / size - this.measuredUs[module]!) * weight;
    this.slowness[module]! += (execUs / Math.max(1, profileUs) - this.slowness[module]!) * weight;
    this.toldAt[module] = at;
  }

  /**
   * Accelerator time of a part that runs in a batch of this size or, where batches are larger, in one of those, µs; NaN: none has run.
   * @param profileUs of such a batch.
   */
  eachUs(module: number, size: number, profileUs: number): number {
    if (this.batches[module] === 0) return Number.NaN;
    return Math.min(this.measuredUs[module]!, (this.slowness[module]! * profileUs) / size);
  }

  /** Whether none of these modules was seen of late: what is believed of them may be wrong for ever, as it refuses all that would show it. */
  isStale(modules: readonly number[], at: number): boolean {
    return modules.every((module) => at - this.toldAt[module]! > STALE_US);
  }

  /** One that is to show it is on its way: the next will be in some seconds. */
  tried(modules: readonly number[], at: number): void {
    for (const module of modules) this.toldAt[module] = at;
  }

  /** A request made so many parts in the module. */
  made(module: number, parts: number): void {
    const weight = Math.max(NEWEST_PARTS, 1 / ++this.fannedOut[module]!);
    this.madeParts[module]! += (parts - this.madeParts[module]!) * weight;
  }

  /** Parts that a request makes in the module, in the mean; undefined: none has yet. Those of a few seconds are too few to tell. */
  partsMade(module: number): number | undefined {
    return this.fannedOut[module] === 0 ? undefined : this.madeParts[module];
  }
}
