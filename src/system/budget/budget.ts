/** What the queue of a module must reach: the part of a pipeline's one deadline that is its own. */
import type { Board } from "../board.js";
import type { Flow, FlowRequest, Part } from "../flow.js";
import { columnOf } from "../module-states.js";
import type { Pipeline } from "../pipeline.js";
import { BUDGET_DEFAULTS, type BudgetRule, type BudgetSpec } from "./budget-spec.js";
import type { CommittedWork } from "./committed-work.js";
import { Forecast, type RequestFrames } from "./forecast.js";
import { type ModuleTimes, timeOfAllUs } from "./module-times.js";
import { Overload } from "./overload.js";
import type { PartDue } from "./part-due.js";
import { type PartFrames, PartWork, type Work } from "./part-work.js";
import { Staggered } from "./staggered.js";

const SEED = 1;
const QUEUE_US = columnOf("queue_us");
const RUN_US = columnOf("run_us");
const EXEC_US = columnOf("exec_us");
const WORST_US = columnOf("worst_us");
/** Which column of what modules publish the rule goes by. */
const MEASURED_BY: Partial<Record<BudgetRule, (value: (column: number) => number) => number>> = {
  measured: (value) => value(QUEUE_US) + value(RUN_US),
  durations: (value) => value(EXEC_US),
  worst: (value) => value(WORST_US),
};

