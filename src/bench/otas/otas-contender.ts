/** OTAS on one accelerator: Algorithm 1's batches, Algorithm 3 for few of them, an allocator for more. */
import { type AllocationProblem, type Allocator, NOT_EXECUTED } from "../../policies/otas/allocation/allocation.js";
import { allocateByRate, gammaForRate } from "../../policies/otas/allocation/rate-rule.js";
import { TimeDemand } from "../../policies/otas/allocation/time-demand.js";
import { BATCH_MAX } from "../../reproduce/otas/vision-transformer.js";
import type { ElasticLoad } from "./elastic-load.js";
import { type ElasticProfile, QUERY_TYPES } from "./elastic-profile.js";
import type { Contender } from "./one-accelerator.js";

/** delta, eta, kappa; the first 2 s. */
const WAIT_US = 500_000;
const DEADLINE_US = 500_000;
const CRITICAL = 0.8;
const INITIAL_US = 2_000_000;
const RATE_WINDOW_US = 1_000_000;

export const BATCHES_MAX = 256;

export interface OtasSetting {
  readonly allocator: Allocator;
  /** beta; below 0 the allocator decides always. */
  readonly few: number;
  /** mu */
  readonly likeUtility: number;
  /** f(q), see gammaForRate. */
  readonly rateMax: Float64Array;
  /** A demand's memory, µs: batches are worth less the price of their time. undefined: time is free. */
  readonly priceOver?: number;
}

interface Batch {
  members: number[];
  readonly firstAt: number;
  readonly utility: number;
  dueAt: number;
}

export class OtasContender implements Contender {
  private batches: Batch[] = [];
  private arrivals: number[] = [];
  private readonly problem: AllocationProblem & { count: number };
  private readonly meanUtility = new Float64Array(BATCHES_MAX);
  private readonly chosen = new Int32Array(BATCHES_MAX);
  private readonly demand: TimeDemand | null;

  constructor(
    private readonly load: ElasticLoad,
    private readonly profile: ElasticProfile,
    private readonly setting: OtasSetting,
  ) {
    const gammas = profile.gammas.length;
    const cells = BATCHES_MAX * gammas;
    const [timeUs, utility] = [new Float64Array(cells), new Float64Array(cells)];
    this.problem = { count: 0, gammas, dueAt: new Float64Array(BATCHES_MAX), timeUs, utility };
    const { priceOver } = setting;
    this.demand = priceOver === undefined ? null : new TimeDemand(profile.accuracy, profile.costUs(), priceOver);
  }

  /** Algorithm 1. */
  arrived(request: number, at: number): void {
    const { task, utility } = QUERY_TYPES[this.load.type[request]!]!;
    const dueAt = this.load.dueAt[request]!;
    this.demand?.arrived(task, utility, at);
    this.arrivals.push(at);
    const fits = this.batches.find(
      (batch) =>
        at - batch.firstAt < WAIT_US &&
        batch.members.length < BATCH_MAX &&
        Math.abs(batch.dueAt - dueAt) <= DEADLINE_US &&
        Math.abs(batch.utility - utility) <= this.setting.likeUtility,
    );
    if (fits === undefined) this.batches.push({ members: [request], firstAt: at, utility, dueAt });
    else {
      fits.members.push(request);
      fits.dueAt = Math.min(fits.dueAt, dueAt);
    }
  }

  next(now: number, members: number[]): number {
    for (const batch of this.batches) this.evict(batch, now);
    this.batches = this.batches.filter((batch) => batch.members.length > 0).sort((a, b) => a.dueAt - b.dueAt);
    const { few, allocator, rateMax } = this.setting;
    this.weigh(now);
    const { problem, chosen } = this;
    if (problem.count <= few || (few >= 0 && now < INITIAL_US)) {
      const rule = { gamma: gammaForRate(rateMax, this.rate(now)), criticalUtility: CRITICAL };
      allocateByRate(problem, this.meanUtility, now, rule, chosen);
    } else allocator.allocate(problem, now, chosen);
    const first = chosen.subarray(0, problem.count).findIndex((gamma) => gamma !== NOT_EXECUTED);
    if (first < 0) return NOT_EXECUTED;
    members.push(...this.batches.splice(first, 1)[0]!.members);
    return chosen[first]!;
  }

  /** Who cannot be in time even with the first gamma (§IV: a batch returns those within latency constraints). */
  private evict(batch: Batch, now: number): void {
    while (batch.members.length > 0 && now + this.profile.timeUs(0, batch.members.length) > batch.dueAt) {
      batch.members = batch.members.filter((request) => this.load.dueAt[request]! > batch.dueAt);
      batch.dueAt = Math.min(...batch.members.map((request) => this.load.dueAt[request]!));
    }
  }

  private weigh(now: number): void {
    const { problem, profile } = this;
    const { gammas, timeUs, utility } = problem;
    const price = this.demand?.price(1, now) ?? 0;
    problem.count = Math.min(BATCHES_MAX, this.batches.length);
    for (let index = 0; index < problem.count; index++) {
      const { members, dueAt } = this.batches[index]!;
      problem.dueAt[index] = dueAt;
      this.meanUtility[index] = 0;
      const row = index * gammas;
      for (let gamma = 0; gamma < gammas; gamma++) {
        timeUs[row + gamma] = profile.timeUs(gamma, members.length);
        utility[row + gamma] = -price * timeUs[row + gamma]!;
      }
      for (const member of members) {
        const type = QUERY_TYPES[this.load.type[member]!]!;
        this.meanUtility[index]! += type.utility / members.length;
        for (let gamma = 0; gamma < gammas; gamma++)
          utility[row + gamma]! += type.utility * profile.accuracy[type.task * gammas + gamma]!;
      }
    }
  }

  private rate(now: number): number {
    this.arrivals = this.arrivals.filter((at) => at > now - RATE_WINDOW_US);
    return (this.arrivals.length * 1e6) / RATE_WINDOW_US;
  }
}
