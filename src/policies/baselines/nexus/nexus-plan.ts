import type { QueueKey } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";

/** One model's share of one accelerator; rates per µs. */
export interface NexusLoad {
  readonly key: QueueKey;
  /** Requests that were assigned to it: the batch gathers them in one duty cycle. */
  rate: number;
  /** Planned batch. */
  batch: number;
  /** A batch per duty cycle: at least the rate, since batches are whole and cycles bounded. Requests are shared by it. */
  throughput: number;
}

/** What the planner must know of a model on an accelerator. */
export interface NexusProfile {
  /** Planned time of a batch of b there, µs. */
  us(key: QueueKey, batch: number, accelerator: AcceleratorId): number;
  sizeMax(key: QueueKey): number;
  /** SLO less the network allowance, µs: bounds the largest batch. */
  budgetUs(key: QueueKey): number;
  /** The SLO itself, µs: bounds the duty cycle. */
  sloUs(key: QueueKey): number;
}

/** An accelerator whose plan is exceeded by more than this is unloaded and filled anew. */
const OVERLOAD = 1.05;
/** A model that asks for less than this share of its plan gives accelerators up. */
const SHRINK = 0.97;
/** Part of a request in a duty cycle that is not worth another place in the batch. */
const ROUNDING = 0.001;
/** Requests per µs: slower than this models are planned for as if they were this fast (0.1 a second). */
const RATE_MIN = 1e-7;
/** Requests per µs that count as none (a thousandth a second). */
const RATE_NONE = 1e-9;
const SEARCH_STEPS = 30;

/**
 * Nexus's plan: which model runs on which accelerator, how often and in which batches; squishy bin packing.
 *
 * An accelerator turns round its models once per duty cycle; a model's batch gathers what arrives in one cycle. Models
 * fit together when their batches do within the shortest of their cycles.
 */
export class NexusPlan {
  /** Loads per accelerator, in order of their keys; absent accelerators hold none. */
  readonly loads: NexusLoad[][];
  private readonly profile: NexusProfile;

  constructor(capacity: number, profile: NexusProfile) {
    this.loads = Array.from({ length: capacity }, () => []);
    this.profile = profile;
  }

  loadOf(key: QueueKey, accelerator: AcceleratorId): NexusLoad | undefined {
    return this.loads[accelerator]!.find((load) => load.key === key);
  }

  /** Planned throughput of a model over all accelerators. */
  throughput(key: QueueKey): number {
    let total = 0;
    for (const loads of this.loads) for (const load of loads) if (load.key === key) total += load.throughput;
    return total;
  }

  forget(key: QueueKey): void {
    for (const loads of this.loads) this.drop(loads, key);
  }

  /** Largest batch whose time is within half the budget: in the worst case a request waits for one batch before its own. */
  largestBatch(key: QueueKey, accelerator: AcceleratorId): number {
    const { profile } = this;
    const halfUs = profile.budgetUs(key) / 2;
    let batch = 1;
    while (batch < profile.sizeMax(key) && profile.us(key, batch + 1, accelerator) <= halfUs) batch++;
    return batch;
  }

  /** Throughput of a whole accelerator at its largest batch. */
  capacity(key: QueueKey, accelerator: AcceleratorId): number {
    const batch = this.largestBatch(key, accelerator);
    return batch / this.profile.us(key, batch, accelerator);
  }

  /**
   * One epoch: plans for these rates, changing what stands as little as the rates ask.
   * @param rates per µs by key. @param present accelerators that may be used, ascending.
   */
  replan(rates: ReadonlyMap<QueueKey, number>, present: readonly AcceleratorId[]): void {
    const rest = new Map<QueueKey, number>();
    this.loads.forEach((loads, id) => {
      if (!present.includes(id)) loads.length = 0;
      else for (const { key } of [...loads]) if (!rates.has(key)) this.drop(loads, key);
    });
    const overloaded = new Set<AcceleratorId>();
    for (const [key, measured] of rates) {
      const rate = Math.max(measured, RATE_MIN);
      const planned = this.throughput(key);
      if (rate < SHRINK * planned) this.shrink(key, rate, present);
      else if (rate > planned) {
        const left = this.raise(key, rate, present, overloaded);
        if (left > RATE_NONE) rest.set(key, left);
      }
    }
    for (const id of overloaded) this.refill(id, rest);
    const order = [...rest].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    for (const [key, rate] of order) this.place(key, rate, present);
    for (const key of rates.keys()) if (this.throughput(key) === 0) this.squeeze(key, present);
    for (const id of present) this.setBatches(id);
  }

