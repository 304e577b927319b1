import { invariant } from "../core/invariant.js";
import type { KnownArrivals } from "./known-arrivals.js";

export interface ClairvoyantOptions {
  /** Execution time of each accelerator relative to the profiles; all are there all the time. */
  readonly scales: readonly number[];
  /** Delays that every schedule pays: see NetworkDelays. Default: none. */
  readonly network?: { readonly controlUs: number; readonly dataUsPerRequest: number; readonly responseUs: number };
  /**
   * in-order: the best of all schedules whose batches hold requests of one model that follow each other (what is left out
   * is given up), as every policy does here that takes the earliest deadlines. any: the best of all schedules.
   */
  readonly over: "in-order" | "any";
  /** Steps of the search for prices; more make the bound tighter, none makes it wrong. Default 150. */
  readonly steps?: number;
}

export interface ClairvoyantBound {
  /** No schedule has more requests in time, whatever it knows. Not rounded down. */
  readonly inTime: number;
  readonly arrived: number;
}

const STEPS = 150;
/** Slots of time per batch of one: as fine as prices change. */
const SLOTS_PER_BATCH = 5;
const SLOTS_MAX = 2_000_000;
/** Steps without a better bound before the step length shrinks. */
const PATIENCE = 5;
const SHRINK = 0.7;
const SHORTEST = 1e-4;

/**
 * An upper bound on the requests that any scheduler can have in time, for arrivals that it knows beforehand.
 *
 * Lagrangian relaxation. That at most n accelerators work at a time is replaced by a price p(t) >= 0 of accelerator time,
 * constant within a slot. A schedule pays for its batches and is paid for what it leaves: with U its requests in time,
 *   U <= max over schedules of (U - sum over batches of the integral of p over the batch) + n * integral of p,
 * because a schedule that keeps the limit pays no more than n * integral of p. The maximum falls apart into models, and is
 * exact: in order, by dynamic programming over arrivals (a batch of b that follow each other may start from its last
 * arrival until its first deadline less l(b), at the cheapest moment of these); over any schedules each request is given
 * its share, 1/b, of the cheapest batch it could be in (b that follow each other and hold it: those nearest to it are the
 * easiest to have together), which is no more than it pays. So every price gives a bound; a subgradient walk looks for
 * prices that give a good one. Kinds of accelerators have a price each and a batch takes the cheaper.
 *
 * In order is not the best there is: a short batch may run beside a long one, begin after it and end before it, and hold
 * requests from before and after the long one's. `any` covers that, and is the weaker bound.
 *
 * @throws InvariantViolation when arrivals are not ascending, or there are too many slots of time.
 */
export function clairvoyantBound(models: readonly KnownArrivals[], options: ClairvoyantOptions): ClairvoyantBound {
  const { scales, over, network = { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 }, steps = STEPS } = options;
  invariant(scales.length > 0, "a bound needs at least 1 accelerator; was 0");
  const kinds = [...new Set(scales)].sort((a, b) => a - b);
  const counts = kinds.map((kind) => scales.filter((scale) => scale === kind).length);
  let endAt = 0;
  let arrived = 0;
  let slotUs = Number.POSITIVE_INFINITY;
  for (const { arrivalAt, execUs, sloUs } of models) {
    for (let index = 1; index < arrivalAt.length; index++)
      invariant(arrivalAt[index]! >= arrivalAt[index - 1]!, `arrivals must ascend; ${index} does not`);
    arrived += arrivalAt.length;
    slotUs = Math.min(slotUs, Math.ceil((execUs[1]! * kinds[0]!) / SLOTS_PER_BATCH));
    if (arrivalAt.length > 0) endAt = Math.max(endAt, arrivalAt.at(-1)! + sloUs);
  }
  if (arrived === 0) return { inTime: 0, arrived };
  const slots = Math.ceil(endAt / slotUs) + 1;
  invariant(slots <= SLOTS_MAX, `slots of time must be at most ${SLOTS_MAX}; was ${slots}`);
  const prices = kinds.map(() => new PriceLine(slots, slotUs));
  const views = models.map((model) => new PricedModel(model, kinds, network));
  // Where every accelerator is always wanted, its time is worth what it does best.
  for (const [kind, line] of prices.entries()) {
    let worth = 0;
    for (const { execUs } of models)
      for (let b = 1; b < execUs.length - 1; b++) worth = Math.max(worth, b / (execUs[b]! * kinds[kind]!));
    line.price.fill(0.8 * worth);
  }

  let best = arrived;
  let length = 1;
  let stalled = 0;
  for (let step = 0; step < steps && length > SHORTEST; step++) {
    let value = 0;
    for (const [kind, line] of prices.entries()) {
      line.add();
      line.used.fill(0);
      value += counts[kind]! * line.total;
    }
    for (const view of views) value += over === "in-order" ? view.bestInOrder(prices) : view.bestShares(prices);
    if (value < best - 1e-9) {
      best = value;
      stalled = 0;
    } else if (++stalled >= PATIENCE) {
      length *= SHRINK;
      stalled = 0;
    }
    let norm = 0;
    for (const [kind, line] of prices.entries()) norm += line.excess(counts[kind]!);
    if (norm === 0) break;
    // Polyak's step, towards a value somewhat below the best one.
    const aim = best - Math.max(1, 0.002 * arrived * length);
    for (const line of prices) line.move((length * (value - aim)) / norm);
  }
  return { inTime: Math.max(0, Math.min(best, arrived)), arrived };
}

