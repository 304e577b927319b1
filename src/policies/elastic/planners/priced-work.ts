import { NOT_EXECUTED } from "../allocation/allocation.js";
import type { TimeDemand } from "../allocation/time-demand.js";
import type { ElasticTimes } from "../elastic-times.js";
import type { BatchLine, WorkPlanner } from "./work-planner.js";

/**
 * Another planner, to which batches are worth what they earn less the price of their time: who comes next pays for what a plan
 * takes. Where nothing is worth its time it is planned without a price, as an accelerator that idles earns nothing.
 */
export class PricedWork implements WorkPlanner {
  private readonly inner: WorkPlanner;
  private readonly demand: TimeDemand;
  private readonly times: ElasticTimes;

  /** @param demand told of who arrives. */
  constructor(inner: WorkPlanner, demand: TimeDemand, times: ElasticTimes) {
    this.inner = inner;
    this.demand = demand;
    this.times = times;
  }

  arrived(at: number): void {
    this.inner.arrived(at);
  }

  sent(at: number): void {
    this.inner.sent(at);
  }

  price(scale: number, accelerators: number, at: number): number {
    // The demand is in µs of the profile; what it takes here is so many times as much.
    const slower = this.times.drift * scale;
    return this.demand.price(slower / accelerators, at) / slower;
  }

  plan(line: BatchLine, chosen: Int32Array, at: number): void {
    const price = this.price(line.scale, line.accelerators, at);
    if (price > 0) {
      this.pay(line, price);
      this.inner.plan(line, chosen, at);
      for (let batch = 0; batch < line.count; batch++) if (chosen[batch] !== NOT_EXECUTED) return;
      this.pay(line, -price);
    }
    this.inner.plan(line, chosen, at);
  }

  private pay({ count, timeUs, utility }: BatchLine, price: number): void {
    for (let cell = 0; cell < count * this.times.count; cell++)
      if (timeUs[cell]! < Number.POSITIVE_INFINITY) utility[cell]! -= price * timeUs[cell]!;
  }
}