  /** Accelerators of a model, largest share first. */
  private sharesOf(key: QueueKey, present: readonly AcceleratorId[]): { id: AcceleratorId; load: NexusLoad }[] {
    const shares: { id: AcceleratorId; load: NexusLoad }[] = [];
    for (const id of present) {
      const load = this.loadOf(key, id);
      if (load !== undefined) shares.push({ id, load });
    }
    return shares.sort((a, b) => b.load.throughput - a.load.throughput || a.id - b.id);
  }

  /** Shares stay as they are until the rate is used up; where it ends the share becomes what is left. */
  private shrink(key: QueueKey, rate: number, present: readonly AcceleratorId[]): void {
    let left = rate;
    for (const { id, load } of this.sharesOf(key, present)) {
      if (left <= RATE_NONE) this.drop(this.loads[id]!, key);
      else if (load.throughput > left) this.assign(load, left, id);
      left -= load.throughput;
    }
  }

  /** Shares grow to what is left of the rate, the largest first. @returns what its accelerators cannot take. */
  private raise(
    key: QueueKey,
    rate: number,
    present: readonly AcceleratorId[],
    overloaded: Set<AcceleratorId>,
  ): number {
    let left = rate;
    for (const { id, load } of this.sharesOf(key, present)) {
      if (left <= RATE_NONE) {
        this.drop(this.loads[id]!, key);
        continue;
      }
      this.assign(load, left, id);
      left -= load.throughput;
      if (this.occupancy(this.loads[id]!, id) > OVERLOAD) overloaded.add(id);
    }
    return Math.max(0, left);
  }

  /** Gives a share this rate, or as much of it as the accelerator could carry alone. */
  private assign(load: NexusLoad, rate: number, id: AcceleratorId): void {
    load.rate = Math.min(rate, this.capacity(load.key, id));
    const { batch, cycleUs } = this.alone(load, id);
    load.throughput = cycleUs > 0 ? batch / cycleUs : load.rate;
  }

  /** From the longest execution to the shortest, what fits stays; the rest is to be placed anew. */
  private refill(id: AcceleratorId, rest: Map<QueueKey, number>): void {
    const loads = this.loads[id]!;
    this.setBatches(id);
    const { profile } = this;
    const byTime = [...loads].sort(
      (a, b) => profile.us(b.key, b.batch, id) - profile.us(a.key, a.batch, id) || a.key - b.key,
    );
    loads.length = 0;
    for (const load of byTime) {
      if (this.occupancy([...loads, load], id) <= 1) this.add(loads, load);
      else rest.set(load.key, (rest.get(load.key) ?? 0) + load.rate);
    }
  }

  /** Best fit: the accelerator that can carry the whole rest and is fullest then; else the one that carries most of it. */
  private place(key: QueueKey, rate: number, present: readonly AcceleratorId[]): void {
    for (let left = rate; left > RATE_NONE; ) {
      let best: AcceleratorId = -1;
      let bestRate = 0;
      let bestOccupancy = 0;
      for (const id of present) {
        if (this.loadOf(key, id) !== undefined) continue;
        const carried = this.carries(key, left, id);
        if (carried <= 0 || carried < bestRate) continue;
        const occupancy = this.occupancy([...this.loads[id]!, share(key, carried)], id);
        if (carried > bestRate || occupancy > bestOccupancy) {
          best = id;
          bestRate = carried;
          bestOccupancy = occupancy;
        }
      }
      if (best < 0) return;
      const load = share(key, bestRate);
      this.add(this.loads[best]!, load);
      this.setBatches(best);
      left -= load.throughput;
    }
  }

