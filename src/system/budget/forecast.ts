/** What the modules after each will take of a request (PARD's State Planner, §4.2): L_sub of Eq. 3b. */
import { AHEAD_DEFAULTS, Ahead, type AheadOptions } from "../ahead/ahead.js";
import { DEFAULT_CLASS } from "../ahead/request-classes.js";
import type { Board, BoardRow } from "../board.js";
import { columnOf } from "../module-states.js";
import type { Pipeline } from "../pipeline.js";
import { BatchWaits, SAMPLES } from "./batch-waits.js";
import type { PartFrames } from "./part-work.js";
import { type Paths, pathsOf, stepsOf } from "./paths.js";

/** Of samples, each second, beside requests: where a pipeline is so long that there are more, there are fewer samples. */
const ADDITIONS_MAX = 5_000_000;
const DELAY_US = columnOf("delay_us");
const EXEC_US = columnOf("exec_us");
const LENGTHS_US = columnOf("lengths_us");

/** Whose request a frame is, too. */
export interface RequestFrames extends PartFrames {
  classOf(frame: number): number;
}

export interface ForecastOptions extends Partial<AheadOptions> {
  /** Part of requests whose waits in later batches are at most what is reckoned; 0: none is reckoned; 1: whole executions. */
  readonly lambda: number;
  readonly seed: number;
}

/**
 * L_sub of a module: over the modules after it, the sum of their mean queueing delays and execution times and a quantile of their
 * waits in batches together; over several ways, that of the way where it is largest. Who published nothing lately takes its least
 * time and delays nobody: what is not measured refuses nobody.
 *
 * From Eq. 3b, of modules k+1 to N: the wait in module k is in the start that its broker plans. (The paper's example of four modules
 * has w_1 over all four.)
 *
 * Where requests differ in what is ahead of them and the options say how (AheadOptions), it is reckoned from samples in place of that; see Ahead.
 */
export class Forecast {
  /** By module, µs. */
  readonly afterUs: Float64Array;
  private readonly lambda: number;
  private readonly leastUs: Float64Array;
  /** By module: the ways from it, of the modules after it. */
  private readonly paths: Paths;
  /** Null: `ahead` says it all. */
  private readonly waits: BatchWaits | null;
  private readonly delayUs: Float64Array;
  private readonly execUs: Float64Array;
  /** Mean of those that `execUs` is of; 0: not known. */
  private readonly lengthsUs: Float64Array;
  /** Null: the options are PARD's, or there is nothing that they are about. */
  private readonly ahead: Ahead | null;

  /** @param leastUs least time of one request, by module. */
  constructor(pipeline: Pipeline, leastUs: Float64Array, { lambda, seed, ...more }: ForecastOptions) {
    this.lambda = lambda;
    this.leastUs = leastUs;
    this.paths = pathsOf(pipeline, leastUs);
    this.delayUs = new Float64Array(leastUs.length);
    this.execUs = leastUs.slice();
    this.lengthsUs = new Float64Array(leastUs.length);
    this.afterUs = new Float64Array(leastUs.length);
    const options = { ...AHEAD_DEFAULTS, ...more };
    this.ahead = isSampled(pipeline, options) ? new Ahead(pipeline, leastUs, { ...options, lambda, seed }) : null;
    const samples = Math.min(SAMPLES, Math.floor(ADDITIONS_MAX / Math.max(1, stepsOf(this.paths))));
    this.waits = this.ahead === null ? new BatchWaits(pipeline.modules.length, seed, samples) : null;
    this.reckon();
  }

  /** What a part takes in the module. @param lengthsUs alone, by its lengths: such took so many times as long lately; 0: as all did. */
  ownUs(module: number, lengthsUs: number): number {
    const meanUs = this.lengthsUs[module]!;
    if (lengthsUs === 0) return this.execUs[module]!;
    return meanUs === 0 ? lengthsUs : (lengthsUs * this.execUs[module]!) / meanUs;
  }

  /** The modules published. */
  published(states: Board, at: number): void {
    const row = states.blank();
    for (const module of this.leastUs.keys()) {
      const said = states.read(module, at, row) === "fresh" ? row : null;
      this.told(module, said);
      this.ahead?.told(module, said);
    }
    this.reckon();
    this.ahead?.reckon();
  }

  /** Of a part that comes to the module. @param frame its own, of `frames`; null: nothing is known of it. */
  of(module: number, frame: number, frames: RequestFrames | null): number {
    if (this.ahead === null) return this.afterUs[module]!;
    return this.ahead.afterUs(
      module,
      frames?.classOf(frame) ?? DEFAULT_CLASS,
      frames === null ? 1 : siblings(frame, frames),
    );
  }

  private told(module: number, row: BoardRow | null): void {
    this.delayUs[module] = row === null ? 0 : row.value(DELAY_US);
    this.execUs[module] = row === null ? this.leastUs[module]! : row.value(EXEC_US);
    this.lengthsUs[module] = row === null ? 0 : row.value(LENGTHS_US);
    this.waits?.told(module, row);
  }

  private reckon(): void {
    if (this.waits === null) return;
    for (const [module, paths] of this.paths.entries())
      this.afterUs[module] = paths.reduce((most, path) => Math.max(most, this.takesUs(path)), 0);
  }

  private takesUs(path: readonly number[]): number {
    let delaysUs = 0;
    let execUs = 0;
    for (const module of path) {
      delaysUs += this.delayUs[module]!;
      execUs += this.execUs[module]!;
    }
    return delaysUs + execUs + this.waitUs(path, execUs);
  }

  private waitUs(path: readonly number[], execUs: number): number {
    if (this.lambda === 0) return 0;
    return this.lambda === 1 ? execUs : this.waits!.quantileUs(path, this.lambda);
  }
}

function isSampled({ modules }: Pipeline, { executions, ways, joins }: AheadOptions): boolean {
  return (
    executions === "distribution" ||
    (ways === "learnt" && modules.some(({ branches }) => branches)) ||
    (joins === "slowest" && modules.some(({ fansOut }) => fansOut))
  );
}

/** Parts of the fan-out that the frame is one of, itself among them; 1: it is a request. */
function siblings(frame: number, frames: RequestFrames): number {
  const around = frames.aroundOf(frame);
  return around < 0 ? 1 : frames.togetherOf(frame) / frames.togetherOf(around);
}
