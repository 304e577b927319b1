/**
 * Who runs next, together, and with which gamma, of all that wait (past the paper)?
 *
 * OTAS puts a request into a batch when it arrives, by utilities that differ by at most mu = 0.8, and chooses gammas for the batches that
 * came about. So what earns 0.01 takes the gamma and the time of what earns 1. Here all waiting requests are grouped afresh whenever an
 * accelerator is free: a request goes, in deadline order, to those that would want the same gamma at some price of time. At price 0 all
 * want the same, and batches are large; the higher the price the more those apart whose utilities are.
 */
import { type AllocationProblem, type Allocator, NOT_EXECUTED } from "./allocation.js";

/** In deadline order; rows may be longer than what is used. */
export interface WaitingRequests {
  readonly count: number;
  /** Moment, µs. */
  readonly dueAt: Float64Array;
  readonly kind: Int32Array;
  readonly utility: Float64Array;
}

export interface RegroupingOptions {
  readonly requestsMax: number;
  /** Requests of a batch. */
  readonly sizeMax: number;
  /** Plans look at so many batches, those of the earliest deadlines. */
  readonly batchesMax: number;
  readonly gammas: number;
  /** [kinds x gammas] */
  readonly accuracy: Float64Array;
  /** Of a batch, µs; Infinity where memory is short. */
  readonly timeUs: (gamma: number, size: number) => number;
  readonly allocator: Allocator;
}

export class Regrouping {
  /** Of the next batch: how many, 0: nothing runs. */
  size = 0;
  gamma = NOT_EXECUTED;
  /** Of the next batch: indices into the waiting requests, the earliest deadline first. */
  readonly members: Int32Array;

  private readonly problem: AllocationProblem & { count: number };
  private readonly chosen: Int32Array;
  /** By batch: requests. */
  private readonly sizes: Int32Array;
  /** By wanted gamma, the last for none: the batch that takes more of those, -1: none. */
  private readonly open: Int32Array;
  /** By gamma: time of one more request in a full batch, its share of all, µs. */
  private readonly costUs: Float64Array;
  /** By size: time of a batch with the gamma that takes least, µs. */
  private readonly leastUs: Float64Array;
  /** By request: its batch, NOT_EXECUTED: none. */
  private readonly batch: Int32Array;
  private readonly options: RegroupingOptions;

  constructor(options: RegroupingOptions) {
    const { requestsMax, batchesMax, gammas } = options;
    this.options = options;
    this.members = new Int32Array(options.sizeMax);
    const cells = batchesMax * gammas;
    const [timeUs, utility] = [new Float64Array(cells), new Float64Array(cells)];
    this.problem = { count: 0, gammas, dueAt: new Float64Array(batchesMax), timeUs, utility };
    this.chosen = new Int32Array(batchesMax);
    this.sizes = new Int32Array(batchesMax);
    this.open = new Int32Array(gammas + 1);
    this.costUs = new Float64Array(gammas);
    this.leastUs = new Float64Array(options.sizeMax + 1);
    this.batch = new Int32Array(requestsMax);
  }

  /**
   * Decides what runs next: see size, gamma, members.
   *
   * @param now when the accelerator is free, µs. @param price of its time, utility per µs (TimeDemand.price).
   * @param groupingPrice at which requests want what they want (TimeDemand.priceOfShare).
   * @returns utility of the plan less the price of its time.
   * @throws RangeError if more requests wait than it has rows for: a caller's bug.
   */
  decide(waiting: WaitingRequests, now: number, price: number, groupingPrice: number): number {
    const { requestsMax, allocator } = this.options;
    if (waiting.count > requestsMax)
      throw new RangeError(`requests must be at most ${requestsMax}; were ${waiting.count}`);
    this.readTimes();
    this.group(waiting, now, groupingPrice);
    this.weigh(waiting, price);
    const worth = allocator.allocate(this.problem, now, this.chosen);
    this.takeFirst(waiting.count);
    return worth;
  }

