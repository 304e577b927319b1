/** All that wait grouped afresh for each batch, on one accelerator. */
import { type Allocator, NOT_EXECUTED } from "../../policies/otas/allocation/allocation.js";
import { Regrouping } from "../../policies/otas/allocation/regrouping.js";
import { TimeDemand } from "../../policies/otas/allocation/time-demand.js";
import { BATCH_MAX } from "../../reproduce/otas/vision-transformer.js";
import type { ElasticLoad } from "./elastic-load.js";
import { type ElasticProfile, QUERY_TYPES } from "./elastic-profile.js";
import type { Contender } from "./one-accelerator.js";
import { BATCHES_MAX } from "./otas-contender.js";

const REQUESTS_MAX = 4096;

export interface RegroupedSetting {
  readonly allocator: Allocator;
  /** Share of the time asked for, at whose price requests are grouped. */
  readonly share: number;
  /** Memory of the demand, µs. */
  readonly demandUs: number;
  /** Batches are worth less the price of their time. */
  readonly isPriced: boolean;
}

export class RegroupedContender implements Contender {
  /** In deadline order. */
  private readonly requests: number[] = [];
  private readonly waiting = {
    count: 0,
    dueAt: new Float64Array(REQUESTS_MAX),
    kind: new Int32Array(REQUESTS_MAX),
    utility: new Float64Array(REQUESTS_MAX),
  };
  private readonly regrouping: Regrouping;
  private readonly demand: TimeDemand;

  constructor(
    private readonly load: ElasticLoad,
    private readonly profile: ElasticProfile,
    private readonly setting: RegroupedSetting,
  ) {
    const { accuracy, gammas, timeUs } = profile;
    this.regrouping = new Regrouping({
      requestsMax: REQUESTS_MAX,
      sizeMax: BATCH_MAX,
      batchesMax: BATCHES_MAX,
      gammas: gammas.length,
      accuracy,
      timeUs,
      allocator: setting.allocator,
    });
    this.demand = new TimeDemand(accuracy, profile.costUs(), setting.demandUs);
  }

  arrived(request: number, at: number): void {
    const { dueAt, type } = this.load;
    const { task, utility } = QUERY_TYPES[type[request]!]!;
    this.demand.arrived(task, utility, at);
    const after = this.requests.findLastIndex((other) => dueAt[other]! <= dueAt[request]!);
    this.requests.splice(after + 1, 0, request);
  }

  next(now: number, members: number[]): number {
    const { requests, regrouping, demand, setting } = this;
    this.read(now);
    const price = setting.isPriced ? demand.price(1, now) : 0;
    regrouping.decide(this.waiting, now, price, demand.priceOfShare(setting.share));
    if (regrouping.size === 0) return NOT_EXECUTED;
    for (let each = regrouping.size - 1; each >= 0; each--)
      members.push(...requests.splice(regrouping.members[each]!, 1));
    return regrouping.gamma;
  }

  private read(now: number): void {
    const { requests, waiting } = this;
    const { dueAt, type } = this.load;
    const aloneUs = this.profile.timeUs(0, 1);
    const late = requests.findIndex((request) => now + aloneUs <= dueAt[request]!);
    requests.splice(0, late < 0 ? requests.length : late);
    waiting.count = Math.min(REQUESTS_MAX, requests.length);
    for (let index = 0; index < waiting.count; index++) {
      const request = requests[index]!;
      const { task, utility } = QUERY_TYPES[type[request]!]!;
      waiting.dueAt[index] = dueAt[request]!;
      waiting.kind[index] = task;
      waiting.utility[index] = utility;
    }
  }
}
