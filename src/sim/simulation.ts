import { writtenBudget } from "../config/pipeline-modules.js";
import { type ExpandedGroup, type ExpandedScenario, groupsOf } from "../config/scenario/expand-scenario.js";
import { longestOf } from "../config/scenario/llm/expand-llm.js";
import { variantOf } from "../core/latency/elastic.js";
import { DROP_QUEUE_FULL, DROPPED, FINISHED } from "../core/outcome.js";
import type { Policy } from "../core/policy.js";
import type { Scheduler } from "../core/scheduler.js";
import { PROFILER_DEFAULTS } from "../core/shadow/profiler.js";
import type { AcceleratorId } from "../core/tables/accelerator-table.js";
import type { BatchId } from "../core/tables/batch-table.js";
import type { RequestHandle } from "../core/tables/request-table.js";
import { type CollectorSnapshot, OutcomeCollector } from "../measure/collector.js";
import type { Report } from "../measure/report.js";
import { type Route, System } from "../system/system.js";
import { accountRows, variantRows, weighs } from "./account-rows.js";
import { createArrivals } from "./arrivals.js";
import { Attendance } from "./attendance.js";
import { BatchAccounts } from "./batch-accounts.js";
import { Draws } from "./draws.js";
import { ToldAccuracy } from "./elastic/told-accuracy.js";
import { TrueAnswers } from "./elastic/true-answers.js";
import { EventLines, type EventListener, type EventMember } from "./event-lines.js";
import type { Fleet } from "./fleet.js";
import { TokenLengths } from "./llm/token-lengths.js";
import { queueSpecs } from "./queue-specs.js";
import { stream } from "./random.js";
import { SimulatedGroup, type SimulatedGroupOptions } from "./simulated-group.js";
import { type DrawnBy, SimulatedPipelines } from "./simulated-pipelines.js";
import { profilerReport, SimulatedProfiler } from "./simulated-profiler.js";
import { TokenGroup, type TokenSink } from "./token-group.js";
import { TrueTimes } from "./true-times.js";

/**
 * The simulated driver: events in order of time, emulated accelerators, the schedulers' commands carried out.
 *
 * Simultaneous events are taken as: finished, fault, autoscaling, arrival, timer; then by accelerator or model number.
 * What a request's end leads to in a pipeline belongs to the event that ended it. After the last arrival the run drains.
 */
export class Simulation implements TokenSink {
  /** Of the first group: the only one, mostly. */
  readonly scheduler: Scheduler;
  readonly groups: readonly SimulatedGroup[];
  protected readonly collector: OutcomeCollector;
  private readonly scenario: ExpandedScenario;
  private readonly policyName: string;
  private readonly seed: number;
  private readonly fleet: Fleet | null;
  private readonly attendance: Attendance;
  private readonly pipelines: SimulatedPipelines | null;
  private readonly accounts: BatchAccounts;
  private readonly lines: EventLines | null;
  /** By model: to its first queue, or its only one. */
  private readonly routes: readonly Route[];
  /** By model: 1 where each of its apps has a queue of its own, one after the other. */
  private readonly hasSessions: Uint8Array;
  /** Row of a model in the collector. */
  private readonly rows: Int32Array;
  /** Row of a model's first app; -1: it has none. */
  private readonly kindRows: Int32Array;
  /** Null: all batches take what their profiles say. */
  private readonly truth: TrueTimes | null;
  /** Null: no model is elastic. */
  private readonly answers: TrueAnswers | null;
  /** Null: the same. */
  private readonly told: ToldAccuracy | null;
  /** Rows of the variants of elastic models, by model. */
  private readonly variantRows: readonly Int32Array[];
  /** BatchTable.variant of the batch whose members end. */
  private endedVariant = 0;
  /** By model; null: it generates no text. */
  private readonly lengths: readonly (TokenLengths | null)[];
  private tags = 0;

