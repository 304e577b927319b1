/** What the queue of a module must reach: the part of a pipeline's one deadline that is its own. */
import { AHEAD_DEFAULTS, type AheadOptions } from "./ahead/ahead.js";
import type { Board } from "./board.js";
import { CommittedWork, type SharedAccelerators } from "./committed-work.js";
import type { Flow, FlowRequest, Part } from "./flow.js";
import { Forecast, type RequestFrames } from "./forecast.js";
import { columnOf, PART_QUANTILES, WINDOW_INTERVALS } from "./module-states.js";
import { Overload } from "./overload.js";
import { type PartFrames, PartWork, type Work } from "./part-work.js";
import type { Pipeline } from "./pipeline.js";

/**
 * How a module's queue, under a policy that knows one module only, is told of the others:
 * - share: of the time that is left it gets its share, by the least times of the modules from here on along the longest way, and of
 *   parts of a fan-out by that of all that come together; a module without batches gets all but the least that must still follow;
 * - measured: the same by the times that parts took in the modules lately, if that is more; by the least times where it is not known;
 * - staggered: all of it but what later modules take when they are full: the time of the planned batch and the mean wait for an accelerator that
 *   runs such batches in turn with others; its share (as above, and of modules without batches, too) where that is more. Where modules
 *   share accelerators, later ones go first, and a request is let in only if it can end behind all that is begun (CommittedWork);
 * - rest: all of it but the least that must still follow;
 * - whole: all of it (what follows is not looked at; PARD-back);
 * - forecast: all of it but what is expected to follow, queueing and waits in batches included (PARD Eq. 3b);
 * - durations: all of it but the executions that are expected to follow (PARD-sf);
 * - split: a fixed part of the SLO from when the part came, by the planned times of all modules (Clipper++, PARD-split), of parts of a
 *   fan-out by those of all that come together (the paper's pipelines have none);
 * - worst: the same by the longest that parts took lately (PARD-WCL);
 * - overload: all of it, but a part of what comes is refused at and before a module whose queueing is too long (PARD-oc, DAGOR).
 * With share, staggered and rest nothing is begun that cannot end in time any more.
 */
export const BUDGET_RULES = [
  "share",
  "measured",
  "staggered",
  "rest",
  "whole",
  "forecast",
  "durations",
  "split",
  "worst",
  "overload",
] as const;
export type BudgetRule = (typeof BUDGET_RULES)[number];

/**
 * How forecast goes about modules whose batches are of one, of which profiles tell little (an LLM, a service elsewhere):
 * - profiles: as about all others;
 * - recent: their parts take as long as they did lately, or, where what is known of their lengths says it, as long as such took (PARD §7,
 *   proactive); they wait for no batch;
 * - foreseen: as recent, and how long an answer will be is known (predict).
 */
export const ESTIMATES = ["profiles", "recent", "foreseen"] as const;
export type Estimates = (typeof ESTIMATES)[number];

/** forecast: lambda as in ForecastOptions, and AheadOptions. */
export interface BudgetSpec extends AheadOptions {
  readonly rule: BudgetRule;
  readonly lambda: number;
  /** forecast, durations, worst, overload: seconds that what modules say is measured over. */
  readonly windowS: number;
  /** forecast. */
  readonly estimates: Estimates;
  /** overload: the part that is refused, and the mean queueing delay from which on. */
  readonly alpha: number;
  readonly thresholdUs: number;
}

/** PARD §4.2; of oc the setting for its wiki trace (§5.3). */
export const BUDGET_DEFAULTS: Omit<BudgetSpec, "rule"> = {
  ...AHEAD_DEFAULTS,
  lambda: 0.1,
  windowS: WINDOW_INTERVALS,
  estimates: "profiles",
  alpha: 0.4,
  thresholdUs: 20_000,
};

