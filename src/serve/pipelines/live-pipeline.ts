import { PARTS_MAX } from "../../config/server/pipelines/pipeline-file.js";
import type { NamedEnds, PipelineSpec } from "../../config/server/pipelines/served-pipeline.js";
import {
  DROP_BYTES_FULL,
  DROP_CANCELLED,
  DROP_QUEUE_FULL,
  DROP_REASONS,
  DROPPED,
  FAILED,
  FINISHED,
  LATE,
  OUTCOMES,
} from "../../core/outcome.js";
import { RequestClasses } from "../../system/ahead/request-classes.js";
import { Budgets } from "../../system/budget/budget.js";
import { type ModuleTimes, timeOfAllUs } from "../../system/budget/module-times.js";
import { Flow, type FlowDriver, type FlowRequest, type Part, REFUSED } from "../../system/flow.js";
import { ModuleStates } from "../../system/module-states.js";
import { Pipeline } from "../../system/pipeline.js";
import { ServingError } from "../../wire/serving-error.js";
import type { Tensor } from "../../wire/tensors/tensor.js";
import { dropEnding } from "../endings.js";
import type { InferCall, InferHandler, InferReply, ModelStatistics } from "../gateway.js";
import { checkApp } from "../models/apps.js";
import { belowProfile } from "../models/host-limits.js";
import { ModelCounts } from "../models/model-counts.js";
import type { Log } from "../observation/log.js";
import type { PipelineCells } from "../observation/pipeline-metrics.js";
import { deadlineOf } from "../requests/deadline.js";
import { validateInputs, validateOutputs } from "../requests/values/validate-inputs.js";
import { partCount, partsFault, wayOf } from "./data-ways.js";
import { HeldBytes } from "./held-bytes.js";
import { defaultsOf, ModuleRuns, type RunHost } from "./module-runs.js";
import { OpenRequest } from "./open-request.js";
import { codesOf, drainingError, fullError, lateError, moduleError, moduleFault } from "./part-errors.js";
import { type PartBudget, partError, partsError } from "./part-needs.js";
import { isList } from "./part-tensors.js";
import { StepHealth } from "./steps/step-health.js";
import { StepLosses } from "./steps/step-losses.js";
import type { NamedValue } from "./steps/step-pool.js";

export interface PipelineHost extends RunHost {
  /** From now on no module is begun any more. */
  readonly isDraining: boolean;
  readonly onBroken: (error: unknown) => void;
  readonly log: Log;
}

/**
 * A pipeline that is served: `system/flow` says what is to be done, as in the simulator; its parts are requests to the
 * models like any other, with the deadline of the whole, and tensors go from one to the next by reference.
 *
 * Most ends are heard within the scheduler's turn: what follows from them waits until that is over (a microtask), and is in
 * the next turn of the same tick. What a batch hands on is in the turn that hears of its end.
 */
export class LivePipeline implements FlowDriver {
  readonly spec: PipelineSpec;
  readonly states: ModuleStates;
  private readonly host: PipelineHost;
  private readonly cells: PipelineCells;
  private readonly flow: Flow;
  private readonly budgets: Budgets;
  private readonly runs: ModuleRuns;
  private readonly health: StepHealth;
  private readonly bytes: HeldBytes;
  private readonly counts = new ModelCounts();
  /** By request of the flow, while it is open. */
  private readonly open: (OpenRequest | undefined)[] = [];
  /** By part, while it is with its model: takes it back. */
  private readonly cancels: ((() => void) | undefined)[] = [];
  private entering: OpenRequest | null = null;
  /** Why the one that is entering ended as it came. */
  private refusal: ServingError | null = null;
  /** By module: what its takers get where it is missing. */
  private readonly defaults: readonly (readonly NamedValue[])[];
  private readonly classes = new RequestClasses();
  /** Of the modules' states, that budgets know. */
  private intervals = 0;
  /** Of the steps' times, that budgets know. */
  private runVersion = 0;
  private isTurnComing = false;

  /**
   * @param times of modules that run a model.
   * @throws ServingError a default that is no tensor.
   */
  constructor(spec: PipelineSpec, times: ModuleTimes, cells: PipelineCells, host: PipelineHost) {
    const pipeline = new Pipeline(spec.modules);
    this.spec = spec;
    this.host = host;
    this.cells = cells;
    const hasParts = spec.modules.some(({ fanOut }) => fanOut.length > 0);
    this.flow = new Flow(pipeline, this, spec.requestsMax + (hasParts ? PARTS_MAX : 0));
    this.states = new ModuleStates(spec.modules.length, {
      window: spec.budget.windowS,
      ways: pipeline.ways,
      hasBatches: (module) => this.budgets.hasBatches(module),
    });
    this.bytes = new HeldBytes(spec.bytesMax);
    const losses = new StepLosses(spec.client.name, (cause) => cells.stepThreadEnded(cause), host.clock, host.log);
    this.health = new StepHealth(spec.client.name, host.clock, host.log);
    this.runs = new ModuleRuns(spec, times, losses, this.health, host);
    this.defaults = spec.modules.map(defaultsOf);
    this.budgets = new Budgets(pipeline, spec.budget, this.runs, spec.client.sloUs ?? 0);
  }