  /**
   * @param policies one for each group. @param onEvent told of all that happens.
   * @param tellsTruth policies that ask for the recent accuracy are told the true one.
   */
  constructor(
    scenario: ExpandedScenario,
    policies: Policy | readonly Policy[],
    seed: number,
    onEvent?: EventListener,
    tellsTruth = false,
  ) {
    const ofGroups = Array.isArray(policies) ? (policies as readonly Policy[]) : [policies as Policy];
    this.scenario = scenario;
    this.policyName = [...new Set(ofGroups.map((policy) => policy.name))].join(", ");
    this.seed = seed;
    this.lines = onEvent === undefined ? null : new EventLines(scenario, onEvent);
    const learn = scenario.learn === true ? "sizes" : false;
    this.groups = groupsOf(scenario).map((group, index) =>
      this.createGroup(group, { ...group, policy: ofGroups[index]!, learn }, index),
    );
    this.lengths = scenario.models.map(({ name, tokens }) =>
      tokens === undefined ? null : new TokenLengths(tokens, new Draws(seed, `tokens/${name}`)),
    );
    this.scheduler = this.groups[0]!.scheduler;
    const { models, modules, kinds, rowOfModel, rowOfKinds } = accountRows(scenario);
    this.rows = rowOfModel;
    this.kindRows = rowOfKinds;
    this.truth = TrueTimes.of(scenario, seed);
    this.answers = TrueAnswers.of(scenario, seed);
    this.told = this.answers === null ? null : new ToldAccuracy(this.answers, tellsTruth);
    const variants = variantRows(scenario);
    this.variantRows = variants?.of ?? [];
    this.collector = new OutcomeCollector({
      models,
      modules,
      kinds,
      weighs: weighs(scenario),
      ...(variants === undefined ? {} : { variants: variants.names }),
      warmupUs: scenario.warmupUs,
      endUs: scenario.durationUs,
      accelerators: scenario.accelerators.length,
    });
    this.hasSessions = Uint8Array.from(scenario.models, ({ planning }) => (planning?.sessions ? 1 : 0));
    // Queue keys count up in a group: added in order.
    this.routes = scenario.models.map((model, index): Route => {
      const group = model.group ?? 0;
      const { scheduler, models } = this.groups[group]!;
      const key = models.length;
      for (const spec of queueSpecs(model, this.truth?.profiledOf(index))) {
        models.push(index);
        const added = scheduler.addQueue(spec);
        if (model.elastic !== undefined) this.told!.add(this.groups[group]!, added, index, model.elastic);
      }
      return { group, key };
    });
    this.profile();
    this.pipelines =
      scenario.pipelines === undefined
        ? null
        : new SimulatedPipelines(
            scenario,
            new System(
              this.groups.map(({ scheduler }) => scheduler),
              this.routes,
            ),
            this.collector,
            this.lines,
            this.truth,
            this.lengths,
            seed,
            (model) => this.attendance.cameTo(model),
          );
    this.accounts = new BatchAccounts(this.collector, this.rows, rowOfKinds, this.pipelines, (model, variant) =>
      this.variantRow(model, variant),
    );
    this.attendance = new Attendance(scenario, this.groups);
    this.fleet = this.attendance.fleet;
  }

  private createGroup({ llm }: ExpandedGroup, options: SimulatedGroupOptions, index: number): SimulatedGroup {
    if (llm === undefined) return new SimulatedGroup(options, this);
    const longest = this.scenario.models.map(({ group = 0, tokens }) =>
      group === index && tokens !== undefined ? longestOf(tokens) : 0,
    );
    return new TokenGroup({ ...options, llm, requestTokensMax: Math.max(...longest) }, this);
  }