/** Of requests in a module, delays before execution included. */
export interface ModuleTimes {
  /** One alone. */
  leastUs(module: number): number;
  /** A batch of the planned size; absent: as one alone. */
  plannedUs?(module: number): number;
  /** A batch of the planned size and its wait for an accelerator while all run such batches in turn; absent: as one alone. @param sloUs that is planned for where the model says nothing. */
  staggeredUs?(module: number, sloUs: number): number;
  /**
   * So many that come at once, until the last is done; absent: as one alone.
   * @param beside so many of another request are there for each accelerator but one. @param eachUs accelerator time of each, as measured; NaN: by the profile.
   */
  togetherUs?(module: number, count: number, beside: number, eachUs: number): number;
  /**
   * One alone, by its own lengths; 0: it has none, or what they are cannot be known when it comes. Absent: 0.
   * @param frame of the part. @param foresees also what becomes known only as it runs.
   */
  lengthsUs?(module: number, frame: number, foresees: boolean): number;
  /** Its batches are of one: its queue waits for nobody, whatever time it is given. */
  isSingle?(module: number): boolean;
  /** Modules of one number run on the same accelerators. Absent: each has its own. */
  groupOf?(module: number): number;
  /** How many those are. Absent: one. */
  acceleratorsOf?(module: number): number;
}

/** What the queue of a module is told of a part; see RequestTraits. */
export interface PartDue {
  /** When it must be done, on the clock of the deadline. */
  dueBy: number;
  headStartUs: number;
}

const SEED = 1;
const QUEUE_US = columnOf("queue_us");
const RUN_US = columnOf("run_us");
const EXEC_US = columnOf("exec_us");
const WORST_US = columnOf("worst_us");
/** The first quantile that is published, the last, and the middle one. */
const LEAST_PARTS = columnOf("parts_0");
const MOST_PARTS = LEAST_PARTS + PART_QUANTILES - 1;
const MEDIAN_PARTS = LEAST_PARTS + (PART_QUANTILES - 1) / 2;

/** Which column of what modules publish the rule goes by. */
const MEASURED_BY: Partial<Record<BudgetRule, (value: (column: number) => number) => number>> = {
  measured: (value) => value(QUEUE_US) + value(RUN_US),
  durations: (value) => value(EXEC_US),
  worst: (value) => value(WORST_US),
};

export class Budgets {
  readonly spec: BudgetSpec;
  private readonly pipeline: Pipeline;
  /** By module: least time of one request in it, and in all modules after and before it along the longest way. */
  private readonly leastOwnUs: Float64Array;
  private leastAfterUs: Float64Array;
  private leastBeforeUs: Float64Array;
  /** What the rule goes by where nothing is measured, and where it is. */
  private priorOwnUs: Float64Array;
  private ownUs: Float64Array;
  private afterUs: Float64Array;
  private beforeUs: Float64Array;
  private times: ModuleTimes;
  private readonly work: PartWork;
  /** Of a request that no other comes with. */
  private readonly lone = { ownUs: 0, beforeUs: 0, afterUs: 0 };
  /** What the pipeline promises. */
  private readonly promisedUs: number;
  /** staggered: by module, itself and all after it; and of parts that come together. */
  private reserveUs: Float64Array = new Float64Array(0);
  private reserveAfterUs: Float64Array = new Float64Array(0);
  /** By module: those before it; of them those on its accelerators. */
  private readonly before: readonly (readonly number[])[];
  private earlier: readonly (readonly number[])[];
  private readonly headStarts: Float64Array;
  /** The longest run of one alone on the accelerators that modules share, µs. */
  private longestUs = 0;
  /** By module: its accelerators began a run of a module before it while the request was elsewhere; 0: it comes straight from one of those. */
  private readonly interludeUs: Float64Array;
  private readonly reserved: PartWork;
  /** staggered: what modules take that have their accelerators for themselves, as measured. */
  private readonly expected: PartWork;
  /** By module that fans out: parts that a request made of late, in the mean. */
  private readonly parts: Float64Array;
  /** staggered; null: no two modules share accelerators. */
  private committed: CommittedWork | null = null;
  /** Null: another rule. */
  private readonly forecast: Forecast | null;
  private readonly overload: Overload | null;

