import { type ExpandedModel, type ExpandedScenario, groupsOf } from "../config/scenario/expand-scenario.js";
import type { ExpandedLlm } from "../config/scenario/llm/expand-llm.js";
import { budgetsOf, type ExpandedPipeline } from "../config/scenario/pipelines/expand-pipelines.js";
import { plannedBatch, staggeredUs } from "../core/latency/planned-batch.js";
import { DROP_QUEUE_FULL, DROPPED, FINISHED } from "../core/outcome.js";
import type { RequestHandle, RequestTable } from "../core/tables/request-table.js";
import type { OutcomeCollector } from "../measure/collector.js";
import { PipelineAccounts } from "../measure/pipeline-accounts.js";
import { RequestClasses } from "../system/ahead/request-classes.js";
import type { ModuleTimes } from "../system/budget/module-times.js";
import { togetherUs } from "../system/budget/part-work.js";
import type { Flow, FlowRequest, Part } from "../system/flow.js";
import { Pipeline } from "../system/pipeline.js";
import { type PipelineDriver, System } from "../system/system.js";
import { accountRows } from "./account-rows.js";
import type { EventLines, EventMember } from "./event-lines.js";
import { aloneUs } from "./llm/token-engine.js";
import type { TokenLengths } from "./llm/token-lengths.js";
import { PipelineDraws } from "./pipeline-draws.js";
import type { TrueTimes } from "./true-times.js";

/** Requests of one pipeline and parts of them at a time, far above what deadlines let live. */
const FRAMES_MAX = 4_000_000;

/** The pipelines of a run: what the data would decide is drawn by the seed, and every end is accounted. */
export class SimulatedPipelines {
  private readonly system: System;
  private readonly pipelines: readonly SimulatedPipeline[];
  /** By model: 1 where a module runs it. */
  private readonly isServed: Uint8Array;

  constructor(
    scenario: ExpandedScenario,
    system: System,
    collector: OutcomeCollector,
    lines: EventLines | null,
    truth: TrueTimes | null,
    lengths: readonly (TokenLengths | null)[],
    seed: number,
    onPart: (model: number) => void,
  ) {
    this.system = system;
    const rows = accountRows(scenario);
    const times = timesOf(scenario);
    const hasLengths = lengths.some((each) => each !== null);
    const groups = groupsOf(scenario);
    const llms = scenario.models.map(({ group = 0 }) => groups[group]!.llm);
    this.isServed = new Uint8Array(scenario.models.length);
    this.pipelines = scenario.pipelines!.map((pipeline, index) => {
      for (const { model } of pipeline.modules) this.isServed[model] = 1;
      const places = { row: rows.rowOfPipeline[index]!, firstModule: rows.rowOfModules[index]! };
      const line = new SimulatedPipeline(pipeline, places, collector, lines, truth, seed, onPart);
      line.flow = system.addPipeline(
        {
          pipeline: new Pipeline(pipeline.modules),
          models: pipeline.modules.map(({ model }) => model),
          budgets: budgetsOf(
            pipeline,
            times,
            hasLengths
              ? (model, frame, foresees) => lengthsUs(lengths[model]!, llms[model], line.drawnIn(frame), foresees)
              : undefined,
          ),
          framesMax: FRAMES_MAX,
        },
        line,
      );
      return line;
    });
  }

  /** Whether parts are among the requests of the model. */
  serves(model: number): boolean {
    return this.isServed[model] === 1;
  }

  enter(pipeline: number, tag: number, at: number): void {
    this.pipelines[pipeline]!.enter(tag, at);
  }

  settle(at: number): void {
    this.system.settle(at);
  }

  memberOf(tag: number): EventMember {
    return this.pipelines[System.pipelineOf(tag)]!.memberOf(System.partOf(tag));
  }

  /** What is drawn for a part is drawn by this. */
  drawnBy(tag: number): DrawnBy {
    const line = this.pipelines[System.pipelineOf(tag)]!;
    return line.drawnIn(line.flow.frameOf(System.partOf(tag)));
  }

  /** A part whose request ended in time went on to generate. @param us that are counted. */
  generatedOn(tag: number, us: number): void {
    this.pipelines[System.pipelineOf(tag)]!.generatedOn(System.partOf(tag), us);
  }