  run(): void {
    const { groups, scenario, pipelines } = this;
    const { faults, models } = scenario;
    const sloUs = Float64Array.from(models, (model) => model.sloUs);
    const arrivals = createArrivals(scenario, this.seed);
    let nextFault = 0;
    let now = 0;
    for (;;) {
      let ending = groups[0]!;
      let waking = ending;
      let endAt = ending.nextEndAt;
      let wakeAt = ending.scheduler.nextWakeAt;
      for (let index = 1; index < groups.length; index++) {
        const group = groups[index]!;
        if (group.nextEndAt < endAt) {
          ending = group;
          endAt = group.nextEndAt;
        }
        if (group.scheduler.nextWakeAt < wakeAt) {
          waking = group;
          wakeAt = group.scheduler.nextWakeAt;
        }
      }
      // What is due already is due now: simultaneous ends and arrivals come first.
      wakeAt = Math.max(now, wakeAt);
      const faultAt = nextFault < faults.length ? faults[nextFault]!.at : Number.POSITIVE_INFINITY;
      const arrivalAt = arrivals.at;
      const fleetAt = this.attendance.nextAt;
      if (endAt <= arrivalAt && endAt <= wakeAt && endAt <= faultAt && endAt <= fleetAt) {
        if (endAt < Number.POSITIVE_INFINITY) {
          now = Math.max(now, endAt);
          ending.endNext(now);
        } else if (!this.failWaiting(now)) return;
      } else if (faultAt <= arrivalAt && faultAt <= wakeAt && faultAt <= fleetAt) {
        now = Math.max(now, faultAt);
        this.attendance.fault(faults[nextFault++]!, now);
      } else if (fleetAt <= arrivalAt && fleetAt <= wakeAt) {
        now = Math.max(now, fleetAt);
        this.attendance.step(now);
      } else if (arrivalAt <= wakeAt) {
        now = Math.max(now, arrivalAt);
        const { model } = arrivals;
        if (model < models.length) this.arrive(model, arrivals.app, sloUs[model]!, now);
        else pipelines!.enter(model - models.length, this.tags++, now);
        arrivals.advance();
      } else {
        now = Math.max(now, wakeAt);
        waking.scheduler.wake(now);
      }
      pipelines?.settle(now);
      this.told?.tell(now);
    }
  }

  report(seed: number): Report {
    const report = this.collector.report({ policy: this.policyName, seed });
    const profilers = this.groups.flatMap(({ profiler }) => profiler ?? []);
    const { pipelines } = this.scenario;
    return {
      ...report,
      ...(pipelines === undefined
        ? {}
        : { budgets: Object.fromEntries(pipelines.map(({ name, budget }) => [name, writtenBudget(budget)])) }),
      ...(this.fleet === null ? {} : { autoscale: this.fleet.report() }),
      ...(profilers.length === 0 ? {} : { profiler: profilerReport(profilers, this.scenario.durationUs) }),
    };
  }

  /** Queues whose model learns from runs alone are shadowed, after all others. */
  private profile(): void {
    const { scenario, groups, routes, hasSessions, truth } = this;
    const options = scenario.profiler === undefined && scenario.learn ? PROFILER_DEFAULTS : (scenario.profiler ?? null);
    if (options === null) return;
    for (const group of groups) {
      const { scheduler, models } = group;
      const nameOf = (key: number, kind: number): string => {
        const { name, apps } = scenario.models[models[key]!]!;
        return apps === undefined ? name : `${name}/${apps[kind]!.name}`;
      };
      const profiler = new SimulatedProfiler(scheduler, options, stream(this.seed, `profiler/${group.name}`), nameOf);
      scenario.models.forEach((model, index) => {
        const route = routes[index]!;
        if (groups[route.group] !== group) return;
        for (const app of queueSpecs(model, truth?.profiledOf(index)).keys()) {
          const key = route.key + hasSessions[index]! * app;
          const mayWant = model.apps !== undefined && scheduler.mayLearnKinds(key);
          if (!mayWant && scheduler.wantedAloneUs(key, 0, options.observations) === 0) continue;
          models.push(index);
          profiler.add(key);
          group.profiler = profiler;
        }
      });
    }
  }

  snapshot(): CollectorSnapshot {
    return this.collector.snapshot();
  }

