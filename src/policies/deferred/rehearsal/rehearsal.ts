import type { NetworkDelays, Policy, QueueKey, QueueSpec, QueueView } from "../../../core/policy.js";
import type { AcceleratorTable } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import type { TimesByKind } from "../../by-kind/times-by-kind.js";
import type { SharedLoad } from "../shared-load.js";
import { staggeredCostUs } from "../target-size.js";
import type { WindowRules } from "../window-queue.js";
import { RunSpread } from "./run-spread.js";
import { Stage } from "./stage.js";
import { OWN_WAY, PLAIN_WAYS, WAYS } from "./ways.js";

/** A rehearsal is of so many arrivals at the least and at the most, and of this many times the longest SLO between. */
const ROWS_MIN = 64;
const ROWS_MAX = 4096;
const WINDOW_SLOS = 5;
const WINDOW_GROWTH = 2;
const WINDOW_SLOS_MAX = 20;
/** Arrivals rehearsed to each that comes: the work is spread, so that nothing waits for it. */
const STEPS = 32;
/** After a rehearsal that changes nothing there is none for as long as it took, then for twice as long, up to so many times. */
const REST_GROWTH = 2;
const REST_MAX = 2;
/** Nothing counts before so many of the longest SLO: each way begins with nothing in hand. */
const WARMUP_SLOS = 2;
/**
 * What another way must earn more than the present one, as a part of all that there was to earn: a little, and what
 * chance explains over n arrivals, SPREAD / sqrt(n).
 */
const MARGIN = 0.001;
const SPREAD = 0.08;
/** What was seen before counts half whenever so many arrivals have been. */
const ARRIVALS_HALVED = 40_000;

/**
 * What the present way earned may fall so far behind its own rehearsal, as a part of what there was to earn, before the rehearsal is
 * not believed: it began with nothing in hand, and some ways never get out of a backlog once they are in one.
 */
const BEHIND_MAX = 0.1;

/** With more queues nothing is rehearsed: what is done then stays. */
const QUEUES_MAX = 256;

const COLUMNS = 5;
const KEY = 0;
const AT = 1;
const DEADLINE = 2;
const DUE_BY = 3;
const KIND = 4;
/** Steps of a sequence that fills (0, 1) evenly, as a part of 2^32: the golden section. */
const GOLDEN = 0x9e3779b1;

/** Of queues with these rules, and kinds that differ (null: they do not). */
type CreatePolicy = (
  rulesOf: (spec: QueueSpec) => WindowRules,
  kindsOf: (spec: QueueSpec) => TimesByKind | null,
) => Policy;

/** A queue that can be served in several ways. */
export interface Rehearsed {
  serveBy(rules: WindowRules, at: number): void;
  /** What is known of its kinds, where they differ. */
  readonly kinds?: TimesByKind | null;
}

interface Member {
  /** null: it is served as it is configured, whatever would be better. */
  readonly queue: Rehearsed | null;
  readonly spec: QueueSpec;
  readonly own: WindowRules;
  /** Its key on every stage. */
  staged: QueueKey;
}

/**
 * What would the other ways of serving have earned with the arrivals that came? A policy that nobody tunes asks that of
 * itself: it writes down arrivals for a while, plays them to each of WAYS in virtual time, with the same queues, arbiter and
 * accelerators, and does from then on what earned the most.
 *
 * What a request is worth is the accelerator time that it needs at the least: by number, who starves the dearest model
 * would win. Stages go on where they were in the rehearsal before, as if nothing had come between.
 *
 * All of it is a function of the events that the scheduler is told: a recorded run replays to the same commands.
 */
