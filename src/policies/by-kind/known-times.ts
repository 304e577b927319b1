import { violated } from "../../core/invariant.js";
import type { GivenBatch, LatencyModel } from "../../core/latency/latency.js";
import type { QueueSpec } from "../../core/policy.js";
import { TimesByKind } from "./times-by-kind.js";

/** What choosers ask of times. A table is the distribution of the longest member of a batch, by `join`. */
export type GroupTimes = Pick<
  TimesByKind,
  | "sizeMax"
  | "execUs"
  | "version"
  | "arrived"
  | "table"
  | "join"
  | "meanOf"
  | "chanceOf"
  | "batchUs"
  | "longestWithin"
  | "meanAloneUs"
  | "aloneQuantileUs"
  | "partOfFullBatch"
>;

/**
 * The same where every request of a kind takes as long and that is known: a table is one number, the longest member's time, and
 * no more is left to chance. Nothing is learnt. For what knowledge of times would be worth; in service kinds have distributions.
 */
export class KnownTimes implements LatencyModel, GroupTimes {
  readonly sizeMax: number;
  readonly execUs: Float64Array;
  readonly version = 0;
  private readonly aloneUs: Float64Array;
  /** What a batch takes by size, where nothing is measured. */
  private readonly any: TimesByKind;

  /** @throws InvariantViolation where a kind has not one time. */
  constructor(spec: QueueSpec) {
    this.any = new TimesByKind(spec, { windowUs: 1 });
    this.sizeMax = this.any.sizeMax;
    this.execUs = this.any.execUs;
    this.aloneUs = Float64Array.from(spec.kinds ?? [], ({ name, aloneUs }) =>
      aloneUs.length === 1
        ? aloneUs[0]!
        : violated(`kind ${name} must have 1 time that is known; had ${aloneUs.length}`),
    );
  }

  arrived(): void {}

  table(): Float64Array {
    return new Float64Array(1);
  }

  join(longest: Float64Array, kind: number, isFirst: boolean): void {
    longest[0] = isFirst ? this.meanAloneUs(kind) : Math.max(longest[0]!, this.meanAloneUs(kind));
  }

  meanOf(longest: Float64Array): number {
    return longest[0]!;
  }

  chanceOf(longest: Float64Array, us: number): number {
    return us >= longest[0]! ? 1 : 0;
  }

  batchUs(size: number, longestUs: number): number {
    return this.any.batchUs(size, longestUs);
  }

  longestWithin(size: number, us: number): number {
    return this.any.longestWithin(size, us);
  }

  meanAloneUs(kind: number): number {
    return this.aloneUs[kind]!;
  }

  aloneQuantileUs(kind: number): number {
    return this.aloneUs[kind]!;
  }

  partOfFullBatch(kind: number): number {
    return this.any.partOfFullBatch(kind);
  }

  quantileUs(size: number, q: number): number {
    return this.any.quantileUs(size, q);
  }

  givenUs({ batch, batches, requests }: GivenBatch): number {
    let longestUs = 0;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!)
      longestUs = Math.max(longestUs, this.meanAloneUs(requests.kind[member]!));
    return this.batchUs(batches.executedSize[batch]!, longestUs);
  }

  measured(): boolean {
    return false;
  }
}
