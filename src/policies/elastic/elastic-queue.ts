import type { GivenBatch } from "../../core/latency/latency.js";
import { CLOSE_EAGER, CLOSE_FULL, CLOSE_RETRY, DROP_SKIPPED } from "../../core/outcome.js";
import type { Queue, QueueKey, QueueSpec, QueueView } from "../../core/policy.js";
import { Release } from "../../core/release.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import type { RequestHandle } from "../../core/tables/request-table.js";
import { BatchTimes } from "../batch-times.js";
import { dropReason } from "../drop-reason.js";
import { linkFront } from "../link-members.js";
import { Retries } from "../retries.js";
import type { TimeDemand } from "./allocation/time-demand.js";
import type { ElasticTimes } from "./elastic-times.js";
import { BATCHES_MAX, PlannedLine } from "./planned-line.js";
import type { WorkPlanner } from "./planners/work-planner.js";
import type { PoolBatch, WaitingPool } from "./pools/waiting-pool.js";

/** What an elastic queue is made of. */
export interface ElasticParts {
  readonly times: ElasticTimes;
  readonly pool: WaitingPool;
  readonly work: WorkPlanner;
  /** Told of who arrives, for the pool or the planner; null: neither asks. */
  readonly demand: TimeDemand | null;
  /** See ElasticTimes.sizesWithin. */
  readonly sizes: Int32Array;
}

export interface ElasticQueueOptions {
  /**
   * When a batch leaves. eager: as soon as an accelerator is free; deferred: where what waits is less than a full batch, when it could
   * grow no more and end in time with the work that it is worth now (Symphony's window, where l(b) is of one's own choosing).
   */
  readonly dispatch: "eager" | "deferred";
  /**
   * Who of a batch is given up before it runs. late: who would end after its deadline; expired: whose deadline has passed.
   */
  readonly evicts: "late" | "expired";
  /** How often answers are right: as profiled, or of late, as far as whoever drives knows it. */
  readonly accuracy: "profiled" | "recent";
  /** Queues of other models are on the same accelerators. */
  readonly shared?: SharedAccelerators | undefined;
}

/** What queues of unlike policies tell each other. */
export interface SharedAccelerators {
  /** No model's batches keep every accelerator from it; see Reserve. */
  readonly isolation: boolean;
  /** @param perUs arrivals per µs. @param need accelerators that they need at the least. */
  say(perUs: number, need: number): void;
}

/**
 * Requests of one elastic model in batches of like deadline and utility, and how much work each batch gets (OTAS).
 *
 * An accelerator that is free takes the first batch, in deadline order, that the plan executes, by default at once. What the
 * plan passes over stays, and may be in the next one; its requests are given up when not even the fastest way alone would be in time.
 *
 * Several accelerators, of which the paper has one: the batches in deadline order are dealt to them in turn, and who is free plans
 * what it is dealt, starting with the first. Where nothing of that can run it takes the next one's.
 */
export class ElasticQueue implements Queue {
  readonly isByKind = true;
  /** Its times, where its policy has none for all queues. */
  readonly kindTimes?: ElasticTimes;
  /** Absent: it goes by the profile. */
  readonly accuracyChanged?: NonNullable<Queue["accuracyChanged"]>;
  private readonly pool: WaitingPool;
  private readonly retries: Retries;
  private readonly times: BatchTimes;
  private readonly line: PlannedLine;
  private readonly release = new Release();
  /** By accelerator: the model of the family that it was last told to run. */
  private readonly resident: Int32Array;
  /** Reused: read during a call. */
  private readonly given: { -readonly [Field in keyof GivenBatch]: GivenBatch[Field] };
  private readonly spec: QueueSpec;
  private readonly key: QueueKey;
  private readonly core: QueueView;
  private readonly ways: ElasticTimes;
  private readonly work: WorkPlanner;
  private readonly demand: TimeDemand | null;
  private readonly options: ElasticQueueOptions;

  constructor(key: QueueKey, spec: QueueSpec, core: QueueView, parts: ElasticParts, options: ElasticQueueOptions) {
    const { times, pool, work, demand, sizes } = parts;
    this.key = key;
    this.core = core;
    this.ways = times;
    this.pool = pool;
    this.work = work;
    this.demand = demand;
    this.options = options;
    this.retries = new Retries(core);
    if (spec.latency !== times) this.kindTimes = times;
    if (options.accuracy === "recent")
      this.accuracyChanged = (accuracy, at) => {
        times.learnAccuracy(accuracy);
        demand?.learn(times.accuracyTable());
        pool.worthChanged();
        this.refresh(at);
      };
    this.spec = spec;
    this.times = new BatchTimes(key, { ...spec, latency: times }, core);
    this.given = { batch: -1, batches: core.batches, requests: core.requests };
    this.line = new PlannedLine(pool, times, sizes);
    this.resident = new Int32Array(core.accelerators.capacity);
  }