  /** They may have been learnt anew. */
  private readTimes(): void {
    const { sizeMax, gammas, timeUs } = this.options;
    this.leastUs.fill(Number.POSITIVE_INFINITY);
    for (let gamma = 0; gamma < gammas; gamma++) {
      this.costUs[gamma] = timeUs(gamma, sizeMax) / sizeMax;
      for (let size = 1; size <= sizeMax; size++)
        this.leastUs[size] = Math.min(this.leastUs[size]!, timeUs(gamma, size));
    }
  }

  /** In deadline order every request joins those that want the same gamma at this price. */
  private group({ count, dueAt, kind, utility }: WaitingRequests, now: number, price: number): void {
    const { open, sizes, batch, problem } = this;
    open.fill(NOT_EXECUTED);
    problem.count = 0;
    for (let request = 0; request < count; request++) {
      const wanted = this.wantedGamma(kind[request]!, utility[request]!, price);
      if (!this.takesOneMore(open[wanted]!, now)) open[wanted] = this.begin(dueAt[request]!, now);
      batch[request] = open[wanted]!;
      if (open[wanted] !== NOT_EXECUTED) sizes[open[wanted]!]!++;
    }
  }

  /** The earliest decides how many can be in time. */
  private takesOneMore(batch: number, now: number): boolean {
    if (batch === NOT_EXECUTED) return false;
    const size = this.sizes[batch]! + 1;
    return size <= this.options.sizeMax && now + this.leastUs[size]! <= this.problem.dueAt[batch]!;
  }

  /** @returns NOT_EXECUTED for who cannot be in time alone, and where there are enough batches. */
  private begin(dueAt: number, now: number): number {
    if (this.problem.count === this.options.batchesMax || now + this.leastUs[1]! > dueAt) return NOT_EXECUTED;
    this.problem.dueAt[this.problem.count] = dueAt;
    this.sizes[this.problem.count] = 0;
    return this.problem.count++;
  }

  /** @returns the number of gammas if it is not worth its time with any. */
  private wantedGamma(kind: number, utility: number, price: number): number {
    const { gammas, accuracy } = this.options;
    let wanted = gammas;
    let most = 0;
    for (let gamma = 0; gamma < gammas; gamma++) {
      const worth = utility * accuracy[kind * gammas + gamma]! - price * this.costUs[gamma]!;
      if (!(worth > most)) continue;
      most = worth;
      wanted = gamma;
    }
    return wanted;
  }

  /** Batches are worth what their requests earn less what their time is worth. */
  private weigh({ count, kind, utility }: WaitingRequests, price: number): void {
    const { gammas, accuracy, timeUs } = this.options;
    const { problem, sizes, batch } = this;
    for (let into = 0; into < problem.count; into++)
      for (let gamma = 0; gamma < gammas; gamma++) {
        const cell = into * gammas + gamma;
        problem.timeUs[cell] = timeUs(gamma, sizes[into]!);
        problem.utility[cell] = -price * problem.timeUs[cell]!;
      }
    for (let request = 0; request < count; request++) {
      if (batch[request] === NOT_EXECUTED) continue;
      const [cell, row] = [batch[request]! * gammas, kind[request]! * gammas];
      for (let gamma = 0; gamma < gammas; gamma++)
        problem.utility[cell + gamma]! += utility[request]! * accuracy[row + gamma]!;
    }
  }

  private takeFirst(count: number): void {
    const { chosen, problem, sizes, batch, members } = this;
    let first = 0;
    while (first < problem.count && chosen[first] === NOT_EXECUTED) first++;
    this.size = 0;
    this.gamma = first < problem.count ? chosen[first]! : NOT_EXECUTED;
    if (first === problem.count) return;
    for (let request = 0; request < count && this.size < sizes[first]!; request++)
      if (batch[request] === first) members[this.size++] = request;
  }
}