  /** Requests that have not ended, or of which a part has not. */
  get live(): number {
    return this.flow.live;
  }

  /** Its steps are loaded, before anything comes. @throws ServingError naming the one that cannot be. */
  async start(): Promise<void> {
    await this.runs.start();
  }

  /** No module is begun any more: steps that wait fail. */
  drain(): void {
    this.runs.drain();
  }

  /** When nothing is live any more, or the server ends. */
  async close(): Promise<void> {
    await this.runs.close();
  }

  get heldBytes(): number {
    return this.bytes.bytes;
  }

  /** Why not every request can be answered: a model is not there, or its steps are not; "": all can. */
  get fault(): string {
    return this.health.fault || this.runs.missing;
  }
  /** That not even a lone request can be in time; "": it can. */
  get warning(): string {
    const { client } = this.spec;
    const { leastUs } = this.budgets;
    if (leastUs <= client.sloUs!) return "";
    return belowProfile(client.sloUs!, leastUs, "one request in all modules");
  }

  statistics(): ModelStatistics {
    return this.counts.statistics(this.spec.client.name, this.spec.client.version);
  }

  // In

  /** @returns cancels it. @throws ServingError what is refused at once. */
  infer(call: InferCall, handler: InferHandler): () => void {
    const { client } = this.spec;
    validateInputs(client, call.inputs);
    validateOutputs(client, call.outputs);
    const app = call.parameters.app === undefined ? "" : checkApp(call.parameters.app);
    const deadline = deadlineOf(client, call);
    const { live, room } = this.flow;
    if (live >= this.spec.requestsMax || room === 0) {
      const { requestsMax } = this.spec;
      const limit = live >= requestsMax ? `${requestsMax} requests; was ${live + 1}` : `${PARTS_MAX} parts of all`;
      throw this.dropAtOnce(DROP_QUEUE_FULL, `must be at most ${limit}`, call, deadline);
    }
    const refusal = this.health.refusal();
    if (refusal !== null) throw this.failAtOnce(refusal, call, deadline);
    const hold = this.bytes.enter(call.byteLength);
    if (hold === null) {
      const limit = `must be at most ${client.queueBytesMax} bytes, those between modules included; was ${this.bytes.with(call.byteLength)}`;
      throw this.dropAtOnce(DROP_BYTES_FULL, limit, call, deadline);
    }
    const open = new OpenRequest(call, deadline, hold, this.spec.modules.length, this.flow, handler);
    this.entering = open;
    const now = this.host.clock.now();
    const request = this.flow.enter(0, call.receivedAt, deadline, now, this.classes.classOf(app, now));
    this.entering = null;
    const { refusal: ended } = this;
    this.refusal = null;
    if (ended !== null) throw ended;
    this.settleSoon();
    return () => {
      if (!open.isOpen) return;
      this.flow.abandon(request, DROPPED, DROP_CANCELLED, this.host.clock.now());
      this.settleSoon();
    };
  }

  /** It has arrived and ended, and is counted so. */
  private dropAtOnce(reason: number, limit: string, { receivedAt }: InferCall, deadline: number): ServingError {
    const { code, text } = dropEnding(reason);
    this.cells.ended(OUTCOMES[DROPPED], DROP_REASONS[reason]!, "");
    return new ServingError(code, `pipeline '${this.spec.client.name}': ${text}: ${limit}`, {
      reason: DROP_REASONS[reason]!,
      deadlineUs: deadline - receivedAt,
      retryAfterS: 1,
    });
  }

  /** As `dropAtOnce`. */
  private failAtOnce({ code, message, details }: ServingError, call: InferCall, deadline: number): ServingError {
    this.cells.ended(OUTCOMES[FAILED], details.reason!, "");
    this.counts.ended(false, 0, 0);
    return new ServingError(code, message, { ...details, deadlineUs: deadline - call.receivedAt });
  }

  private settleSoon(): void {
    if (this.isTurnComing) return;
    this.isTurnComing = true;
    queueMicrotask(this.settle);
  }