export class Rehearsal {
  private readonly members = new Map<QueueKey, Member>();
  /** Queues that no stage can play. */
  private readonly others = new Set<QueueKey>();
  /** Made for the first: most schedulers rehearse nothing. */
  private rows = new Float64Array(0);
  private count = 0;
  /** When recording began and ended. */
  private fromAt = 0;
  private toAt = 0;
  /** Somebody would follow. */
  private isAsked = false;
  private isRecording = false;
  private restUntil = Number.NEGATIVE_INFINITY;
  private rests = 0;
  private windowSlos = WINDOW_SLOS;
  private stages: Stage[] = [];
  private worth = new Float64Array(16);
  /** Moment of the stages at which the present rehearsal begins. */
  private stagedAt = 0;
  /** Moment of the stages from which arrivals count. */
  private countsFrom = 0;
  private stage = 0;
  private row = 0;
  private readonly earned = new Float64Array(WAYS.length);
  /** What there was to earn, and in how many arrivals. */
  private offered = 0;
  /** By queue, as staged: requests that the present way had in time while the present rehearsal's arrivals were written down. */
  private inTimeHere = new Float64Array(0);
  private offeredBefore = 0;
  private arrivals = 0;
  private way = 0;
  /** How many of WAYS are rehearsed. */
  private ways = PLAIN_WAYS;
  /** Arrivals written down before the present rehearsal: what each takes alone is drawn by its number. */
  private numbered = 0;
  private servedSince = Number.NEGATIVE_INFINITY;
  /** Of the scheduler's queues; null before the first. */
  private core: QueueView | null = null;
  private readonly accelerators: AcceleratorTable;
  private readonly load: SharedLoad;
  private readonly createPolicy: CreatePolicy;
  private readonly spread = new RunSpread();

  constructor(accelerators: AcceleratorTable, load: SharedLoad, createPolicy: CreatePolicy) {
    this.accelerators = accelerators;
    this.load = load;
    this.createPolicy = createPolicy;
  }

  add(key: QueueKey, spec: QueueSpec, own: WindowRules, queue: Rehearsed, core: QueueView): void {
    this.core = core;
    const asks = own.plus?.rehearse === true;
    this.members.set(key, { queue: asks ? queue : null, spec, own, staged: -1 });
    const before = this.way;
    this.begin();
    if (this.way !== before) this.serve(0);
    else if (asks) {
      this.load.isOn = WAYS[this.way]!.hasParts;
      queue.serveBy(WAYS[this.way]!.rulesOf(own, spec.sloUs), 0);
    }
  }

  /** A queue of another sort is on the same accelerators: while it is, nothing is rehearsed, and all are served as they are configured. */
  addOther(key: QueueKey): void {
    this.others.add(key);
    this.beginAnew();
  }

  removed(key: QueueKey): void {
    if (this.others.delete(key)) this.beginAnew();
    if (this.members.delete(key)) this.begin();
  }

  private beginAnew(): void {
    const before = this.way;
    this.begin();
    if (this.way !== before) this.serve(0);
  }

  /** A queue knows now that its kinds differ, or that they do not any more. */
  kindsChanged(at: number): void {
    this.begin();
    this.serve(at);
  }

  private serve(at: number): void {
    const { hasParts, rulesOf } = WAYS[this.way]!;
    this.load.isOn = hasParts;
    for (const { queue, spec, own } of this.members.values()) queue?.serveBy(rulesOf(own, spec.sloUs), at);
  }

  /** The queue was sent a request. */
  heard(key: QueueKey, request: RequestHandle, at: number): void {
    if (!this.isAsked) return;
    if (this.goesOn(key, request)) {
      this.isAsked = false;
      this.way = OWN_WAY;
      this.serve(at);
      return;
    }
    if (this.count > 0 && !this.isRecording) this.play(at);
    else if (this.isRecording) this.record(key, request, at);
    else if (at >= this.restUntil) {
      if (this.rows.length === 0) this.rows = new Float64Array(ROWS_MAX * COLUMNS);
      this.fromAt = at;
      this.isRecording = true;
      this.inTimeHere.fill(0);
      this.offeredBefore = this.offered;
      this.record(key, request, at);
    }
  }

  /**
   * Requests go on to later modules of a pipeline: a stage, where nothing follows, knows no reason to leave them time, nor to begin what is begun
   * before what is not. What is on then stays until there are other queues.
   */
  private goesOn(key: QueueKey, request: RequestHandle): boolean {
    const { members } = this;
    if (members.size === 1 && members.get(key)?.own.plus?.handOn !== true) return false;
    const { requests } = this.core!;
    return requests.dueAt[request]! < requests.latestEndAt[request]!;
  }