  badRates(): { badRates: number[]; arrived: number[] } {
    const rows = accountRows(this.scenario).models.map((_, row) => row);
    return {
      badRates: rows.map((row) => this.collector.badRate(row)),
      arrived: rows.map((row) => this.collector.arrived(row)),
    };
  }

  private arrive(model: number, app: number, sloUs: number, at: number): void {
    const tag = this.tags++;
    this.fleet?.countArrival(model);
    this.attendance.cameTo(model);
    const { group, key } = this.routes[model]!;
    const task = this.answers?.traitsOf(model, tag, app);
    const traits = task ?? this.truth?.traitsOf(model, tag, app);
    const deadline = at + (task === undefined ? sloUs : this.answers!.sloUs(model, task.kind));
    this.lines?.arrived(this.scenario.models[model]!.name, tag, at, deadline);
    const queue = key + this.hasSessions[model]! * (traits?.kind ?? 0);
    if (this.groups[group]!.scheduler.arrive(queue, tag, at, deadline, at, traits)) return;
    if (traits !== undefined)
      this.kindEnded(model, traits.kind, traits.weight, DROPPED, DROP_QUEUE_FULL, at, -1, at, tag);
    this.lines?.ended(this.scenario.models[model]!.name, { request: tag }, DROPPED, DROP_QUEUE_FULL, at);
    this.collector.end(this.rows[model]!, DROPPED, DROP_QUEUE_FULL, at, -1, at);
    this.fleet?.countEnd(model, DROPPED, DROP_QUEUE_FULL);
  }

  // GroupSink. The group comes last: who looks on at runs of one group need not name it.

  dispatch(batch: BatchId, accelerator: AcceleratorId, at: number, group = this.groups[0]!): void {
    const { batches } = group.scheduler;
    const model = group.models[batches.queue[batch]!]!;
    const size = batches.executedSize[batch]!;
    const us = this.truth?.has(model)
      ? this.trueUs(batch, model, group)
      : this.answers?.has(model)
        ? this.answers.batchUs(model, size, batches.variant[batch]!, group.first + accelerator)
        : this.scenario.models[model]!.execUs[size]!;
    group.accelerators.run(accelerator, batch, batches.execAt[batch]!, us, at);
  }

