import type { ElasticTimes } from "../elastic-times.js";
import type { BatchLine, WorkPlanner } from "./work-planner.js";

/** Between decisions, µs: INFaaS's autoscaler looks every second. */
const EPOCH_US = 1_000_000;
/** Votes in a row that change the model. */
const VOTES = 2;

/**
 * INFaaS as OTAS compares with it (§V): one of several models of a family serves all, by the load.
 *
 * [choice] Every second: the most accurate model whose throughput at its best batch is at least the rate of the last second, the
 * fastest where there is none; another one than now after two such votes in a row. The first one is the model itself.
 */
export class InfaasWork implements WorkPlanner {
  private way: number;
  private readonly byAccuracy: readonly number[];
  private readonly throughput: readonly number[];
  private epochAt = Number.NaN;
  private arrivals = 0;
  private votes = 0;
  private votedFor = -1;
  /** Of late; they share the load. */
  private accelerators = 1;

  constructor(times: ElasticTimes, sizeMax: number) {
    const ways = Array.from({ length: times.count }, (_, way) => way);
    this.throughput = ways.map((way) => times.throughput(way, sizeMax));
    const tasks = times.profile.accuracy.length;
    const mean = ways.map((way) => {
      let sum = 0;
      for (let task = 0; task < tasks; task++) sum += times.accuracy(way, task);
      return sum;
    });
    this.byAccuracy = ways.sort((a, b) => mean[b]! - mean[a]! || this.throughput[b]! - this.throughput[a]!);
    this.way = Math.max(0, times.ways.indexOf(times.profile.plain));
  }

  arrived(at: number): void {
    if (Number.isNaN(this.epochAt)) this.epochAt = at;
    this.look(at);
    this.arrivals++;
  }

  sent(): void {}

  plan({ count, accelerators }: BatchLine, chosen: Int32Array, at: number): void {
    this.accelerators = accelerators;
    this.look(at);
    chosen.fill(this.way, 0, count);
  }

  /** Ends the seconds that are over. */
  private look(at: number): void {
    while (at >= this.epochAt + EPOCH_US) {
      this.vote((this.arrivals * 1e6) / EPOCH_US / this.accelerators);
      this.arrivals = 0;
      this.epochAt += EPOCH_US;
      // Of a long silence the last seconds decide.
      if (at - this.epochAt > 10 * EPOCH_US) this.epochAt = at - 10 * EPOCH_US;
    }
  }

  private vote(ratePerS: number): void {
    const wanted =
      this.byAccuracy.find((way) => this.throughput[way]! >= ratePerS) ??
      this.throughput.indexOf(Math.max(...this.throughput));
    if (wanted === this.way) this.votes = 0;
    else this.votes = wanted === this.votedFor ? this.votes + 1 : 1;
    this.votedFor = wanted;
    if (this.votes < VOTES) return;
    this.way = wanted;
    this.votes = 0;
  }
}