  /** @param promisedUs what the pipeline promises, from which planned batches follow. */
  constructor(pipeline: Pipeline, spec: BudgetRule | BudgetSpec, times: ModuleTimes, promisedUs = 0) {
    this.pipeline = pipeline;
    this.times = times;
    this.promisedUs = promisedUs;
    this.work = new PartWork(pipeline, (module, count) => this.togetherUs(module, count, this.ownUs[module]!));
    this.reserved = new PartWork(pipeline, (module, count, beside) =>
      this.earlier[module]!.length > 0 && this.times.togetherUs !== undefined
        ? this.interludeUs[module]! + this.times.togetherUs(module, count, beside, this.eachUs(module))
        : this.togetherUs(module, count, this.reserveUs[module]!),
    );
    this.expected = new PartWork(pipeline, (module, count) =>
      this.times.togetherUs === undefined
        ? this.leastOwnUs[module]!
        : this.times.togetherUs(module, count, 0, this.eachUs(module)),
    );
    this.spec = typeof spec === "string" ? { ...BUDGET_DEFAULTS, rule: spec } : spec;
    this.before = before(pipeline);
    this.earlier = pipeline.modules.map(() => []);
    this.headStarts = new Float64Array(pipeline.modules.length);
    this.interludeUs = new Float64Array(pipeline.modules.length);
    this.parts = new Float64Array(pipeline.modules.length).fill(1);
    const { rule, alpha, thresholdUs } = this.spec;
    this.leastOwnUs = Float64Array.from(pipeline.modules, (_, module) => times.leastUs(module));
    this.leastAfterUs = this.along("subs", this.leastOwnUs);
    this.leastBeforeUs = this.along("pres", this.leastOwnUs);
    this.priorOwnUs = this.priorOf(times);
    this.ownUs = this.priorOwnUs;
    this.afterUs = this.work.along("subs");
    this.beforeUs = this.work.along("pres");
    this.reserve();
    this.forecast = rule === "forecast" ? new Forecast(pipeline, this.leastOwnUs, { ...this.spec, seed: SEED }) : null;
    this.overload = rule === "overload" ? new Overload(pipeline, alpha, thresholdUs) : null;
  }

  /** A module is known to take another time by itself, while it is served. */
  retimed(times: ModuleTimes): void {
    this.times = times;
    this.work.forget();
    this.reserved.forget();
    for (const module of this.leastOwnUs.keys()) this.leastOwnUs[module] = times.leastUs(module);
    this.leastAfterUs = this.along("subs", this.leastOwnUs);
    this.leastBeforeUs = this.along("pres", this.leastOwnUs);
    this.priorOwnUs = this.priorOf(times);
    this.reserve();
    // What is measured is told again when modules publish.
    if (MEASURED_BY[this.spec.rule] === undefined) this.goBy(this.priorOwnUs);
  }

  /** The modules published. @param states of them, a row each; see ModuleStates. */
  published(states: Board, at: number): void {
    this.forecast?.published(states, at);
    this.overload?.published(states, at);
    if (this.spec.rule === "staggered") this.learn(states, at);
    const measuredBy = MEASURED_BY[this.spec.rule];
    if (measuredBy === undefined) return;
    const row = states.blank();
    const value = (column: number): number => row.value(column);
    this.goBy(
      this.priorOwnUs.map((priorUs, module) =>
        states.read(module, at, row) === "fresh" ? measuredBy(value) : priorUs,
      ),
    );
  }