  /** By what its members are; planners do not know. */
  private trueUs(batch: BatchId, model: number, { scheduler: { batches, requests } }: SimulatedGroup): number {
    const truth = this.truth!;
    let longestUs = 0;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!) {
      const tag = requests.tag[member]!;
      const kind = requests.kind[member]!;
      const us = System.isPart(tag) ? this.pipelines!.aloneUs(tag, model, kind) : truth.aloneUs(model, kind, tag, 0);
      longestUs = Math.max(longestUs, us * truth.factorAt(model, kind, requests.arrivalAt[member]!));
    }
    return truth.batchUs(model, batches.executedSize[batch]!, longestUs);
  }

  private kindEnded(
    model: number,
    kind: number,
    weight: number,
    outcome: number,
    reason: number,
    arrivalAt: number,
    execStartAt: number,
    at: number,
    tag: number,
  ): void {
    const { collector } = this;
    const row = this.kindRows[model]! + kind;
    collector.end(row, outcome as 0, reason, arrivalAt, execStartAt, at);
    let isEarned = outcome === FINISHED;
    if (this.answers?.has(model) && execStartAt >= 0) {
      const variant = this.variantRow(model, this.endedVariant);
      isEarned &&= this.answers.isRight(model, kind, tag, this.endedVariant, arrivalAt);
      for (const each of [row, this.rows[model]!]) collector.answered(each, variant, isEarned, arrivalAt);
    }
    collector.worth(row, weight, isEarned, arrivalAt);
    collector.worth(this.rows[model]!, weight, isEarned, arrivalAt);
  }

  /** -1: the model is not elastic. */
  private variantRow(model: number, variant: number): number {
    const { elastic } = this.scenario.models[model]!;
    return elastic === undefined ? -1 : this.variantRows[model]![variantOf(elastic, variant)]!;
  }

  end(
    request: RequestHandle,
    outcome: number,
    reason: number,
    execStartAt: number,
    at: number,
    group = this.groups[0]!,
  ): void {
    const { requests } = group.scheduler;
    if (this.pipelines !== null && System.isPart(requests.tag[request]!)) {
      this.pipelines.partEnded(requests, request, outcome, reason, execStartAt, at);
      return;
    }
    const model = group.models[requests.queue[request]!]!;
    this.lines?.ended(this.scenario.models[model]!.name, { request: requests.tag[request]! }, outcome, reason, at);
    const arrivalAt = requests.arrivalAt[request]!;
    this.collector.end(this.rows[model]!, outcome as 0, reason, arrivalAt, execStartAt, at);
    if (this.kindRows[model]! >= 0) {
      const weight = requests.weight[request]!;
      const tag = requests.tag[request]!;
      this.kindEnded(model, requests.kind[request]!, weight, outcome, reason, arrivalAt, execStartAt, at, tag);
    } else if (this.truth !== null || this.answers !== null)
      this.collector.worth(this.rows[model]!, 1, outcome === FINISHED, arrivalAt);
    this.fleet?.countEnd(model, outcome, reason);
  }

  batchEnded(batch: BatchId, startAt: number, endAt: number, group = this.groups[0]!): void {
    this.endedVariant = group.scheduler.batches.variant[batch]!;
    this.lines?.ran(batch, startAt, endAt, false, group, this.memberOf);
    this.accounts.ended(batch, startAt, endAt, group);
    this.told?.batchEnded(batch, endAt, group);
    const quantile = group.scheduler.quantileOf(batch, endAt - startAt);
    if (!Number.isNaN(quantile)) this.accounts.predicted(batch, quantile, startAt, endAt, group);
  }

  joinedBatch(request: RequestHandle, at: number, { scheduler: { requests } }: SimulatedGroup): void {
    this.lines?.joined(this.memberOf(requests.tag[request]!), at);
  }

  batchLost(batch: BatchId, startAt: number, at: number, group: SimulatedGroup): void {
    this.lines?.ran(batch, startAt, at, true, group, this.memberOf);
    this.accounts.lost(batch, startAt, at, group);
  }

  // TokenSink

  promptOf(tag: number, model: number): number {
    const { request, path } = this.drawnBy(tag);
    return this.lengths[model]!.promptOf(request, path);
  }
  answerOf(tag: number, model: number): number {
    const { request, path } = this.drawnBy(tag);
    return this.lengths[model]!.answerOf(request, path);
  }
  endsFirst(model: number): boolean {
    return this.lengths[model]!.endsFirst;
  }
  iterated(accelerator: number, startAt: number, endAt: number): number {
    return this.collector.occupied(accelerator, startAt, endAt);
  }
  generatedOn(tag: number, model: number, us: number): void {
    if (System.isPart(tag)) this.pipelines!.generatedOn(tag, us);
    else this.collector.share(this.rows[model]!, us, false);
  }

  private drawnBy(tag: number): DrawnBy {
    return System.isPart(tag) ? this.pipelines!.drawnBy(tag) : { request: tag, path: 0 };
  }

  private readonly memberOf = (tag: number): EventMember =>
    System.isPart(tag) ? this.pipelines!.memberOf(tag) : { request: tag };

  /**
   * Nothing will happen any more: what waits under a policy that drops nobody has no accelerator left.
   * @returns whether anything waited: what follows from its end may happen yet.
   */
  private failWaiting(at: number): boolean {
    let hasWaited = false;
    for (const { scheduler, models } of this.groups) {
      const { requests } = scheduler;
      const { live } = requests;
      if (live === 0) continue;
      const handles = Array.from(requests.state.keys());
      for (let key = 0; key < models.length; key++) scheduler.failQueued(key, handles, at);
      if (requests.live < live) hasWaited = true;
    }
    return hasWaited;
  }
}
