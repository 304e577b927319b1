import type { KnownRequests } from "../in-time/in-time.js";

/** A simulated clock is of whole µs, and sums of times are not exact. */
const ROUNDING_US = 1;

/**
 * The best sequence of batches on one accelerator where serving a request earns 1 less its price, and a request may be served any
 * number of times: with prices of at least 0, what that earns and the sum of the prices is no less than what any scheduler ends in
 * time, whatever it knows (the Lagrangian relaxation of "each request at most once"). Batches are whole: c0 + c1 k max, not interrupted.
 *
 * Solved from the last moment back on a grid. What starts within a step of it counts as started with the step, from what arrives
 * within the step too, and takes whole steps, rounded down: every true schedule has its like there. O(steps n^2 sizes) at worst,
 * where n is how many wait; bounds on what a batch can earn leave most of it out.
 */
export class PricedBatches {
  /** By request: how often the best sequence serves it. Of the last call. */
  readonly served: Int32Array;
  private readonly requests: KnownRequests;
  private readonly gridUs: number;
  private readonly steps: number;
  /** By step: what is earned from it on; the batch that starts with it, by its longest member (-1: none) and size. */
  private readonly earned: Float64Array;
  private readonly longest: Int32Array;
  private readonly size: Int32Array;
  /** Who waits, by what serving earns, most first. */
  private readonly waiting: Int32Array;
  private waits = 0;
  /** What serving each of those earns, their deadlines and times; sums of the first. */
  private readonly gain: Float64Array;
  private readonly dueAt: Float64Array;
  private readonly aloneUs: Float64Array;
  private readonly mostOf: Float64Array;

  /** @param gridUs at most what the shortest batch takes. */
  constructor(requests: KnownRequests, gridUs: number) {
    const count = requests.arrivalAt.length;
    this.requests = requests;
    this.gridUs = gridUs;
    this.steps = count === 0 ? 0 : Math.ceil((requests.arrivalAt[count - 1]! + requests.sloUs) / gridUs) + 1;
    this.served = new Int32Array(count);
    this.earned = new Float64Array(this.steps + 1);
    this.longest = new Int32Array(this.steps);
    this.size = new Int32Array(this.steps);
    this.waiting = new Int32Array(count);
    this.gain = new Float64Array(count);
    this.dueAt = new Float64Array(count);
    this.aloneUs = new Float64Array(count);
    this.mostOf = new Float64Array(count + 1);
  }

  /** Requests that end in time, at most. @param prices by request, at least 0. */
  bound(prices: Float64Array): number {
    const { arrivalAt, sloUs, c0Us } = this.requests;
    const { steps, gridUs, earned, longest } = this;
    this.waits = 0;
    let next = arrivalAt.length - 1;
    let likely = -1;
    for (let step = steps - 1; step >= 0; step--) {
      const at = step * gridUs;
      for (; next >= 0 && arrivalAt[next]! + sloUs >= at + c0Us; next--) this.enter(next, 1 - prices[next]!);
      this.leave(at + gridUs);
      this.choose(step, likely);
      if (longest[step]! >= 0) likely = longest[step]!;
    }
    this.follow(prices);
    return prices.reduce((sum, price) => sum + price, earned[0]!);
  }

  private enter(request: number, gain: number): void {
    const { waiting, dueAt, aloneUs } = this;
    const { arrivalAt, sloUs, c0Us, c1 } = this.requests;
    if (gain <= 0 || c0Us + c1 * this.requests.aloneUs[request]! > sloUs + ROUNDING_US) return;
    let place = this.waits++;
    for (; place > 0 && this.gain[place - 1]! < gain; place--) this.move(place - 1, place);
    waiting[place] = request;
    this.gain[place] = gain;
    dueAt[place] = arrivalAt[request]! + sloUs + ROUNDING_US;
    aloneUs[place] = this.requests.aloneUs[request]!;
  }

  /** Who arrives at or after the end of the step is not there yet: time runs backwards. */
  private leave(endAt: number): void {
    const { arrivalAt } = this.requests;
    let kept = 0;
    for (let place = 0; place < this.waits; place++) {
      if (arrivalAt[this.waiting[place]!]! >= endAt) continue;
      if (kept !== place) this.move(place, kept);
      this.mostOf[kept + 1] = this.mostOf[kept]! + this.gain[kept]!;
      kept++;
    }
    this.waits = kept;
  }

  private move(from: number, to: number): void {
    this.waiting[to] = this.waiting[from]!;
    this.gain[to] = this.gain[from]!;
    this.dueAt[to] = this.dueAt[from]!;
    this.aloneUs[to] = this.aloneUs[from]!;
  }

  /** @param likely to be the longest of the best batch: what it earns leaves others out. */
  private choose(step: number, likely: number): void {
    this.earned[step] = this.earned[step + 1]!;
    this.longest[step] = -1;
    for (let place = 0; place < this.waits; place++) if (this.waiting[place] === likely) this.weigh(step, place);
    for (let place = 0; place < this.waits; place++) if (this.waiting[place] !== likely) this.weigh(step, place);
  }

  /** Batches of all sizes whose longest member this is. */
  private weigh(step: number, place: number): void {
    const { gridUs, steps, earned, mostOf, gain, dueAt, aloneUs } = this;
    const { c0Us, c1, sizeMax } = this.requests;
    const at = step * gridUs;
    const longestUs = aloneUs[place]!;
    for (let size = 1; size <= Math.min(sizeMax, this.waits); size++) {
      const us = c0Us + c1 * size * longestUs;
      if (at + us > dueAt[place]!) return;
      const end = step + Math.floor(us / gridUs);
      const rest = end < steps ? earned[end]! : 0;
      if (gain[place]! + mostOf[size - 1]! + rest <= earned[step]!) continue;
      let total = gain[place]!;
      let members = 1;
      for (let other = 0; other < this.waits && members < size; other++) {
        if (other === place || aloneUs[other]! > longestUs || dueAt[other]! < at + us) continue;
        total += gain[other]!;
        members++;
      }
      if (members < size) return;
      if (total + rest <= earned[step]!) continue;
      earned[step] = total + rest;
      this.longest[step] = this.waiting[place]!;
      this.size[step] = size;
    }
  }

  /** Counts whom the sequence serves. */
  private follow(prices: Float64Array): void {
    const { requests, gridUs, longest, size, served } = this;
    const { arrivalAt, aloneUs, sloUs, c0Us, c1 } = requests;
    served.fill(0);
    let first = 0;
    for (let step = 0; step < this.steps; ) {
      const chosen = longest[step]!;
      if (chosen < 0) {
        step++;
        continue;
      }
      const at = step * gridUs;
      const us = c0Us + c1 * size[step]! * aloneUs[chosen]!;
      const others: number[] = [];
      while (arrivalAt[first]! + sloUs + ROUNDING_US < at) first++;
      for (let request = first; request < arrivalAt.length && arrivalAt[request]! < at + gridUs; request++)
        if (
          request !== chosen &&
          prices[request]! < 1 &&
          aloneUs[request]! <= aloneUs[chosen]! &&
          arrivalAt[request]! + sloUs + ROUNDING_US >= at + us
        )
          others.push(request);
      others.sort((a, b) => prices[a]! - prices[b]! || a - b);
      served[chosen]!++;
      for (const request of others.slice(0, size[step]! - 1)) served[request]!++;
      step += Math.floor(us / gridUs);
    }
  }
}