  /**
   * The moment, on the clock of the deadline, that the queue of the module must reach for a request that comes to it at `at`: asked
   * once for each.
   * @param arrivalAt of the whole request. @param frame of the part, and the flow that knows it; null: no other comes with it.
   */
  dueBy(
    module: number,
    at: number,
    deadline: number,
    arrivalAt: number,
    frame = 0,
    frames: RequestFrames | null = null,
  ): number {
    switch (this.spec.rule) {
      case "whole":
        return deadline;
      case "rest":
        return deadline - this.leastAfterUs[module]!;
      case "forecast":
        return Math.floor(deadline - this.forecast!.of(module, frame, frames) - this.beyondLeastUs(module, frame));
      case "durations":
        return Math.floor(deadline - this.afterUs[module]!);
      case "split":
      case "worst":
        return Math.min(deadline, at + partOf(deadline - arrivalAt, this.workOf(module, frame, frames)));
      case "overload":
        return this.overload!.admits(module) ? deadline : at;
      case "measured":
      case "share":
        return this.shareBy(module, at, deadline, frame, frames);
      case "staggered":
        return Math.max(
          this.partBy(module, at, deadline, frame, frames),
          Math.floor(deadline - this.reservedAfterUs(module, frame, frames)),
        );
    }
  }

  /**
   * Of a part that comes to its module. Whoever asks tells what becomes of it: `ran`, `left`, and `ended` of its request.
   * @param due is told by when it must be done, and how much earlier than by its latest start it ranks. `dueBy` as of the function of that
   * name; `at`, which nobody reaches: its request is not let in.
   */
  tell(due: PartDue, part: Part, flow: Flow, at: number): void {
    const { committed } = this;
    const [module, frame, request] = [flow.moduleOf(part), flow.frameOf(part), flow.requestOf(part)];
    const deadline = flow.deadline[request]!;
    due.dueBy = this.dueBy(module, at, deadline, flow.arrivalAt[request]!, frame, flow);
    due.headStartUs = this.headStartUs(module);
    if (committed === null) return;
    const pathUs = this.ownUs[module]! + this.afterUs[module]!;
    if (!committed.isIn(request) && !committed.letsIn(request, pathUs, deadline, at)) {
      due.dueBy = at;
      return;
    }
    committed.came(request, part, module, Math.max(1, flow.togetherOf(frame)));
    // Who is let in and can no longer leave later modules what they may take is given up only when they cannot do it at all.
    const { ownUs, afterUs } = this.expected.of(module, frame, flow);
    const least = Math.floor(deadline - afterUs);
    if (due.dueBy < at + ownUs + this.longestUs) due.dueBy = Math.max(due.dueBy, least);
    if (due.headStartUs === 0) return;
    // But a part must leave those behind it their time: else its request is given up only when the last is too late, all others done. It ranks as they do.
    const earlierUs = due.dueBy - least + Math.floor(this.expected.behindUs(module, frame, flow));
    if (earlierUs <= 0) return;
    due.dueBy -= earlierUs;
    due.headStartUs = Math.max(1, due.headStartUs - earlierUs);
  }

  /** Whether a request goes on that makes so many parts in the module. */
  goesOn(request: FlowRequest, module: number, parts: number, at: number): boolean {
    return this.committed === null || this.committed.goesOn(request, module, parts, at);
  }

  /** A part ran in a batch of this size. */
  ran(part: Part, size: number): void {
    this.committed?.ran(part, size);
  }

  /** A part left its module, however. @param execUs of the batch that it ran in; 0: it did not run. */
  left(part: Part, flow: Flow, execUs: number, at: number): void {
    this.committed?.left(flow.requestOf(part), part, flow.moduleOf(part), execUs, at);
  }

  /** A request ended. @param isLost it was not in time, though nobody called it off and nothing failed. */
  ended(request: FlowRequest, isLost: boolean): void {
    this.committed?.ended(request, isLost);
  }

  /**
   * How much earlier than by its latest start a part ranks in the module, µs: what the first module of these accelerators kept for itself and all after
   * it. With the same deadlines a request that is begun then goes before all that are not, and what it took is not in vain. 0 under other rules.
   */
  headStartUs(module: number): number {
    return this.headStarts[module]!;
  }

  private shareBy(module: number, at: number, deadline: number, frame: number, frames: PartFrames | null): number {
    if (this.times.isSingle?.(module) === true) return deadline - this.leastAfterUs[module]!;
    return this.partBy(module, at, deadline, frame, frames);
  }