  get length(): number {
    return this.pool.length + this.retries.length;
  }

  arrived(request: RequestHandle, at: number): void {
    const { kind, weight } = this.core.requests;
    this.work.arrived(at);
    this.demand?.arrived(kind[request]!, weight[request]!, at);
    this.refreshDemand(at);
    this.pool.add(request, at);
    this.refresh(at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    if (alone) this.retries.push(request);
    else this.pool.add(request, at);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    if (!this.retries.remove(request)) this.pool.remove(request);
    this.refresh(at);
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.retries.giveAway((request) => to(request, true));
    this.pool.giveAway((request) => to(request, false));
  }

  batchEnded(): void {
    this.release.measured();
  }

  planChanged(at: number): void {
    this.refresh(at);
  }

  refreshDemand(at: number): void {
    const { demand, core, key, options } = this;
    if (options.shared === undefined || demand === null) return;
    const perUs = demand.perUs(at);
    const need = perUs * demand.leastUs * this.ways.drift;
    core.offers.demand[key] = need * core.accelerators.fastestScale;
    options.shared.say(perUs, need);
  }

  refresh(at: number): void {
    if (at >= this.release.dueAt) this.release.released(this.ways.reset());
    this.dropHopeless(at);
    this.publish(at);
    this.core.offerChanged(this.key, at);
  }

  take(accelerator: AcceleratorId, at: number): BatchId {
    this.dropHopeless(at);
    let batch = this.retries.length > 0 ? this.takeRetry(accelerator, at) : -1;
    if (batch < 0) batch = this.takeBatch(accelerator, at);
    this.refresh(at);
    return batch;
  }

  /** @returns -1: it would be late on this accelerator. */
  private takeRetry(accelerator: AcceleratorId, at: number): BatchId {
    const startAt = this.times.startOf(1, at, this.times.freeAt(accelerator, at));
    if (this.retries.dueAt < startAt + this.execUs(this.ways.fastest, 1, accelerator)) return -1;
    return this.send(this.retries.take(), 1, this.ways.fastest, accelerator, startAt, CLOSE_RETRY);
  }

  private takeBatch(accelerator: AcceleratorId, at: number): BatchId {
    const { accelerators } = this.core;
    const { line, times } = this;
    const startAt = times.startOf(1, at, times.freeAt(accelerator, at));
    const dataUs = times.leadUs(2) - times.leadUs(1);
    line.read({ startAt, dataUs, scale: accelerators.scale[accelerator]! });
    const turns = Math.min(Math.max(1, accelerators.count), line.length);
    for (let turn = 0; turn < turns; turn++) {
      const first = line.plan(this.work, turn, turns, Math.max(1, accelerators.count), at);
      const batch = first < 0 ? -1 : this.run(line.batchAt(first), line.wayAt(first), accelerator, at);
      if (batch >= 0) return batch;
    }
    // No whole batch can be in time: of the first one those who can.
    for (let index = 0; index < line.length; index++) {
      const batch = this.run(line.batchAt(index), this.ways.fastest, accelerator, at);
      if (batch >= 0) return batch;
    }
    return -1;
  }

  /** Sends a batch without those that are evicted. @returns -1: nobody is left. */
  private run(batch: PoolBatch, way: number, accelerator: AcceleratorId, at: number): BatchId {
    const { core, pool, times } = this;
    const { members } = batch;
    const sizeMax = Math.max(1, Math.min(this.line.sizeMaxBy(way), times.sizeMaxOn(accelerator)));
    const isLate = this.options.evicts === "late";
    const startOf = (size: number): number => times.startOf(size, at, times.freeAt(accelerator, at));
    const mustReach = (size: number): number => startOf(size) + (isLate ? this.execUs(way, size, accelerator) : 0);
    // Of whom the last one, alone, would be too late, nobody is left.
    if (members.deadlineAt(members.length - 1) < mustReach(1)) return -1;
    let size = Math.min(members.length, sizeMax);
    for (; members.deadlineAt(0) < mustReach(size); size = Math.min(members.length, sizeMax))
      this.evict(batch, at, mustReach(1), mustReach(size));
    pool.leaving(batch, size);
    const first = linkFront(members, size, core.requests);
    pool.endIfEmpty(batch);
    this.work.sent(at);
    const close = size === this.ways.sizeMax ? CLOSE_FULL : CLOSE_EAGER;
    return this.send(first, size, way, accelerator, startOf(size), close);
  }

  private send(
    first: RequestHandle,
    size: number,
    way: number,
    accelerator: AcceleratorId,
    startAt: number,
    close: number,
  ): BatchId {
    const { batches } = this.core;
    const batch = this.times.add(first, size, accelerator, startAt, close);
    batches.variant[batch] = this.ways.numberOf(way);
    this.ways.sends(this.loadUs(way, accelerator));
    this.resident[accelerator] = this.ways.variant(way).family;
    if (this.kindTimes !== undefined) {
      this.given.batch = batch;
      batches.plan(batch, Math.ceil(this.ways.givenUs(this.given) * this.core.accelerators.scale[accelerator]!));
    }
    return batch;
  }

  /** Without what it loads first: where that took longer than any deadline allows, nobody would be served for whom it could be loaded. */
  private execUs(way: number, size: number, accelerator: AcceleratorId): number {
    return Math.ceil(this.ways.timeUs(way, size) * this.core.accelerators.scale[accelerator]!);
  }

  private loadUs(way: number, accelerator: AcceleratorId): number {
    const { family, loadUs } = this.ways.variant(way);
    return this.resident[accelerator] === family ? 0 : loadUs;
  }

  /** Nobody waits who would be late by the fastest way and alone; where only the expired are evicted, whose deadline has passed. */
  private dropHopeless(at: number): void {
    const { retries, pool, times } = this;
    const startAt = times.startOf(1, at);
    const aloneEndAt = startAt + this.aloneUs();
    retries.dropLate(aloneEndAt, at);
    const dueBy = this.options.evicts === "late" ? aloneEndAt : startAt;
    for (let index = pool.lines.length - 1; index >= 0; index--) {
      const batch = pool.lines[index]!;
      while (batch.members.length > 0 && batch.members.deadlineAt(0) < dueBy) this.evict(batch, at, dueBy, aloneEndAt);
    }
  }

  /** Gives up the first of a batch. */
  private evict(batch: PoolBatch, at: number, aloneEndAt: number, wouldEndAt: number): void {
    const { members } = batch;
    const isSkipped = this.pool.wasPassedOver(batch);
    const request = members.handleAt(0);
    const deadline = members.deadlineAt(0);
    this.pool.leaving(batch, 1);
    members.removeFront(1);
    this.pool.endIfEmpty(batch);
    const reason = dropReason(deadline, at, aloneEndAt);
    if (deadline >= at) this.release.refused(at);
    if (isSkipped) this.core.drop(request, DROP_SKIPPED, at);
    else this.core.drop(request, reason, at, wouldEndAt);
  }

  private aloneUs(): number {
    return Math.ceil(this.ways.execUs[1]! * this.core.accelerators.fastestScale);
  }

  private publish(at: number): void {
    const { core, key, pool, retries, times } = this;
    const { offers } = core;
    const aloneUs = this.aloneUs();
    const poolUs = this.options.evicts === "late" ? aloneUs : 0;
    // Of the last start by which nobody is hopeless.
    let latestAt = retries.dueAt - aloneUs;
    let size = retries.length > 0 ? 1 : 0;
    let firstAt = Number.POSITIVE_INFINITY;
    for (const { members } of pool.lines) {
      if (members.length === 0) continue;
      const dueAt = members.deadlineAt(0);
      if (retries.length === 0 && dueAt < firstAt) size = Math.min(members.length, this.ways.sizeMax);
      firstAt = Math.min(firstAt, dueAt);
      latestAt = Math.min(latestAt, dueAt - poolUs);
    }
    offers.size[key] = size;
    if (size === 0) return;
    const lead = times.leadUs(1);
    offers.leadUs[key] = lead;
    offers.aloneUs[key] = aloneUs;
    if (this.options.shared?.isolation)
      offers.slackUs[key] = Math.max(0, this.spec.sloUs - core.delaysOf(key).responseUs - lead - aloneUs);
    offers.opensAt[key] = Math.max(at + lead, this.opensAt(at));
    offers.latestAt[key] = latestAt;
    offers.rank[key] = latestAt;
    offers.earlyExecUs[key] = 0;
    offers.execUs[key] = Math.ceil(this.ways.execUs[size]! * core.accelerators.fastestScale);
    offers.more[key] = Math.min(BATCHES_MAX, Math.max(0, pool.lines.length - 1));
  }

  /** Until then one more could join all that waits, by the way that they are worth as one batch. */
  private opensAt(at: number): number {
    const { pool, ways, retries, core } = this;
    if (this.options.dispatch === "eager" || retries.length > 0 || pool.length >= ways.sizeMax) return at;
    const scale = core.accelerators.fastestScale;
    const price = this.work.price?.(scale, Math.max(1, core.accelerators.count), at) ?? 0;
    const size = pool.length + 1;
    let wanted = ways.fastest;
    let most = Number.NEGATIVE_INFINITY;
    for (let way = 0; way < ways.count; way++) {
      let worth = -price * ways.timeUs(way, size) * scale;
      for (const { earns } of pool.lines) worth += earns[way]!;
      if (worth <= most) continue;
      most = worth;
      wanted = way;
    }
    let dueAt = Number.POSITIVE_INFINITY;
    for (const { members } of pool.lines) if (members.length > 0) dueAt = Math.min(dueAt, members.deadlineAt(0));
    return dueAt - Math.ceil(ways.timeUs(wanted, size) * scale);
  }
}