  /** Time of a part alone. */
  aloneUs(tag: number, model: number, app: number): number {
    return this.pipelines[System.pipelineOf(tag)]!.aloneUs(System.partOf(tag), model, app);
  }

  partEnded(
    requests: RequestTable,
    request: RequestHandle,
    outcome: number,
    reason: number,
    execStartAt: number,
    at: number,
  ): void {
    const tag = requests.tag[request]!;
    const line = this.pipelines[System.pipelineOf(tag)]!;
    line.partEnded(System.partOf(tag), outcome, reason, requests.arrivalAt[request]!, execStartAt, at);
    this.system.partEnded(tag, outcome, reason, requests.arrivalAt[request]!, execStartAt, at);
  }

  partRan(
    tag: number,
    shareUs: number,
    isLost: boolean,
    startAt: number,
    endAt: number,
    size: number,
    batch: number,
  ): void {
    if (!isLost) this.system.partRan(tag, size, endAt);
    this.pipelines[System.pipelineOf(tag)]!.partRan(System.partOf(tag), shareUs, isLost, startAt, size, batch);
  }
}

/** What is drawn for a part of a request is drawn by its number and by its place. */
export interface DrawnBy {
  readonly request: number;
  readonly path: number;
}

/** Time of a part alone by its lengths; 0: it has none, or its answer is not foreseen and it ends with that. */
function lengthsUs(
  lengths: TokenLengths | null,
  llm: ExpandedLlm | undefined,
  { request, path }: DrawnBy,
  foresees: boolean,
): number {
  if (lengths === null || llm === undefined || !(foresees || lengths.endsFirst)) return 0;
  return aloneUs(llm, lengths.promptOf(request, path), lengths.answerOf(request, path), lengths.endsFirst);
}

/** Times of requests of each model where it is served. */
function timesOf(scenario: ExpandedScenario): ModuleTimes {
  const groups = groupsOf(scenario).map(({ first, count, network: { controlUs, dataUsPerRequest } }) => ({
    delayUs: controlUs + dataUsPerRequest,
    count,
    fastest: Math.min(...scenario.accelerators.slice(first, first + count).map(({ scale }) => scale)),
  }));
  const execOf = ({ group = 0, execUs }: ExpandedModel, size: number): number =>
    Math.ceil(execUs[size]! * groups[group]!.fastest);
  const inBatchOf = (model: ExpandedModel, size: number): number =>
    groups[model.group ?? 0]!.delayUs + execOf(model, size);
  const leastUs = scenario.models.map((model) => inBatchOf(model, 1));
  const plannedUs = scenario.models.map((model) => {
    const { batchSizeMax, execUs, group = 0, sloUs } = model;
    return inBatchOf(model, plannedBatch(execUs, batchSizeMax, sloUs, groups[group]!.fastest));
  });
  const inTurnUs = scenario.models.map(({ batchSizeMax, execUs, group = 0, sloUs }) => {
    const { delayUs, count, fastest } = groups[group]!;
    return delayUs + staggeredUs(execUs, batchSizeMax, sloUs, count, fastest);
  });
  return {
    leastUs: (model) => leastUs[model]!,
    plannedUs: (model) => plannedUs[model]!,
    staggeredUs: (model) => inTurnUs[model]!,
    isSingle: (model) => scenario.models[model]!.batchSizeMax === 1,
    groupOf: (model) => scenario.models[model]!.group ?? 0,
    acceleratorsOf: (model) => groups[scenario.models[model]!.group ?? 0]!.count,
    togetherUs: (index, parts, beside, eachUs) => {
      const model = scenario.models[index]!;
      const { delayUs, count } = groups[model.group ?? 0]!;
      return delayUs + togetherUs(parts, count, model.batchSizeMax, (size) => execOf(model, size), beside, eachUs);
    },
  };
}

class SimulatedPipeline implements PipelineDriver {
  flow!: Flow;
  private readonly onPart: (model: number) => void;
  private readonly pipeline: ExpandedPipeline;
  private readonly collector: OutcomeCollector;
  private readonly accounts: PipelineAccounts;
  private readonly lines: EventLines | null;
  private readonly truth: TrueTimes | null;
  private readonly row: number;
  private readonly firstModule: number;
  private readonly draws: PipelineDraws;
  private readonly classes = new RequestClasses();