  private partBy(module: number, at: number, deadline: number, frame: number, frames: PartFrames | null): number {
    const { ownUs, afterUs } = this.workOf(module, frame, frames);
    return at + shareOf(deadline - at, ownUs, afterUs);
  }

  /** @returns read at once: the next call writes it anew. */
  private workOf(module: number, frame: number, frames: PartFrames | null): Work {
    if (frames !== null && this.pipeline.scope[module]! >= 0) return this.work.of(module, frame, frames);
    const { lone } = this;
    lone.ownUs = this.ownUs[module]!;
    lone.beforeUs = this.beforeUs[module]!;
    lone.afterUs = this.afterUs[module]!;
    return lone;
  }

  /** Whether parts wait there in a batch for the one before it to end. */
  hasBatches(module: number): boolean {
    return this.spec.estimates === "profiles" || this.times.isSingle?.(module) !== true;
  }

  /** Time of a part alone by all that is ever known of its lengths; 0: it has none. */
  lengthsUs(module: number, frame: number): number {
    return this.times.lengthsUs?.(module, frame, true) ?? 0;
  }

  /** What the part is expected to take in its own module beyond the least, which is all that the module's queue knows. */
  private beyondLeastUs(module: number, frame: number): number {
    if (this.hasBatches(module)) return 0;
    const lengthsUs = this.times.lengthsUs?.(module, frame, this.spec.estimates === "foreseen") ?? 0;
    return Math.max(0, this.forecast!.ownUs(module, lengthsUs) - this.leastOwnUs[module]!);
  }

  private reservedAfterUs(module: number, frame: number, frames: PartFrames | null): number {
    if (frames === null || this.pipeline.scope[module]! < 0) return this.reserveAfterUs[module]!;
    return this.reserved.of(module, frame, frames).afterUs;
  }

  private reserve(): void {
    if (this.spec.rule !== "staggered") return;
    const { times, leastOwnUs, promisedUs } = this;
    this.reserveUs = leastOwnUs.map((leastUs, module) =>
      times.staggeredUs === undefined || times.isSingle?.(module) === true
        ? leastUs
        : times.staggeredUs(module, this.sloUs(module, promisedUs)),
    );
    if (times.groupOf !== undefined) this.lookBefore(times.groupOf);
    const shared = this.sharedAccelerators();
    if (shared !== null) {
      this.longestUs = Math.max(...shared.partUs);
      if (this.committed === null) this.committed = new CommittedWork(this.pipeline, this.before, shared);
      else this.committed.retime(shared);
    }
    this.reserved.forget();
    this.expected.forget();
    this.reserveAfterUs = this.reserved.along("subs");
    for (const [module, earlier] of this.earlier.entries())
      this.headStarts[module] = mostOf(earlier, (each) => this.reserveUs[each]! + this.reserveAfterUs[each]!);
  }

  /** Which modules before it each has on its accelerators, and what of them may be under way when a request comes from elsewhere. */
  private lookBefore(groupOf: (module: number) => number): void {
    const { pipeline, leastOwnUs, interludeUs } = this;
    this.earlier = this.before.map((all, module) => all.filter((each) => groupOf(each) === groupOf(module)));
    for (const [module, earlier] of this.earlier.entries()) {
      const isElsewhere = pipeline.pres[module]!.some((pre) => groupOf(pre) !== groupOf(module));
      interludeUs[module] = isElsewhere ? mostOf(earlier, (each) => leastOwnUs[each]!) : 0;
    }
  }

  /** Of the groups in which modules follow one another, the one with most to do; null: there is none. */
  private sharedAccelerators(): SharedAccelerators | null {
    const { leastOwnUs, parts, times } = this;
    const { groupOf } = times;
    if (groupOf === undefined) return null;
    const workIn = (group: number): Float64Array =>
      leastOwnUs.map((us, module) => (groupOf(module) === group ? us : 0));
    let [most, found] = [0, -1];
    for (const [module, earlier] of this.earlier.entries()) {
      if (earlier.length === 0) continue;
      const us = workIn(groupOf(module)).reduce((sum, each) => sum + each, 0);
      if (us > most) [most, found] = [us, module];
    }
    if (found < 0) return null;
    return { count: times.acceleratorsOf?.(found) ?? 1, partUs: workIn(groupOf(found)), parts };
  }

