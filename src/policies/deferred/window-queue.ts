import type { DeadlineQueue } from "../../core/deadline-queue.js";
import { largestWithin } from "../../core/latency/latency.js";
import { RateMeter, RecentRate } from "../../core/latency/rate-meter.js";
import {
  CLOSE_ACCELERATOR_FREE,
  CLOSE_EAGER,
  CLOSE_FULL,
  CLOSE_IDLE,
  CLOSE_RETRY,
  CLOSE_TIMEOUT,
  CLOSE_WINDOW,
} from "../../core/outcome.js";
import type { NetworkDelays, Queue, QueueKey, QueueSpec, QueueView } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import type { RequestHandle } from "../../core/tables/request-table.js";
import { BatchTimes } from "../batch-times.js";
import type { Retries } from "../retries.js";
import { WaitingRequests } from "../waiting-requests.js";
import { PipelineParts } from "./pipelines/pipeline-parts.js";
import { QueuePlus, type QueuePlusOptions } from "./queue-plus.js";
import type { Rehearsal } from "./rehearsal/rehearsal.js";
import { targetSize } from "./target-size.js";

export interface WindowQueueOptions {
  /**
   * When an offer opens. frontrun: when one more request could no longer join (Symphony §3.1). eager: at once.
   * timeout: when its earliest request has waited `timeoutUs` (Symphony §3.4: exec = max(now, a + k)).
   */
  readonly opens: "frontrun" | "eager" | "timeout";
  readonly timeoutUs: number;
  /**
   * Who is given up. window: heads that cannot finish in a batch of the target size (Nexus, Symphony's code).
   * infeasible: heads that cannot finish even alone. expired: heads whose deadline passed.
   */
  readonly drop: "window" | "infeasible" | "expired";
  /** A fixed target batch size, or null: from the measured rate. */
  readonly target: number | null;
  readonly rateWindowUs: number;
  /** The window opens and closes this much early, µs: room for timers that fire late. */
  readonly slackUs: number;
  /** Publish the demand that idle dispatch compares with (live default). */
  readonly idleDispatch: boolean;
  /** Other models leave an accelerator within its slack; see Reserve. */
  readonly isolation?: boolean;
  /** The parts of `deferred+`; absent: none of them. */
  readonly plus?: QueuePlusOptions;
}

/** Rules of one queue as plain data, so that they fit a ring record and an event log. */
export interface WindowRules extends Omit<WindowQueueOptions, "plus"> {
  /** Parts of `deferred+`; null: none. */
  readonly plus: Omit<QueuePlusOptions, "load"> | null;
  /** Who goes together is chosen by kinds, where they differ: see AdaptiveQueue. Nothing that is configured; a way of serving. */
  readonly groups?: boolean;
  /** An elastic model is served as `otas+` serves it, whatever the other rules say: see ElasticQueue. Default false. */
  readonly adaptsTokens?: boolean;
  /** And by how often its answers are right of late, in place of the profile. Default false. */
  readonly learnsAccuracy?: boolean;
}

/**
 * Batching that saves less than this share of a run alone, per request that joins, is not worth waiting for: on a CPU
 * long texts take time in proportion to their number. Measured on 8 requests, or all that a batch holds.
 */
const SAVING_MIN = 0.1;
const SAVING_SIZE = 8;
/** Arrivals that the fast rate looks back on. */
const RECENT_ARRIVALS = 12;

/**
 * One model's requests, earliest deadline first, and the batch it would run now: Symphony's ModelThread
 * (Algorithm 1 lines 1-8, Appendix D, with the head dropping of its public code).
 *
 * Gathering. Heads that could not finish if everything behind them ran as one batch are set aside; of those, who
 * cannot finish in a batch of min(target, rest) is dropped; the others go first; then the batch grows while its
 * earliest deadline holds. Deadlines ascend and batch times grow with size, so both cuts are found by bisection.
 */