  /** Carries out what follows from what ended, if anything does. Not within the scheduler's turn. */
  readonly settle = (): void => {
    if (!this.isTurnComing) return;
    this.isTurnComing = false;
    try {
      const at = this.host.clock.now();
      const intervals = this.states.look(at);
      this.retime();
      if (intervals !== this.intervals) this.budgets.published(this.states.board, at);
      this.intervals = intervals;
      this.flow.settle(at);
    } catch (error) {
      this.host.onBroken(error);
    }
  };

  /** What steps were measured to take is what budgets go by. */
  private retime(): void {
    const { runs } = this;
    if (runs.version === this.runVersion) return;
    this.runVersion = runs.version;
    this.budgets.retimed(runs);
  }

  // FlowDriver

  requestEntered(request: FlowRequest): void {
    this.open[request] = this.entering!;
  }

  submit(part: Part, at: number): void {
    const { flow } = this;
    const module = flow.moduleOf(part);
    const frame = flow.frameOf(part);
    const open = this.open[flow.requestOf(part)]!;
    if (this.spec.modules[module]!.fanOut.length > 0) open.began(frame, module);
    this.cancels[part] = undefined;
    this.states.came(module, at);
    const due = { dueBy: 0, deadline: 0, headStartUs: 0 };
    this.budgets.tell(due, part, flow, at);
    const { dueBy } = due;
    try {
      if (this.host.isDraining) throw drainingError();
      this.cancels[part] = this.runs.enter(module, open, frame, at, due, {
        onDone: (outputs, startedAt, size) => this.partDone(part, open, outputs, startedAt, size, at),
        onError: (error) => this.partFailed(part, open, this.withNeeds(error, part, open, at, dueBy), at),
      });
    } catch (error) {
      this.partFailed(part, open, this.withNeeds(ServingError.from(error), part, open, at, dueBy), at);
    }
  }

  /** @param dueBy what the part was told to reach when it came. */
  private withNeeds(error: ServingError, part: Part, open: OpenRequest, cameAt: number, dueBy: number): ServingError {
    const { budgets, flow, runs } = this;
    const { deadline } = open;
    const askedAt = open.call.receivedAt;
    const { rule } = budgets.spec;
    const module = flow.moduleOf(part);
    const frame = flow.frameOf(part);
    // Its siblings came with it, and the request needs the last of them.
    const together = this.spec.modules[module]!.fanOut.length === 0 ? 1 : flow.togetherOf(frame);
    const allUs = timeOfAllUs(runs, module, together, runs.leastUs(module));
    const dueWith = (other: number): number => budgets.dueWith(part, flow, cameAt, other);
    const budget: PartBudget = {
      rule,
      askedAt,
      cameAt,
      dueBy,
      deadline,
      leastUs: runs.leastUs(module),
      allUs,
      leastAfterUs: budgets.leastAfter(module),
      // There chance decides who is let in, and nothing else.
      dueWith: rule === "overload" ? (other) => other : dueWith,
      entryUs: budgets.entryUs(module, deadline, cameAt),
    };
    return partError(error, budget, this.host.clock.now());
  }

  private partDone(
    part: Part,
    open: OpenRequest,
    outputs: readonly NamedValue[],
    startedAt: number,
    size: number,
    cameAt: number,
  ): void {
    const { flow, host } = this;
    const module = flow.moduleOf(part);
    if (open.isOpen) open.answered(flow.frameOf(part), module, outputs);
    this.budgets.ran(part, size);
    if (flow.isAwaited(part)) this.states.ran(module, size, host.clock.now());
    this.partEnded(part, open, FINISHED, 0, null, cameAt, startedAt);
  }

  private partFailed(part: Part, open: OpenRequest, error: ServingError, cameAt: number): void {
    const { outcome, reason } = codesOf(error);
    const module = this.flow.moduleOf(part);
    const defaults = this.defaults[module]!;
    if (defaults.length > 0 && open.isOpen) open.answered(this.flow.frameOf(part), module, defaults);
    this.partEnded(part, open, outcome, reason, error, cameAt, -1);
  }

  private partEnded(
    part: Part,
    open: OpenRequest,
    outcome: number,
    reason: number,
    cause: ServingError | null,
    cameAt: number,
    execStartAt: number,
  ): void {
    const { flow } = this;
    const at = this.host.clock.now();
    const module = flow.moduleOf(part);
    this.cancels[part] = undefined;
    if (flow.isAwaited(part)) this.states.ended(module, outcome, cameAt, execStartAt, at);
    this.cells.partEnded(module, OUTCOMES[outcome]!);
    this.budgets.left(part, flow, outcome === FINISHED ? at - execStartAt : 0, at);
    open.cause = cause;
    flow.ended(part, outcome, reason, at);
    open.cause = null;
    this.settleSoon();
  }