  /** How many parts fan-outs make of late, and what parts take. */
  private learn(states: Board, at: number): void {
    const row = states.blank();
    for (const [module, { fansOut }] of this.pipeline.modules.entries()) {
      if (states.read(module, at, row) !== "fresh") continue;
      if (fansOut !== true || row.value(MOST_PARTS) < 0) continue;
      const most = Math.max(1, Math.round(row.value(MOST_PARTS)));
      const median = Math.round(row.value(MEDIAN_PARTS));
      let sum = 0;
      for (let column = LEAST_PARTS; column <= MOST_PARTS; column++) sum += row.value(column);
      this.parts[module] = sum / PART_QUANTILES;
      const usual = this.committed === null ? most : Math.max(1, Math.round(this.parts[module]!));
      for (const work of [this.work, this.reserved, this.expected]) work.makes(module, usual, median);
    }
    this.goBy(this.ownUs);
    this.reserve();
  }

  /** Accelerator time of a part, as measured, µs; NaN: not yet, or not there. */
  private eachUs(module: number): number {
    return this.committed?.measuredUs[module] ?? Number.NaN;
  }

  private togetherUs(module: number, count: number, ownUs: number): number {
    const { togetherUs } = this.times;
    if (count === 1 || togetherUs === undefined) return ownUs;
    return Math.max(ownUs, togetherUs(module, count, 0, Number.NaN));
  }

  /** How long a request may be in the module when nothing before it took longer than it must: what its queue plans batches for. */
  sloUs(module: number, sloUs: number): number {
    const { rule } = this.spec;
    if (rule === "whole") return sloUs;
    const others = this.leastBeforeUs[module]! + this.leastAfterUs[module]!;
    if (rule === "rest") return sloUs - others;
    const own = this.leastOwnUs[module]!;
    return Math.floor((sloUs * own) / (own + others));
  }

  /** Least time of a request in the whole pipeline. */
  get leastUs(): number {
    return this.leastOwnUs.reduce((most, own, module) => Math.max(most, own + this.leastAfterUs[module]!), 0);
  }

  private goBy(ownUs: Float64Array): void {
    this.work.forget();
    this.ownUs = ownUs;
    this.afterUs = this.work.along("subs");
    this.beforeUs = this.work.along("pres");
  }

  private priorOf({ plannedUs }: ModuleTimes): Float64Array {
    const { rule } = this.spec;
    if (plannedUs === undefined || (rule !== "split" && rule !== "worst")) return this.leastOwnUs;
    return this.leastOwnUs.map((_, module) => plannedUs(module));
  }

  private along(direction: "subs" | "pres", us: Float64Array): Float64Array {
    return this.pipeline.longest(direction, (module) => us[module]!);
  }
}

const mostOf = (modules: readonly number[], us: (module: number) => number): number =>
  modules.reduce((most, module) => Math.max(most, us(module)), 0);

/** By module: all before it. */
function before({ modules, order, pres }: Pipeline): number[][] {
  const sets = modules.map(() => new Set<number>());
  for (const module of order)
    for (const pre of pres[module]!) for (const each of [...sets[pre]!, pre]) sets[module]!.add(each);
  return sets.map((set) => [...set]);
}

/** SLO_k: the module's part of the SLO, along the longest way through it. */
const partOf = (sloUs: number, { ownUs, beforeUs, afterUs }: Work): number =>
  Math.floor((sloUs * ownUs) / (ownUs + beforeUs + afterUs));

const shareOf = (leftUs: number, ownUs: number, afterUs: number): number =>
  afterUs === 0 ? leftUs : Math.floor((leftUs * ownUs) / (ownUs + afterUs));