  /** A batch of the queue ended. What it earned counts while arrivals are written down, as what was earned on a stage does. */
  ended(key: QueueKey, batch: BatchId, startAt: number, endAt: number): void {
    const member = this.members.get(key);
    if (!this.isAsked || member === undefined) return;
    const { requests, batches } = this.core!;
    // Where kinds are known they say what batches take.
    if ((member.queue?.kinds ?? null) === null)
      this.spread.ran(batches.executedSize[batch]!, batches.execUs[batch]!, endAt - startAt);
    if (!this.isRecording || member.staged < 0) return;
    let inTime = 0;
    for (let handle = batches.first[batch]!; handle >= 0; handle = requests.next[handle]!)
      if (endAt <= requests.latestEndAt[handle]!) inTime++;
    this.inTimeHere[member.staged]! += inTime;
  }

  /** Other queues than before: what they do to each other is not known. */
  private begin(): void {
    const hasKinds = [...this.members.values()].some(({ queue }) => (queue?.kinds ?? null) !== null);
    const ways = hasKinds ? WAYS.length : PLAIN_WAYS;
    const isUndecided = this.servedSince === Number.NEGATIVE_INFINITY || ways !== this.ways;
    this.ways = ways;
    // Until something was seen, what loses least: windows, or groups where kinds are known; they measure most of them alone, too.
    if (isUndecided) this.way = hasKinds ? PLAIN_WAYS : 0;
    if (this.others.size > 0) this.way = OWN_WAY;
    this.isAsked =
      this.others.size === 0 &&
      this.members.size <= QUEUES_MAX &&
      [...this.members.values()].some(({ queue }) => queue !== null);
    this.stages = [];
    this.count = 0;
    this.isRecording = false;
    this.windowSlos = WINDOW_SLOS;
    this.rests = 0;
    this.earned.fill(0);
    this.offered = 0;
    this.arrivals = 0;
  }

  private get longestUs(): number {
    let longest = 0;
    for (const { spec } of this.members.values()) longest = Math.max(longest, spec.sloUs);
    return longest;
  }

  private record(key: QueueKey, request: RequestHandle, at: number): void {
    const { rows } = this;
    const { requests } = this.core!;
    const { responseUs } = this.core!.delaysOf(key);
    const offset = this.count++ * COLUMNS;
    const latestEndAt = requests.latestEndAt[request]!;
    const dueAt = requests.dueAt[request]!;
    rows[offset + KEY] = key;
    rows[offset + AT] = at;
    rows[offset + DEADLINE] = latestEndAt + responseUs;
    rows[offset + KIND] = requests.kind[request]!;
    rows[offset + DUE_BY] = dueAt === latestEndAt ? Number.POSITIVE_INFINITY : dueAt + responseUs;
    const isLong = at - this.fromAt >= this.windowSlos * this.longestUs && this.count >= ROWS_MIN;
    if (!isLong && this.count < ROWS_MAX) return;
    this.isRecording = false;
    this.toAt = at;
    this.stage = 0;
    this.row = 0;
    this.setStages();
  }

