/** Which modules run on which ways through a graph, each choice of every branch being a way. */
import type { Pipeline } from "../../../system/pipeline.js";

export const WAYS_MAX = 4096;

export class Ways {
  readonly count: number;
  private readonly pipeline: Pipeline;
  private readonly branches: readonly number[];
  /** By module: 1 for each way on which it runs. */
  private readonly runs: readonly Uint8Array[];

  /** @param pipeline whose ways are at most WAYS_MAX; see waysOf. */
  constructor(pipeline: Pipeline) {
    this.pipeline = pipeline;
    this.branches = branchesOf(pipeline);
    this.count = waysOf(pipeline);
    this.runs = pipeline.modules.map(() => new Uint8Array(this.count));
    for (let way = 0; way < this.count; way++) this.walk(way);
  }

  /**
   * A way on which `taker` runs and none of the others does; -1: there is none.
   * @param within looked at only where this module runs, too; null: everywhere.
   */
  without(taker: number | null, others: readonly number[], within: number | null = null): number {
    for (let way = 0; way < this.count; way++) {
      const isLookedAt = [taker, within].every((module) => module === null || this.runs[module]![way] === 1);
      if (isLookedAt && others.every((module) => this.runs[module]![way] === 0)) return way;
    }
    return -1;
  }

  /** The choices of a way, in words. @param titleOf a module's name for people. */
  describe(way: number, titleOf: (module: number) => string): string {
    return this.branches
      .filter((branch) => this.runs[branch]![way] === 1)
      .map((branch) => `${titleOf(branch)} leads to ${titleOf(this.chosen(branch, way))}`)
      .join(", ");
  }

  private walk(way: number): void {
    const { pipeline, runs } = this;
    for (const module of pipeline.order) {
      const pres = pipeline.pres[module]!;
      const isLed = pres.some(
        (pre) => runs[pre]![way] === 1 && (!pipeline.modules[pre]!.branches || this.chosen(pre, way) === module),
      );
      // Parts of a fan-out that went elsewhere are joined all the same.
      const isJoined = pipeline.joinsOf.some((joins, opener) => joins.includes(module) && runs[opener]![way] === 1);
      if (pres.length === 0 || isLed || isJoined) runs[module]![way] = 1;
    }
  }

  /** Each branch is a digit of the way's number. */
  private chosen(branch: number, way: number): number {
    let rest = way;
    for (const other of this.branches) {
      const subs = this.pipeline.subs[other]!;
      if (other === branch) return subs[rest % subs.length]!;
      rest = Math.floor(rest / subs.length);
    }
    return -1;
  }
}

const branchesOf = ({ modules }: Pipeline): number[] =>
  modules.flatMap(({ branches }, module) => (branches ? [module] : []));

/** How many ways there are. */
export const waysOf = (pipeline: Pipeline): number =>
  branchesOf(pipeline).reduce((product, branch) => product * pipeline.subs[branch]!.length, 1);