  /** How much of `rate` the accelerator can carry beside what it holds. */
  private carries(key: QueueKey, rate: number, id: AcceleratorId): number {
    const loads = this.loads[id]!;
    const fits = (carried: number) => this.occupancy([...loads, share(key, carried)], id) <= 1;
    const most = Math.min(rate, this.capacity(key, id));
    if (fits(most)) return most;
    let low = 0;
    let high = most;
    for (let step = 0; step < SEARCH_STEPS; step++) {
      const middle = (low + high) / 2;
      if (fits(middle)) low = middle;
      else high = middle;
    }
    return low >= RATE_MIN ? low : 0;
  }

  /** No accelerator has room: the model goes where least is planned, beyond what fits, rather than nowhere. */
  private squeeze(key: QueueKey, present: readonly AcceleratorId[]): void {
    let best: AcceleratorId = -1;
    let least = Number.POSITIVE_INFINITY;
    for (const id of present) {
      const occupancy = this.occupancy(this.loads[id]!, id);
      if (occupancy < least) {
        best = id;
        least = occupancy;
      }
    }
    if (best >= 0) this.add(this.loads[best]!, share(key, RATE_MIN));
  }

  /**
   * Batch and duty cycle of a share alone on its accelerator; cycle 0: too slow for it.
   *
   * The cycle is as long as the SLO and the batch allow, so the last accelerator of a model, whose batch is rounded up to
   * whole requests, carries more than it was assigned and takes load off the full ones.
   */
  private alone(load: NexusLoad, id: AcceleratorId): { batch: number; cycleUs: number } {
    const { profile } = this;
    const { key, rate } = load;
    const largest = this.largestBatch(key, id);
    const largestUs = profile.us(key, largest, id);
    if (rate >= largest / largestUs) return { batch: largest, cycleUs: largestUs };
    const sloUs = profile.sloUs(key);
    let batch = 0;
    while (batch < largest && batch / rate + profile.us(key, batch + 1, id) <= sloUs) batch++;
    if (batch === 0) return { batch: 1, cycleUs: 0 };
    return { batch, cycleUs: Math.min(sloUs - profile.us(key, batch, id), batch / rate) };
  }

  /** Share of the shortest duty cycle that all batches take; above 1 they do not fit. */
  private occupancy(loads: readonly NexusLoad[], id: AcceleratorId): number {
    if (loads.length === 0) return 0;
    const { cycleUs, batches } = this.together(loads, id);
    let totalUs = 0;
    loads.forEach((load, index) => {
      totalUs += this.profile.us(load.key, batches[index]!, id);
    });
    return cycleUs > 0 ? totalUs / cycleUs : Number.POSITIVE_INFINITY;
  }

  private together(loads: readonly NexusLoad[], id: AcceleratorId): { cycleUs: number; batches: number[] } {
    const each = loads.map((load) => this.alone(load, id));
    const cycleUs = Math.min(...each.map((load) => load.cycleUs));
    const batches = loads.map((load, index) => {
      const gathered = Math.ceil(cycleUs * load.rate - ROUNDING);
      return Math.max(1, Math.min(gathered, each[index]!.batch));
    });
    return { cycleUs, batches };
  }

  private setBatches(id: AcceleratorId): void {
    const loads = this.loads[id]!;
    if (loads.length === 0) return;
    const { batches, cycleUs } = this.together(loads, id);
    loads.forEach((load, index) => {
      load.batch = batches[index]!;
      load.throughput = cycleUs > 0 ? load.batch / cycleUs : load.rate;
    });
  }

  private add(loads: NexusLoad[], load: NexusLoad): void {
    loads.push(load);
    loads.sort((a, b) => a.key - b.key);
  }

  private drop(loads: NexusLoad[], key: QueueKey): void {
    const index = loads.findIndex((load) => load.key === key);
    if (index >= 0) loads.splice(index, 1);
  }
}

const share = (key: QueueKey, rate: number): NexusLoad => ({ key, rate, batch: 0, throughput: rate });