  private setStages(): void {
    const { accelerators, members } = this;
    const core = this.core!;
    if (this.stages.length === 0) {
      this.stagedAt = 0;
      this.countsFrom = WARMUP_SLOS * this.longestUs;
      const list = [...members.values()];
      this.worth = new Float64Array(list.length);
      this.inTimeHere = new Float64Array(list.length);
      const kinds = new Map(list.map(({ queue, spec }) => [spec, queue?.kinds ?? null]));
      this.stages = WAYS.slice(0, this.ways).map((way) => {
        const rules = new Map(
          list.map(({ queue, spec, own }) => {
            const { plus, ...rest } = queue === null ? own : way.rulesOf(own, spec.sloUs);
            return [spec, { ...rest, plus: plus && { ...plus, rehearse: false, byApp: false } }] as const;
          }),
        );
        const policy = this.createPolicy(
          (spec) => rules.get(spec)!,
          (spec) => kinds.get(spec)!,
        );
        const stage = new Stage(policy, core.network, accelerators.capacity, this.worth, this.spread);
        for (const member of list) member.staged = stage.addQueue(member.spec, kinds.get(member.spec)!);
        return stage;
      });
    }
    const delays: NetworkDelays[] = [];
    const capacity = Math.max(1, this.load.capacity());
    const { fastestScale } = accelerators;
    for (const [key, { spec, staged }] of members) {
      delays[staged] = core.delaysOf(key);
      const { execUs, sizeMax } = spec.latency;
      // A model that is learnt as slow on accelerators that are learnt as fast is worth no more.
      this.worth[staged] = fastestScale * staggeredCostUs(execUs, sizeMax, spec.sloUs / fastestScale, capacity);
    }
    for (const stage of this.stages) stage.follow(accelerators, delays);
  }

  private play(at: number): void {
    const { rows, members } = this;
    const stage = this.stages[this.stage]!;
    const shift = this.stagedAt - this.fromAt;
    const end = Math.min(this.count, this.row + STEPS);
    const { worth } = this;
    for (; this.row < end; this.row++) {
      const offset = this.row * COLUMNS;
      const { staged } = members.get(rows[offset + KEY]!)!;
      const stagedAt = rows[offset + AT]! + shift;
      const counts = stagedAt >= this.countsFrom;
      const draw = (Math.imul(this.numbered + this.row, GOLDEN) >>> 0) / 2 ** 32;
      stage.arrive(
        staged,
        rows[offset + DEADLINE]! + shift,
        rows[offset + DUE_BY]! + shift,
        stagedAt,
        counts,
        rows[offset + KIND]!,
        draw,
      );
      if (counts && this.stage === 0) {
        this.offered += worth[staged]!;
        this.arrivals++;
      }
    }
    if (this.row < this.count) return;
    this.row = 0;
    this.stage++;
    if (this.stage === this.stages.length) this.judge(at);
  }

  /** By what requests are worth now, as on the stages. */
  private earnedHere(): number {
    return this.inTimeHere.reduce((sum, count, staged) => sum + count * this.worth[staged]!, 0);
  }

  private judge(at: number): void {
    const { earned, stages } = this;
    // Who gives up the hopeless by kind collapses in no backlog: where it falls behind, times are not yet known, and the other stages are as far off.
    const mayCollapse = !WAYS[this.way]!.needsKinds;
    const isMeasured = mayCollapse && this.fromAt > this.servedSince && this.offeredBefore > 0;
    const most = isMeasured ? this.earnedHere() + BEHIND_MAX * (this.offered - this.offeredBefore) : Infinity;
    for (const [way, stage] of stages.entries()) {
      earned[way] = earned[way]! + (way === this.way ? Math.min(stage.earned, most) : stage.earned);
      stage.earned = 0;
    }
    const lengthUs = this.toAt - this.fromAt;
    this.stagedAt += lengthUs + 1;
    this.numbered += this.count;
    this.count = 0;
    if (this.arrivals === 0) {
      this.restUntil = at;
      return;
    }
    let best = this.way;
    for (let way = 0; way < this.ways; way++) if (earned[way]! > earned[best]!) best = way;
    const least = (MARGIN + SPREAD / Math.sqrt(this.arrivals)) * this.offered;
    const isBetter = earned[best]! - earned[this.way]! > least;
    this.rests = isBetter ? 0 : Math.min(REST_MAX, this.rests === 0 ? 1 : this.rests * REST_GROWTH);
    this.restUntil = at + this.rests * lengthUs;
    this.windowSlos = Math.min(WINDOW_SLOS_MAX, this.windowSlos * WINDOW_GROWTH);
    if (this.arrivals > ARRIVALS_HALVED) {
      this.offered /= 2;
      this.arrivals /= 2;
      for (let way = 0; way < WAYS.length; way++) earned[way] = earned[way]! / 2;
    }
    if (!isBetter) return;
    this.way = best;
    this.servedSince = at;
    this.serve(at);
  }
}