/** Price of accelerator time of one kind, and who used it at the last look. */
class PriceLine {
  readonly price: Float64Array;
  /** µs of use by slot; after `excess`, what exceeds the accelerators. */
  readonly used: Float64Array;
  readonly slotUs: number;
  private readonly sums: Float64Array;

  constructor(slots: number, slotUs: number) {
    this.price = new Float64Array(slots);
    this.used = new Float64Array(slots);
    this.sums = new Float64Array(slots + 1);
    this.slotUs = slotUs;
  }

  add(): void {
    for (let slot = 0; slot < this.price.length; slot++)
      this.sums[slot + 1] = this.sums[slot]! + this.price[slot]! * this.slotUs;
  }

  get total(): number {
    return this.sums[this.sums.length - 1]!;
  }

  /** Integral of the price from 0. */
  until(at: number): number {
    const slot = Math.min(this.price.length - 1, Math.floor(at / this.slotUs));
    return this.sums[slot]! + this.price[slot]! * (at - slot * this.slotUs);
  }

  use(from: number, to: number, times: number): void {
    const { slotUs, used } = this;
    for (let slot = Math.floor(from / slotUs); slot * slotUs < to && slot < used.length; slot++)
      used[slot] = used[slot]! + times * (Math.min(to, (slot + 1) * slotUs) - Math.max(from, slot * slotUs));
  }

  /** @returns the squared length of the direction in which prices move. */
  excess(accelerators: number): number {
    let norm = 0;
    for (let slot = 0; slot < this.used.length; slot++) {
      let each = this.used[slot]! - accelerators * this.slotUs;
      if (each < 0 && this.price[slot]! <= 0) each = 0;
      this.used[slot] = each;
      norm += each * each;
    }
    return norm;
  }

  move(length: number): void {
    for (let slot = 0; slot < this.price.length; slot++)
      this.price[slot] = Math.max(0, this.price[slot]! + length * this.used[slot]!);
  }
}

/** One model's part of the maximum. */
class PricedModel {
  private readonly model: KnownArrivals;
  /** Of those that can be in time at all. */
  private sizeMax: number;
  /** By kind: l(b) there. */
  private readonly execUs: readonly Float64Array[];
  /** Before execution: control and data. */
  private readonly leadUs: Float64Array;
  private readonly sloUs: number;
  /** By kind and size: price of a batch that starts, or ends, at the border of a slot. */
  private readonly fromBorder: Float64Array[][] = [];
  private readonly toBorder: Float64Array[][] = [];
  /** Cheapest batch of (first, size): kind and start, of the last call of `cheapest`. */
  private kind = 0;
  private startAt = 0;

  constructor(
    model: KnownArrivals,
    kinds: readonly number[],
    network: { readonly controlUs: number; readonly dataUsPerRequest: number; readonly responseUs: number },
  ) {
    this.model = model;
    this.sizeMax = model.execUs.length - 2;
    while (this.sizeMax > 1 && model.execUs[this.sizeMax]! * kinds[0]! > model.sloUs) this.sizeMax--;
    this.execUs = kinds.map((kind) => model.execUs.map((us) => Math.ceil(us * kind)));
    this.leadUs = Float64Array.from(model.execUs, (_, size) => network.controlUs + size * network.dataUsPerRequest);
    this.sloUs = model.sloUs - network.responseUs;
  }