  constructor(
    pipeline: ExpandedPipeline,
    { row, firstModule }: { readonly row: number; readonly firstModule: number },
    collector: OutcomeCollector,
    lines: EventLines | null,
    truth: TrueTimes | null,
    seed: number,
    onPart: (model: number) => void,
  ) {
    this.onPart = onPart;
    this.pipeline = pipeline;
    this.collector = collector;
    this.lines = lines;
    this.truth = truth;
    this.row = row;
    this.firstModule = firstModule;
    this.accounts = new PipelineAccounts(collector, row, firstModule, pipeline.modules.length);
    this.draws = new PipelineDraws(pipeline, seed);
  }

  enter(tag: number, at: number): void {
    const { name, sloUs } = this.pipeline;
    this.lines?.arrived(name, tag, at, at + sloUs);
    const kind = this.classes.classOf(this.draws.appOf(tag), at);
    if (this.flow.enter(tag, at, at + sloUs, at, kind) >= 0) return;
    this.lines?.ended(name, { request: tag }, DROPPED, DROP_QUEUE_FULL, at);
    this.collector.end(this.row, DROPPED, DROP_QUEUE_FULL, at, -1, at);
  }

  partEnded(part: Part, outcome: number, reason: number, cameAt: number, execStartAt: number, at: number): void {
    this.lines?.ended(this.pipeline.name, this.memberOf(part), outcome, reason, at);
    const askedAt = this.flow.arrivalAt[this.flow.requestOf(part)]!;
    const row = this.firstModule + this.flow.moduleOf(part);
    this.collector.end(row, outcome as 0, reason, cameAt, execStartAt, at, askedAt);
  }

  partRan(part: Part, shareUs: number, isLost: boolean, startAt: number, size: number, batch: number): void {
    const { collector, flow } = this;
    const module = flow.moduleOf(part);
    this.accounts.ran(flow.requestOf(part), module, shareUs, isLost, startAt);
    collector.batchOf(this.row, size, startAt, batch);
    collector.batchOf(this.firstModule + module, size, startAt, batch);
  }

  /** A part whose request has ended, and may be gone. */
  generatedOn(part: Part, us: number): void {
    this.collector.share(this.row, us, false);
    this.collector.share(this.firstModule + this.flow.moduleOf(part), us, false);
  }

  drawnIn(frame: number): DrawnBy {
    const { flow } = this;
    const part = flow.partOf(frame, 0);
    return { request: flow.tag[flow.requestOf(part)]!, path: flow.pathOf(part) };
  }

  aloneUs(part: Part, model: number, app: number): number {
    const { flow } = this;
    return this.truth!.aloneUs(model, app, flow.tag[flow.requestOf(part)]!, flow.pathOf(part));
  }

  memberOf(part: Part): EventMember {
    const { flow, pipeline } = this;
    return { request: flow.tag[flow.requestOf(part)]!, module: pipeline.modules[flow.moduleOf(part)]!.name };
  }

  // PipelineDriver

  kindOf(part: Part): number {
    const { flow, pipeline } = this;
    const { model } = pipeline.modules[flow.moduleOf(part)]!;
    return this.truth?.appOf(model, flow.tag[flow.requestOf(part)]!, flow.pathOf(part)) ?? 0;
  }

  partComes(part: Part): void {
    this.onPart(this.pipeline.modules[this.flow.moduleOf(part)]!.model);
  }

  partRefused(part: Part, at: number): void {
    this.partEnded(part, DROPPED, DROP_QUEUE_FULL, at, -1, at);
  }

  partsOf(request: FlowRequest, module: number, path: number): number {
    return this.draws.partsOf(module, this.flow.tag[request]!, path);
  }

  branchOf(request: FlowRequest, module: number, path: number): number {
    return this.draws.wayOf(module, this.flow.tag[request]!, path);
  }

  requestEnded(request: FlowRequest, outcome: number, reason: number, _module: number, at: number): void {
    const { accounts, flow } = this;
    this.lines?.ended(this.pipeline.name, { request: flow.tag[request]! }, outcome, reason, at);
    accounts.closed(request, outcome === FINISHED);
    const arrivalAt = flow.arrivalAt[request]!;
    this.collector.end(this.row, outcome as 0, reason, arrivalAt, accounts.startOf(request), at);
    this.collector.worth(this.row, 1, outcome === FINISHED, arrivalAt);
  }

  requestEntered(request: FlowRequest): void {
    this.accounts.opened(request);
  }
}