export class WindowQueue implements Queue {
  private readonly waiting: WaitingRequests;
  /** Of `waiting`: who waits in line, and who came back to run alone. */
  private readonly pending: DeadlineQueue;
  private readonly solo: Retries;
  private readonly times: BatchTimes;
  private readonly rate: RateMeter;
  private readonly recent: RecentRate | null;
  /** The parts of `deferred+` that are there, and those that are on. */
  private readonly parts: QueuePlus | null;
  private plus: QueuePlus | null;
  private readonly rehearsal: Rehearsal | null;
  readonly batchEnded?: NonNullable<Queue["batchEnded"]>;
  /** Of `pending`, those that are parts of pipelines' requests. */
  readonly ofPipelines: PipelineParts;
  private target: number;
  /** Largest batch that staggered execution sustains at the present rate. */
  private largest = 1;
  /** Live default: a model that gains nothing by batching is not kept waiting, and nobody is dropped for a larger batch. */
  private readonly isVain: boolean;
  /** Batch that `gather` found: the earliest `size` of pending behind those set aside; 0 = none. */
  private size = 0;
  /** Heads before that batch, set aside: they are given up when it leaves without them (`deferred+`; 0 otherwise). */
  private aside = 0;
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: QueueView;
  private options: Omit<WindowQueueOptions, "plus">;
  private readonly sizeMax: number;
  /** l(b) on the fastest accelerator present, and with the delays before it: what every plan but a grant's is made with. */
  private readonly fastUs: Float64Array;
  private readonly planUs: Float64Array;
  /** The two of each size beside each other: what every arrival asks, in one line of memory. */
  private readonly pairs: Float64Array;
  /** What the plan was made from. */
  private plannedScale = 0;
  private plannedVersion = 0;
  private network: NetworkDelays;
  /** How long a request may wait by the SLO; see OfferTable. */
  private slackUs = Number.POSITIVE_INFINITY;
  /** What a grant takes to get here; and what of it is still to come in the plan being made: nothing once it is here. */
  private decisionUs = 0;
  private aheadUs = 0;

