import type { GivenBatch, LatencyModel } from "../../../core/latency/latency.js";
import type { ElasticTimes } from "../../elastic/elastic-times.js";

/** An elastic model as if it were run one way: for queues that know one time for each size. The way may change. */
export class OneWayTimes implements LatencyModel {
  readonly sizeMax: number;
  readonly execUs: Float64Array;
  version = 0;
  readonly times: ElasticTimes;
  private current: number;

  constructor(times: ElasticTimes, way: number) {
    this.times = times;
    this.sizeMax = times.sizeMax;
    this.execUs = new Float64Array(this.sizeMax + 2);
    this.execUs[this.sizeMax + 1] = Number.POSITIVE_INFINITY;
    this.current = way;
    this.compile();
  }

  get way(): number {
    return this.current;
  }

  /** @returns false: it is the one that it was. */
  select(way: number): boolean {
    if (way === this.current) return false;
    this.current = way;
    this.compile();
    return true;
  }

  quantileUs(size: number, q: number): number {
    return this.times.quantileUs(size, q);
  }

  givenUs(given: GivenBatch): number {
    return this.times.givenUs(given);
  }

  measured(given: GivenBatch, us: number): boolean {
    if (!this.times.measured(given, us)) return false;
    this.compile();
    return true;
  }

  private compile(): void {
    this.version++;
    for (let size = 1; size <= this.sizeMax; size++)
      this.execUs[size] = Math.ceil(this.times.timeUs(this.current, size) - 1e-6);
  }
}