  /** Its end is no longer waited for: a model tells nobody of what was cancelled. */
  callOff(part: Part, at: number): void {
    this.cancels[part]?.();
    this.cancels[part] = undefined;
    this.cells.partEnded(this.flow.moduleOf(part), "cancelled");
    this.budgets.left(part, this.flow, 0, at);
    this.flow.ended(part, DROPPED, DROP_CANCELLED, at);
  }

  partsOf(request: FlowRequest, module: number, _path: number, frame: number): number {
    const open = this.open[request]!;
    const spec = this.spec.modules[module]!;
    const count = partCount(spec, open, frame);
    if (typeof count !== "number") return this.refuse(open, count);
    const { partsMax } = this.spec;
    open.parts += count;
    if (open.parts > partsMax)
      return this.refuse(
        open,
        moduleFault(
          `a request must make at most ${partsMax} parts (queue.parts_max); makes ${open.parts} here`,
          partsFault(spec),
        ),
      );
    if (count <= this.flow.room) {
      this.states.made(module, count);
      return count;
    }
    return this.refuse(open, fullError(`at most ${PARTS_MAX} parts of all requests`));
  }

  goesOn(request: FlowRequest, module: number, parts: number, at: number): boolean {
    if (this.budgets.goesOn(request, module, parts, at)) return true;
    const open = this.open[request]!;
    const takesUs = at + this.budgets.partsUs(request, module, parts) - open.call.receivedAt;
    open.cause = partsError(this.spec.budget.rule, parts, takesUs);
    return false;
  }

  branchOf(request: FlowRequest, module: number, _path: number, frame: number): number {
    const open = this.open[request]!;
    const way = wayOf(this.spec.modules[module]!, open, module, frame);
    if (typeof way !== "number") return this.refuse(open, way);
    this.states.took(module, this.flow.classOf(frame), way);
    return way;
  }

  /** How the request goes on cannot be said: it ends for this. */
  private refuse(open: OpenRequest, cause: ServingError): number {
    open.cause = cause;
    return REFUSED;
  }

  requestEnded(request: FlowRequest, ending: number, _reason: number, module: number, at: number): void {
    const open = this.open[request]!;
    this.open[request] = undefined;
    const { call, cause } = open;
    const outcome = ending === FINISHED || cause === null ? ending : codesOf(cause).outcome;
    const handler = open.close(outcome === FINISHED);
    const totalUs = at - call.receivedAt;
    const wasInTime = outcome === FINISHED && at <= open.deadline;
    this.budgets.ended(request, !wasInTime && outcome !== FAILED && !(outcome === DROPPED && cause === null));
    if (wasInTime) {
      this.countEnd(open, OUTCOMES[FINISHED], "", "");
      this.cells.duration.observe(totalUs / 1e6);
      this.counts.ran(1, 0, totalUs, 0, this.host.clock.wallMs());
      this.counts.ended(true, totalUs, 0);
      handler.onReply(this.replyOf(open, request));
    } else if (cause === null && outcome !== FINISHED) this.countEnd(open, OUTCOMES[DROPPED], "cancelled", "");
    else {
      const name = this.spec.modules[module]?.name ?? "";
      const pipeline = this.spec.client.name;
      const error = cause === null ? lateError(pipeline, open) : moduleError(pipeline, name, open, cause);
      const { code, details } = error;
      const isLate = outcome === FINISHED || outcome === LATE;
      this.countEnd(open, OUTCOMES[isLate ? LATE : outcome]!, isLate ? "" : (details.reason ?? code), name);
      this.counts.ended(false, totalUs, 0);
      if (this.entering === open) this.refusal = error;
      else handler.onError(error);
    }
  }

  private countEnd(open: OpenRequest, outcome: string, reason: string, module: string): void {
    this.cells.ended(outcome, reason, module);
    open.acceleratorTime.ended((us) => this.cells.spent(outcome, us));
  }

  private replyOf(open: OpenRequest, request: FlowRequest): InferReply {
    const { client, outputs } = this.spec;
    const asked = open.call.outputs;
    const wanted = asked.length === 0 ? outputs : asked.map((name) => outputs.find((output) => output.name === name)!);
    return {
      model: client.name,
      version: client.version,
      outputs: wanted.flatMap((output) => this.answerOf(open, request, output)),
      parameters: {},
    };
  }

  private answerOf(open: OpenRequest, request: FlowRequest, output: NamedEnds): Tensor[] {
    // It is there on every way, and no list: that was held against the modules.
    const value = output.from.map((end) => open.at(end, request)).find((each) => each !== undefined);
    return value === undefined || isList(value) ? [] : [{ ...value, name: output.name }];
  }
}
