/** What parts of a fan-out that come together still have before them, which one part alone has not. */
import type { Pipeline } from "../pipeline.js";

/** Which part of a fan-out a request is in a module, and how many there are; see Flow. */
export interface PartFrames {
  aroundOf(frame: number): number;
  togetherOf(frame: number): number;
}

/** Of a part, with all that come together with it: time in the module, and in all before and after it along the longest way. */
export interface Work {
  readonly ownUs: number;
  readonly beforeUs: number;
  readonly afterUs: number;
}

interface Known extends Work {
  /** Parts of each fan-out around the module, innermost first. */
  readonly counts: readonly number[];
}

/**
 * n parts of a fan-out come to its modules at one moment and queue for the same accelerators: the last of them is there for the
 * time of all. So in the modules of the parts the work is that of n, after the join that of one again. A fan-out that is not around the
 * part, as it is still ahead or was joined before, counts as many parts as it nearly always made at most of late; as one, where that is not known.
 */
export class PartWork {
  private readonly pipeline: Pipeline;
  private readonly ownUs: (module: number, count: number, beside: number) => number;
  /** By module that fans out: parts of the request at hand; 0: not around the module. */
  private readonly counts: Float64Array;
  /** By module: the last that was asked for. Siblings ask for the same. */
  private readonly known: (Known | null)[];
  /** By module that fans out: parts that it nearly always makes at most, and as often more as fewer. */
  private readonly most: Float64Array;
  private readonly median: Float64Array;

  /** @param ownUs of so many parts in a module, until the last is done; beside: as many as that others have which were begun at the same time. */
  constructor(pipeline: Pipeline, ownUs: (module: number, count: number, beside: number) => number) {
    this.pipeline = pipeline;
    this.ownUs = ownUs;
    this.counts = new Float64Array(pipeline.modules.length);
    this.known = pipeline.modules.map(() => null);
    this.most = new Float64Array(pipeline.modules.length).fill(1);
    this.median = new Float64Array(pipeline.modules.length).fill(1);
  }

  /** How many parts the module makes, where it fans out. */
  makes(module: number, most: number, median: number): void {
    this.most[module] = most;
    this.median[module] = median;
    this.forget();
  }

  /** By module, of a request that is no part: time in all after or before it along the longest way. */
  along(direction: "subs" | "pres"): Float64Array {
    this.counts.fill(0);
    return this.pipeline.longestNeeded(direction, (module) =>
      this.ownUs(module, this.countIn(module), this.countIn(module, this.median)),
    );
  }

  /** Times of modules changed. */
  forget(): void {
    this.known.fill(null);
  }

  /** @param frame of the part that comes to the module. */
  of(module: number, frame: number, frames: PartFrames): Work {
    const known = this.known[module]!;
    if (known !== null && this.isOf(known, frame, frames)) return known;
    const { counts, pipeline } = this;
    counts.fill(0);
    const around: number[] = [];
    let at = frame;
    for (let opener = pipeline.scope[module]!; opener >= 0; opener = pipeline.gathersIn[opener]!) {
      counts[opener] = frames.togetherOf(at);
      around.push(counts[opener]!);
      at = frames.aroundOf(at);
    }
    const usOf = (each: number): number => this.ownUs(each, this.countIn(each), 0);
    const found = {
      counts: around,
      ownUs: usOf(module),
      beforeUs: pipeline.longestNeeded("pres", usOf)[module]!,
      afterUs: pipeline.longestNeeded("subs", usOf)[module]!,
    };
    this.known[module] = found;
    return found;
  }

  private isOf({ counts }: Known, frame: number, frames: PartFrames): boolean {
    let at = frame;
    for (const count of counts) {
      if (frames.togetherOf(at) !== count) return false;
      at = frames.aroundOf(at);
    }
    return true;
  }

  private countIn(module: number, usual = this.most): number {
    const { counts, pipeline } = this;
    let parts = 1;
    let opener = pipeline.scope[module]!;
    for (; opener >= 0 && counts[opener] === 0; opener = pipeline.gathersIn[opener]!) parts *= usual[opener]!;
    return opener < 0 ? parts : parts * counts[opener]!;
  }
}

/**
 * Until the last of so many requests is done that come at once and have all accelerators to themselves, each with its part of them in
 * full batches. @param execUs of a batch of this size. @param beside so many more are there for each accelerator but one.
 * @param eachUs of each, as measured, in place of execUs; NaN: not known.
 */
export function togetherUs(
  count: number,
  accelerators: number,
  sizeMax: number,
  execUs: (size: number) => number,
  beside = 0,
  eachUs = Number.NaN,
): number {
  const each = Math.ceil((count + (accelerators - 1) * beside) / accelerators);
  if (!Number.isNaN(eachUs)) return Math.ceil(each * eachUs);
  const full = Math.floor(each / sizeMax);
  const rest = each % sizeMax;
  return full * (full === 0 ? 0 : execUs(sizeMax)) + (rest === 0 ? 0 : execUs(rest));
}
