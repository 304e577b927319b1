import { NOT_EXECUTED } from "./allocation/allocation.js";
import type { ElasticTimes } from "./elastic-times.js";
import type { BatchLine, WorkPlanner } from "./planners/work-planner.js";
import type { PoolBatch, Start, WaitingPool } from "./pools/waiting-pool.js";

/** Batches that a plan looks at, those of the earliest deadlines: what is behind them runs after several seconds. */
export const BATCHES_MAX = 256;

/** The waiting batches in deadline order, and what is planned for those that one accelerator is dealt. */
export class PlannedLine {
  /** Batches that wait, the earliest deadline first. */
  private readonly sorted: PoolBatch[] = [];
  /** Those of the plan, as a problem. */
  private readonly dealt: PoolBatch[] = [];
  private readonly dueAt = new Float64Array(BATCHES_MAX);
  private readonly timeUs: Float64Array;
  private readonly utility: Float64Array;
  private readonly chosen = new Int32Array(BATCHES_MAX);
  /** By way: requests of a batch at most, by memory. */
  private readonly sizeMax: Int32Array;
  private turns = 1;
  private start: Start = { startAt: 0, dataUs: 0, scale: 1 };
  private readonly pool: WaitingPool;
  private readonly times: ElasticTimes;

  /** @param sizes see ElasticTimes.sizesWithin. */
  constructor(pool: WaitingPool, times: ElasticTimes, sizes: Int32Array) {
    this.pool = pool;
    this.times = times;
    this.timeUs = new Float64Array(BATCHES_MAX * times.count);
    this.utility = new Float64Array(BATCHES_MAX * times.count);
    this.sizeMax = sizes;
  }

  get length(): number {
    return this.sorted.length;
  }

  /** Requests that a batch of this way may hold. */
  sizeMaxBy(way: number): number {
    return this.sizeMax[way]!;
  }

  /** @param index of the deadline order. */
  batchAt(index: number): PoolBatch {
    return this.sorted[index]!;
  }

  /** What was planned for it last. */
  wayAt(index: number): number {
    return this.chosen[Math.floor(index / this.turns)]!;
  }

  /** Looks at what waits. */
  read(start: Start): void {
    const { sorted, pool } = this;
    this.start = start;
    sorted.length = 0;
    for (const batch of pool.grouped(start)) {
      let at = sorted.length;
      while (at > 0 && sorted[at - 1]!.members.deadlineAt(0) > batch.members.deadlineAt(0)) at--;
      sorted.splice(at, 0, batch);
    }
    if (sorted.length > BATCHES_MAX) sorted.length = BATCHES_MAX;
  }

  /**
   * Plans every `turns`th batch, from the `turn`th on. @returns the first that is to be executed, in the deadline order; -1: none.
   */
  plan(work: WorkPlanner, turn: number, turns: number, accelerators: number, at: number): number {
    const { sorted, dealt, chosen, pool } = this;
    const { startAt, scale } = this.start;
    this.turns = turns;
    dealt.length = 0;
    for (let index = turn; index < sorted.length; index += turns) this.deal(sorted[index]!);
    const { dueAt, timeUs, utility } = this;
    const line: BatchLine = {
      batches: dealt,
      count: dealt.length,
      dueAt,
      timeUs,
      utility,
      startAt,
      scale,
      accelerators,
    };
    work.plan(line, chosen, at);
    let first = 0;
    while (first < dealt.length && chosen[first] === NOT_EXECUTED) first++;
    if (first === dealt.length) return -1;
    for (let index = 0; index < first; index++) pool.passedOver(dealt[index]!, true);
    pool.passedOver(dealt[first]!, false);
    return turn + first * turns;
  }

  private deal(batch: PoolBatch): void {
    const { dealt, times } = this;
    const { dataUs, scale } = this.start;
    const { length } = batch.members;
    const row = dealt.length * times.count;
    this.dueAt[dealt.length] = batch.members.deadlineAt(0);
    for (let way = 0; way < times.count; way++) {
      const size = Math.min(length, this.sizeMax[way]!);
      this.timeUs[row + way] =
        size === 0 ? Number.POSITIVE_INFINITY : Math.ceil(times.timeUs(way, size) * scale) + (size - 1) * dataUs;
      this.utility[row + way] = (batch.earns[way]! * size) / length;
    }
    dealt.push(batch);
  }
}