  /** @param rehearsal hears of what arrives; null: nobody does. */
  constructor(
    key: QueueKey,
    spec: QueueSpec,
    core: QueueView,
    options: WindowQueueOptions,
    rehearsal: Rehearsal | null = null,
  ) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.waiting = new WaitingRequests(core);
    this.pending = this.waiting.pending;
    this.solo = this.waiting.retries;
    this.times = new BatchTimes(key, spec, core);
    this.ofPipelines = new PipelineParts(this.pending, core.requests);
    this.options = options;
    this.sizeMax = spec.latency.sizeMax;
    this.network = core.delaysOf(key);
    this.rate = new RateMeter(options.rateWindowUs);
    this.recent = options.idleDispatch ? new RecentRate(RECENT_ARRIVALS) : null;
    this.parts = options.plus === undefined ? null : new QueuePlus(key, options.plus);
    this.plus = this.parts;
    this.rehearsal = rehearsal;
    if (rehearsal !== null) this.batchEnded = (batch, startAt, endAt) => rehearsal.ended(key, batch, startAt, endAt);
    core.offers.mayLeaveIdle[key] = options.idleDispatch ? 1 : 0;
    this.fastUs = new Float64Array(this.sizeMax + 2);
    this.planUs = new Float64Array(this.sizeMax + 2);
    this.pairs = new Float64Array(2 * (this.sizeMax + 2));
    this.target = 1;
    this.isVain = options.idleDispatch && options.opens === "frontrun" && savingOf(spec.latency.execUs) < SAVING_MIN;
    this.plan();
  }

  get length(): number {
    return this.pending.length + this.solo.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.joined(request, at);
    this.refresh(at);
  }

  joined(request: RequestHandle, at: number): void {
    this.pending.push(request, this.core.requests.dueAt[request]!);
    this.noted(request, at);
  }

  /** It came, and counts for what is planned, wherever it waits. */
  noted(request: RequestHandle, at: number): void {
    if (this.rate.observe(at)) this.target = this.computeTarget();
    if (this.recent !== null) {
      this.recent.observe(at);
      this.refreshDemand(at);
    }
    this.rehearsal?.heard(this.key, request, at);
  }

  /** By other rules from now on: when offers open, who is given up, and whether the parts of `deferred+` are on. */
  serveBy({ plus, groups: _, ...rules }: WindowRules, at: number): void {
    this.options = rules;
    this.plus = plus === null ? null : this.parts;
    this.plus?.begin();
    this.plan();
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    this.waiting.remove(request);
    this.refresh(at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    this.takeBack(request, alone);
    this.refresh(at);
  }

  /** The same; the caller refreshes it. */
  takeBack(request: RequestHandle, alone: boolean): void {
    this.waiting.takeBack(request, alone);
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.waiting.giveAway(to);
    this.aside = 0;
    this.size = 0;
    this.parts?.leave();
  }

  refreshDemand(at: number): void {
    if (this.recent === null) return;
    this.core.offers.demand[this.key] = (this.recent.perUs(at) * this.fastUs[this.target]!) / this.target;
  }

  refresh(at: number): void {
    if (this.solo.length > 0) this.solo.dropLate(this.endOf(1, at), at);
    this.gather(at);
    if (this.solo.length > 0) this.publishSolo(at);
    else this.publish(at);
    this.core.offerChanged(this.key, at);
  }

  planChanged(at: number): void {
    const { latency } = this.spec;
    const isAsPlanned =
      this.plannedScale === this.core.accelerators.fastestScale &&
      this.plannedVersion === latency.version &&
      this.network === this.core.delaysOf(this.key);
    if (isAsPlanned) return;
    this.plan();
    if (this.length > 0) this.refresh(at);
  }

  take(accelerator: AcceleratorId, at: number): BatchId {
    const { accelerators } = this.core;
    const { times } = this;
    const scale = accelerators.scale[accelerator]!;
    const freeAt = times.freeAt(accelerator, at);
    this.aheadUs = 0;
    this.solo.dropLate(this.endOf(1, at), at);
    const retry = this.solo.length > 0;
    this.gather(at);
    const mayLookAhead = !retry && freeAt <= at && scale <= accelerators.fastestScale;
    // A batch that more heads were given up for was due before; it does not wait again.
    const isDue = mayLookAhead && this.lookAhead(accelerator, at);
    const size = retry
      ? this.soloSize(at, freeAt, scale)
      : this.withinLimit(this.sizeFor(at, freeAt, scale, this.mostOn(accelerator, at)), scale);
    const startAt = this.startOf(size, at, freeAt);
    // The opening time may have moved with a head dropped just now: then the accelerator is better used elsewhere.
    const opensAt = retry || isDue ? at : this.opensAt(size, at);
    const isIdleDispatch = this.recent !== null && opensAt > startAt;
    const isEarly = this.isTooEarly(opensAt, startAt + this.decisionUs);
    this.aheadUs = this.decisionUs;
    if (size === 0 || (isEarly && this.recent === null)) {
      if (retry) this.publishSolo(at);
      else this.publish(at);
      this.core.offerChanged(this.key, at);
      return -1;
    }
    if (!retry) this.giveUpAside(at);
    const close = retry ? CLOSE_RETRY : this.closeReason(size, opensAt, at, isIdleDispatch);
    const batch = times.add(this.waiting.take(size), size, accelerator, startAt, close);
    this.plus?.batchSent(this.core.batches.execUs[batch]!);
    this.refresh(at);
    return batch;
  }

  /** Finds the batch (`size`) at the front of pending, having dropped whom the rule gives up. Plans with the fastest accelerator. */
  private gather(at: number): void {
    const { pending, options } = this;
    const count = pending.length;
    this.aside = 0;
    this.plus?.follow();
    if (count === 0) {
      this.size = 0;
      return;
    }
    const { sizeMax } = this;
    if (options.drop === "expired") {
      this.dropFront(pending.firstNotBefore(this.startOf(1, at, at)), 1, at);
      this.size = Math.max(
        Math.min(1, pending.length),
        this.largestBy(pending.length === 0 ? 0 : pending.deadlineAt(0), at, pending.length, 0),
      );
      return;
    }
    const whole = Math.min(count, sizeMax);
    if (pending.deadlineAt(0) >= this.endOf(whole, at)) {
      this.size = whole;
      return;
    }
    let base = 1;
    if (options.drop === "window") {
      // First index from which everything behind could run as one batch.
      let low = 0;
      let high = count;
      while (low < high) {
        const middle = (low + high) >> 1;
        const rest = count - middle;
        if (pending.deadlineAt(middle) < this.endOf(Math.min(rest, sizeMax), at)) low = middle + 1;
        else high = middle;
      }
      base = Math.max(1, Math.min(this.targetFor(count), count - low));
    }
    if (this.plus?.looksAhead) {
      this.dropFront(pending.firstNotBefore(this.endOf(1, at)), 1, at);
      this.aside = pending.firstNotBefore(this.endOf(base, at));
    } else this.dropFront(pending.firstNotBefore(this.endOf(base, at)), base, at);
    const rest = pending.length - this.aside;
    this.size = rest === 0 ? 0 : this.largestBy(pending.deadlineAt(this.aside), at, rest, Math.min(base, rest));
  }

  /** What is protected where so many wait: the rate that the target follows is behind in a burst. */
  private targetFor(waiting: number): number {
    const { target, largest, plus } = this;
    if (target >= largest || plus?.followsBacklog !== true || !this.ofPipelines.isPart(0)) return target;
    return Math.max(target, Math.min(largest, Math.ceil(waiting / this.core.accelerators.count)));
  }

  private isTooEarly(opensAt: number, at: number): boolean {
    return opensAt - (this.plus?.earlyUs ?? 0) > at;
  }

  /** Where the batch cannot hold all: may giving up more heads now cost fewer requests in all? Then those are set aside too. @returns whether any were. */
  private lookAhead(granted: AcceleratorId, at: number): boolean {
    const { plus, pending, aside, sizeMax } = this;
    if (plus === null || this.size === 0 || this.size === sizeMax) return false;
    const isHeldWhole = this.size === pending.length - aside;
    if (isHeldWhole && (aside === 0 || this.isTooEarly(this.opensAt(this.size, at), at))) return false;
    const { perUs } = this.rate;
    if (!(perUs > 0)) return false;
    const { planUs, target } = this;
    const outlook = { planUs, sizeMax, sloUs: this.spec.sloUs, ratePerUs: perUs, target, ...plus.waits };
    const sizeOf = (index: number): number => this.largestBy(pending.deadlineAt(index), at, pending.length - index, 1);
    this.aside = plus.headsToGiveUp(pending, granted, aside, at, outlook, sizeOf);
    if (this.aside === aside) return false;
    this.size = sizeOf(this.aside);
    return true;
  }

  /** The batch leaves without them. */
  private giveUpAside(at: number): void {
    if (this.aside === 0) return;
    this.dropFront(this.aside, this.size, at);
    this.aside = 0;
  }

  /** Planned end of a batch of `size` that starts as soon as it can after `at`. */
  private endOf(size: number, at: number): number {
    return at + this.pairs[2 * size + 1]! + this.aheadUs;
  }

  /** How long before its start a batch of `size` must be handed over: as BatchTimes says, from the delays of the plan (hot path). */
  private leadUs(size: number): number {
    const { network } = this;
    return network.controlUs + size * network.dataUsPerRequest;
  }

  private plan(): void {
    const { accelerators } = this.core;
    const { execUs } = this.spec.latency;
    const network = this.core.delaysOf(this.key);
    this.plannedScale = accelerators.fastestScale;
    this.plannedVersion = this.spec.latency.version;
    this.network = network;
    this.decisionUs = network.decisionUs ?? 0;
    this.aheadUs = this.decisionUs;
    for (let size = 1; size <= this.sizeMax + 1; size++) {
      this.fastUs[size] = Math.ceil(execUs[size]! * accelerators.fastestScale);
      this.planUs[size] =
        this.fastUs[size]! + network.controlUs + size * network.dataUsPerRequest + this.options.slackUs;
      this.pairs[2 * size] = this.fastUs[size]!;
      this.pairs[2 * size + 1] = this.planUs[size]!;
    }
    this.target = this.computeTarget();
    const { sloUs } = this.spec;
    this.plus?.mayTake(this.fastUs[1]!, sloUs);
    const { offers } = this.core;
    offers.aloneUs[this.key] = this.fastUs[1]!;
    this.slackUs =
      this.options.isolation && this.options.drop !== "expired"
        ? Math.max(0, sloUs - network.responseUs - this.planUs[1]!)
        : Number.POSITIVE_INFINITY;
    if (!this.ofPipelines.isExpected) offers.slackUs[this.key] = this.slackUs;
  }

  /** Largest size in [from, count] whose planned end holds `deadline`; `from` is known to hold. */
  private largestBy(deadline: number, at: number, count: number, from: number): number {
    let low = from;
    let high = Math.min(count, this.sizeMax);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.endOf(middle, at) <= deadline) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Size for one accelerator, which may be slower than the fastest or free only later; never drops on its account. */
  private sizeFor(at: number, freeAt: number, scale: number, most: number): number {
    if (this.size === 0) return 0;
    const sizeMax = Math.min(most, this.size);
    if (scale <= this.core.accelerators.fastestScale && freeAt <= at) return sizeMax;
    const deadline = this.pending.deadlineAt(this.aside);
    let size = sizeMax;
    while (size > 0 && this.endOn(size, at, freeAt, scale) > deadline) size--;
    if (size > 0 || this.options.drop !== "expired") return size;
    return this.startOf(1, at, freeAt) <= deadline ? 1 : 0;
  }

  /** What goes on to later modules of a pipeline at once: modules before it ran on the same accelerators. */
  private get goesOn(): boolean {
    return this.headStartUs > 0 && this.plus?.handsOn(true) === true && this.ofPipelines.isPart(this.aside);
  }

  /** Largest batch there. */
  private mostOn(accelerator: AcceleratorId, at: number): number {
    const most = this.times.sizeMaxOn(accelerator);
    if (this.size <= 1 || !this.goesOn) return most;
    const share = Math.min(most, this.size, this.plus!.shareOfIdle(this.pending.length - this.aside, accelerator, at));
    return this.ofPipelines.together(this.aside, share);
  }

  /** As much of it as the arbiter lets run there, and one request at the least. */
  private withinLimit(size: number, scale: number): number {
    const limitUs = this.core.offers.limitUs[this.key]!;
    if (limitUs === Number.POSITIVE_INFINITY || size <= 1) return size;
    return Math.max(1, Math.min(size, largestWithin(this.spec.latency.execUs, limitUs / scale)));
  }

  /** The whole part, in the order of deadlines; where there is no time for that, the first of it alone. */
  private soloSize(at: number, freeAt: number, scale: number): number {
    const { dueAt } = this.solo;
    const part = this.withinLimit(this.solo.partLength, scale);
    if (this.endOn(part, at, freeAt, scale) <= dueAt) return part;
    return this.endOn(1, at, freeAt, scale) <= dueAt ? 1 : 0;
  }

  private startOf(size: number, at: number, freeAt: number): number {
    return Math.max(at + this.leadUs(size), freeAt);
  }

  private endOn(size: number, at: number, freeAt: number, scale: number): number {
    return this.startOf(size, at, freeAt) + this.times.execUs(size, scale);
  }

  private opensAt(size: number, at: number): number {
    if (size === 0) return at;
    const { options } = this;
    if (options.opens === "eager" || this.isVain || this.plus?.isEnough(size)) return at;
    if (this.plus?.handsOn(this.headStartUs > 0) === true && this.ofPipelines.isPart(this.aside)) return at;
    if (options.opens === "timeout")
      return Math.min(this.earliestArrival(size) + options.timeoutUs, this.latestAt(size));
    if (size === this.sizeMax || size < this.pending.length - this.aside) return at;
    // One more request would need its data moved too.
    const joinUs = options.slackUs + this.pairs[2 * size + 2]! + this.network.dataUsPerRequest;
    return this.pending.deadlineAt(this.aside) - joinUs - (this.plus?.opensBoostUs(size, this.target) ?? 0);
  }

  /** Latest start of execution. The rule "expired" gives up a head that cannot begin alone, so it holds a larger batch until then. */
  private latestAt(size: number): number {
    const deadline = this.pending.deadlineAt(this.aside);
    return this.options.drop === "expired"
      ? deadline + this.leadUs(size) - this.leadUs(1)
      : deadline - this.options.slackUs - this.pairs[2 * size]!;
  }

  private publish(at: number): void {
    const { offers } = this.core;
    const { key, size } = this;
    offers.size[key] = size;
    if (size === 0) return;
    const lead = this.leadUs(size) + this.decisionUs;
    const latestAt = this.latestAt(size);
    const execUs = this.pairs[2 * size]!;
    offers.opensAt[key] = Math.max(at + lead, Math.min(this.opensAt(size, at), latestAt));
    offers.latestAt[key] = latestAt;
    offers.leadUs[key] = lead;
    offers.rank[key] = latestAt - (this.plus?.boostUs ?? 0) - this.headStartUs;
    if (this.slackUs < Number.POSITIVE_INFINITY)
      offers.slackUs[key] = this.ofPipelines.slackUs(this.aside, this.slackUs, this.planUs[1]!);
    // It stays 0 where no part of `deferred+` ever was.
    if (this.parts !== null)
      offers.earlyExecUs[key] = this.plus === null ? 0 : this.plus.earlyUnitUs(size, execUs, this.fastUs[size + 1]!);
    offers.execUs[key] = execUs;
    // Whoever is left out waits in a batch of its own; where that is full it cannot grow, and is as due as this one.
    const behind = this.pending.length - size;
    offers.more[key] = behind < this.sizeMax ? 0 : Math.floor(behind / this.sizeMax);
  }

  /** Of its head. */
  private get headStartUs(): number {
    return this.ofPipelines.headStartUs(this.aside);
  }

  private publishSolo(at: number): void {
    const { offers } = this.core;
    const { key } = this;
    const lead = this.leadUs(1) + this.decisionUs;
    offers.size[key] = 1;
    offers.opensAt[key] = at + lead;
    offers.latestAt[key] = this.solo.dueAt - this.fastUs[1]!;
    offers.leadUs[key] = lead;
    offers.rank[key] = offers.latestAt[key]!;
    offers.earlyExecUs[key] = 0;
    offers.execUs[key] = this.fastUs[1]!;
    offers.more[key] = 0;
  }

  /** @param size of the batch in which they would not be in time. */
  private dropFront(count: number, size: number, at: number): void {
    if (count === 0) return;
    if (this.plus !== null) for (let index = 0; index < count; index++) this.plus.gaveUp();
    // Who could not even begin by its deadline is expired already, where that alone is asked.
    const expiredBefore = this.options.drop === "expired" ? this.startOf(1, at, at) : at;
    this.waiting.dropFront(count, at, this.endOf(1, at), this.endOf(size, at), expiredBefore);
  }

  private closeReason(size: number, opensAt: number, at: number, isIdleDispatch: boolean): number {
    if (size === this.sizeMax) return CLOSE_FULL;
    if (isIdleDispatch) return CLOSE_IDLE;
    if (this.options.opens === "eager") return CLOSE_EAGER;
    if (opensAt < at) return CLOSE_ACCELERATOR_FREE;
    return this.options.opens === "timeout" ? CLOSE_TIMEOUT : CLOSE_WINDOW;
  }

  private earliestArrival(size: number): number {
    const { arrivalAt } = this.core.requests;
    let earliest = Number.POSITIVE_INFINITY;
    for (let index = 0; index < size; index++) earliest = Math.min(earliest, arrivalAt[this.pending.handleAt(index)]!);
    return earliest;
  }

  private computeTarget(): number {
    if (this.options.target !== null) return Math.min(this.options.target, this.sizeMax);
    if (this.isVain) return 1;
    const { network } = this;
    // Where the arbiter is elsewhere, a request waits for word of its offer to get there, and of the grant to come back.
    const budgetUs = this.spec.sloUs - network.controlUs - network.responseUs - 2 * this.decisionUs;
    const { perUs } = this.rate;
    const size = targetSize(this.fastUs, this.spec.sloUs, budgetUs, network.dataUsPerRequest, perUs);
    this.largest = size;
    return this.plus === null ? size : this.plus.target(this.fastUs, size, perUs, this.rate.dispersion);
  }
}

/** Share of a run alone that each request saves by joining others; 0 where a batch holds one. @param execUs see linearTable. */
function savingOf(execUs: Float64Array): number {
  const size = Math.min(SAVING_SIZE, execUs.length - 2);
  return size < 2 ? 0 : (size * execUs[1]! - execUs[size]!) / ((size - 1) * execUs[1]!);
}