  /** Largest value of a partition into batches that follow each other and requests given up. */
  bestInOrder(prices: readonly PriceLine[]): number {
    this.tabulate(prices);
    const { arrivalAt } = this.model;
    const count = arrivalAt.length;
    const value = new Float64Array(count + 1).fill(Number.NEGATIVE_INFINITY);
    const size = new Int32Array(count + 1);
    const kind = new Int32Array(count + 1);
    const startAt = new Float64Array(count + 1);
    value[0] = 0;
    for (let first = 0; first < count; first++) {
      const here = value[first]!;
      if (here > value[first + 1]!) {
        value[first + 1] = here;
        size[first + 1] = 0;
      }
      for (let b = 1; b <= this.sizeMax && first + b <= count; b++) {
        const price = this.cheapest(first, b, prices);
        if (price === Number.POSITIVE_INFINITY) break;
        const each = here + b - price;
        if (each <= value[first + b]!) continue;
        value[first + b] = each;
        size[first + b] = b;
        kind[first + b] = this.kind;
        startAt[first + b] = this.startAt;
      }
    }
    for (let end = count; end > 0; end -= Math.max(1, size[end]!)) {
      if (size[end] === 0) continue;
      prices[kind[end]!]!.use(startAt[end]!, startAt[end]! + this.execUs[kind[end]!]![size[end]!]!, 1);
    }
    return value[count]!;
  }

  /** Each request for itself: its share of the cheapest batch that it could be in. */
  bestShares(prices: readonly PriceLine[]): number {
    this.tabulate(prices);
    const { arrivalAt } = this.model;
    const count = arrivalAt.length;
    const share = new Float64Array(count).fill(1);
    const size = new Int32Array(count);
    const kind = new Int32Array(count);
    const startAt = new Float64Array(count);
    for (let first = 0; first < count; first++) {
      for (let b = 1; b <= this.sizeMax && first + b <= count; b++) {
        const price = this.cheapest(first, b, prices) / b;
        if (price === Number.POSITIVE_INFINITY) break;
        for (let index = first; index < first + b; index++) {
          if (price >= share[index]!) continue;
          share[index] = price;
          size[index] = b;
          kind[index] = this.kind;
          startAt[index] = this.startAt;
        }
      }
    }
    let value = 0;
    for (let index = 0; index < count; index++) {
      const b = size[index]!;
      if (b === 0) continue;
      value += 1 - share[index]!;
      prices[kind[index]!]!.use(startAt[index]!, startAt[index]! + this.execUs[kind[index]!]![b]!, 1 / b);
    }
    return value;
  }

  private tabulate(prices: readonly PriceLine[]): void {
    for (const [kind, line] of prices.entries()) {
      this.fromBorder[kind] ??= [];
      this.toBorder[kind] ??= [];
      for (let size = 1; size <= this.sizeMax; size++) {
        const execUs = this.execUs[kind]![size]!;
        this.fromBorder[kind]![size] ??= new Float64Array(line.price.length);
        this.toBorder[kind]![size] ??= new Float64Array(line.price.length);
        const from = this.fromBorder[kind]![size]!;
        const to = this.toBorder[kind]![size]!;
        for (let slot = 0; slot < line.price.length; slot++) {
          const at = slot * line.slotUs;
          from[slot] = line.until(at + execUs) - line.until(at);
          to[slot] = at < execUs ? Number.POSITIVE_INFINITY : line.until(at) - line.until(at - execUs);
        }
      }
    }
  }

  /** Least price of a batch of `size` from `first` on; Infinity when it cannot be in time (nor can a larger one). */
  private cheapest(first: number, size: number, prices: readonly PriceLine[]): number {
    const { arrivalAt } = this.model;
    const fromAt = arrivalAt[first + size - 1]! + this.leadUs[size]!;
    let least = Number.POSITIVE_INFINITY;
    for (let kind = 0; kind < prices.length; kind++) {
      const execUs = this.execUs[kind]![size]!;
      const latestAt = arrivalAt[first]! + this.sloUs - execUs;
      if (fromAt > latestAt) continue;
      const line = prices[kind]!;
      const { slotUs } = line;
      const from = this.fromBorder[kind]![size]!;
      const to = this.toBorder[kind]![size]!;
      let startAt = fromAt;
      let price = line.until(fromAt + execUs) - line.until(fromAt);
      const last = line.until(latestAt + execUs) - line.until(latestAt);
      if (last < price) {
        price = last;
        startAt = latestAt;
      }
      // Linear between these: the price is least at one of them.
      for (let slot = Math.ceil(fromAt / slotUs); slot * slotUs < latestAt; slot++) {
        if (from[slot]! >= price) continue;
        price = from[slot]!;
        startAt = slot * slotUs;
      }
      for (let slot = Math.ceil((fromAt + execUs) / slotUs); slot * slotUs < latestAt + execUs; slot++) {
        if (to[slot]! >= price) continue;
        price = to[slot]!;
        startAt = slot * slotUs - execUs;
      }
      if (price >= least) continue;
      least = price;
      this.kind = kind;
      this.startAt = startAt;
    }
    return least;
  }
}