/** Of a request's time, for what follows a soft module that does not answer: timers and answers are late by so much. */
const SPARE_US = 1000;
const SPARE_SHARE = 0.05;

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
  /** Null, all three: another rule. */
  private readonly staggered: Staggered | null;
  private readonly forecast: Forecast | null;
  private readonly overload: Overload | null;

  /** @param promisedUs what the pipeline promises, from which planned batches follow. */
  constructor(pipeline: Pipeline, spec: BudgetRule | BudgetSpec, times: ModuleTimes, promisedUs = 0) {
    this.pipeline = pipeline;
    this.times = times;
    this.work = new PartWork(pipeline, (module, count) => timeOfAllUs(this.times, module, count, this.ownUs[module]!));
    this.spec = typeof spec === "string" ? { ...BUDGET_DEFAULTS, rule: spec } : spec;
    const { rule, alpha, thresholdUs } = this.spec;
    this.leastOwnUs = Float64Array.from(pipeline.modules, (_, module) => times.leastUs(module));
    this.leastAfterUs = this.along("subs", this.leastOwnUs);
    this.leastBeforeUs = this.along("pres", this.leastOwnUs);
    this.priorOwnUs = this.priorOf(times);
    this.ownUs = this.priorOwnUs;
    this.afterUs = this.work.along("subs");
    this.beforeUs = this.work.along("pres");
    this.staggered =
      rule === "staggered"
        ? new Staggered(pipeline, times, this.leastOwnUs, (module) => this.sloUs(module, promisedUs))
        : null;
    this.forecast = rule === "forecast" ? new Forecast(pipeline, this.leastOwnUs, { ...this.spec, seed: SEED }) : null;
    this.overload = rule === "overload" ? new Overload(pipeline, alpha, thresholdUs) : null;
  }

  /** A module is known to take another time by itself, while it is served. */
  retimed(times: ModuleTimes): void {
    this.times = times;
    this.work.forget();
    for (const module of this.leastOwnUs.keys()) this.leastOwnUs[module] = times.leastUs(module);
    this.leastAfterUs = this.along("subs", this.leastOwnUs);
    this.leastBeforeUs = this.along("pres", this.leastOwnUs);
    this.priorOwnUs = this.priorOf(times);
    this.staggered?.retime(times);
    // What is measured is told again when modules publish.
    if (MEASURED_BY[this.spec.rule] === undefined) this.goBy(this.priorOwnUs);
  }

  /** The modules published. @param states of them, a row each; see ModuleStates. */
  published(states: Board, at: number): void {
    this.forecast?.published(states, at);
    this.overload?.published(states, at);
    if (this.staggered !== null) {
      this.staggered.learn(states, at, this.work);
      this.goBy(this.ownUs);
    }
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
          Math.floor(deadline - this.staggered!.afterUs(module, frame, frames)),
        );
    }
  }

  /** The same of a part whose request is let in, had it another deadline. */
  dueWith(part: Part, flow: Flow, at: number, deadline: number): number {
    const [module, frame] = [flow.moduleOf(part), flow.frameOf(part)];
    const dueBy = this.dueBy(module, at, deadline, flow.arrivalAt[flow.requestOf(part)]!, frame, flow);
    return this.staggered?.dueWith(dueBy, module, frame, flow, deadline, at) ?? dueBy;
  }

  /**
   * Of a part that comes to its module. Whoever asks tells what becomes of it: `ran`, `left`, and `ended` of its request.
   * @param due is told by when it must be done, until when its answer is of use, and how much earlier than by its latest start it ranks. `dueBy` as of the function of that
   * name; `at`, which nobody reaches: its request is not let in.
   */
  tell(due: PartDue, part: Part, flow: Flow, at: number): void {
    const [module, frame, request] = [flow.moduleOf(part), flow.frameOf(part), flow.requestOf(part)];
    due.dueBy = this.dueBy(module, at, flow.deadline[request]!, flow.arrivalAt[request]!, frame, flow);
    due.headStartUs = this.headStartUs(module);
    this.staggered?.tell(due, part, flow, at);
    due.deadline = this.deadlineOf(module, request, flow);
    due.dueBy = Math.min(due.dueBy, due.deadline);
  }

  /** Whether a request goes on that makes so many parts in the module. */
  goesOn(request: FlowRequest, module: number, parts: number, at: number): boolean {
    return this.committed === null || this.committed.goesOn(request, module, parts, at);
  }

  /** What a request would have needed that did not go on, from then; 0: it was not for this. */
  partsUs(request: FlowRequest, module: number, parts: number): number {
    return this.committed?.takesUs(request, module, parts) ?? 0;
  }

  /** Least time of a request in all modules after this one, along the longest way. */
  leastAfter(module: number): number {
    return this.leastAfterUs[module]!;
  }

  /** How much time a request with this deadline would need to be let in at the module at `at`; 0: all are. */
  entryUs(module: number, deadline: number, at: number): number {
    return this.committed?.neededUs(this.ownUs[module]! + this.afterUs[module]!, deadline, at) ?? 0;
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
    return this.staggered?.headStartUs(module) ?? 0;
  }

  /**
   * Until when an answer of the part is of use: its request's deadline. Of a soft module, what follows goes on without it while there is time: until that must
   * begin, and a little more, as it must be answered, too.
   */
  private deadlineOf(module: number, request: FlowRequest, flow: Flow): number {
    const deadline = flow.deadline[request]!;
    if (!this.pipeline.isSoft(module)) return deadline;
    const spareUs = Math.max(SPARE_US, SPARE_SHARE * (deadline - flow.arrivalAt[request]!));
    return Math.floor(deadline - this.leastAfterUs[module]! - spareUs);
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

  private get committed(): CommittedWork | null {
    return this.staggered?.committed ?? null;
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

  /** Least time of a request in the whole pipeline, without what it can do without. */
  get leastUs(): number {
    return this.leastOwnUs.reduce(
      (most, own, module) => Math.max(most, (this.pipeline.isSoft(module) ? 0 : own) + this.leastAfterUs[module]!),
      0,
    );
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
    return this.pipeline.longestNeeded(direction, (module) => us[module]!);
  }
}

/** SLO_k: the module's part of the SLO, along the longest way through it. */
const partOf = (sloUs: number, { ownUs, beforeUs, afterUs }: Work): number =>
  Math.floor((sloUs * ownUs) / (ownUs + beforeUs + afterUs));

const shareOf = (leftUs: number, ownUs: number, afterUs: number): number =>
  afterUs === 0 ? leftUs : Math.floor((leftUs * ownUs) / (ownUs + afterUs));
