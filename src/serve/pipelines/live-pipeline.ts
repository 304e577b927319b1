import { PARTS_MAX } from "../../config/server/pipelines/pipeline-file.js";
import type {
  NamedEnds,
  PipelineSpec,
  ServedModule,
  StepSpec,
  TensorEnd,
} from "../../config/server/pipelines/served-pipeline.js";
import {
  DROP_BYTES_FULL,
  DROP_CANCELLED,
  DROP_QUEUE_FULL,
  DROP_REASONS,
  DROPPED,
  FAIL_CAUSES,
  FAIL_DRAINING,
  FAIL_INTERNAL,
  FAIL_MODEL_ERROR,
  FAILED,
  FINISHED,
  LATE,
  OUTCOMES,
} from "../../core/outcome.js";
import { type TimeUs, timeUs } from "../../core/time.js";
import { Budgets, type ModuleTimes } from "../../system/budget.js";
import { Flow, type FlowDriver, type FlowRequest, type Part, REFUSED } from "../../system/flow.js";
import { ModuleStates } from "../../system/module-states.js";
import { Pipeline } from "../../system/pipeline.js";
import type { Clock } from "../../wire/clock/clock.js";
import { ServingError } from "../../wire/serving-error.js";
import type { Datatype, Tensor } from "../../wire/tensors/tensor.js";
import { bytesFromJson } from "../../wire/tensors/tensor-json.js";
import { dropEnding, failEnding, LATE_ENDING } from "../endings.js";
import type { InferCall, InferHandler, InferReply, ModelStatistics } from "../gateway.js";
import { checkApp } from "../models/apps.js";
import { ModelCounts } from "../models/model-counts.js";
import type { ModelTable } from "../models/model-table.js";
import type { PipelineCells } from "../observation/pipeline-metrics.js";
import { deadlineOf } from "../requests/deadline.js";
import type { Entry } from "../requests/entry.js";
import { validateInputs, validateOutputs } from "../requests/values/validate-inputs.js";
import { HeldBytes } from "./held-bytes.js";
import { OpenRequest, WrongParts } from "./open-request.js";
import { bytesOf, elementAt, isList, rowCount, type TensorOrList } from "./part-tensors.js";
import type { NamedValue, StepPools } from "./steps/step-pool.js";
import { StepScheduler } from "./steps/step-scheduler.js";

export interface PipelineHost {
  readonly clock: Clock;
  readonly models: ModelTable;
  readonly entry: Entry;
  readonly stepPools: StepPools;
  /** From now on no module is begun any more. */
  readonly isDraining: boolean;
  readonly onBroken: (error: unknown) => void;
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
  private readonly times: ModuleTimes;
  private readonly bytes: HeldBytes;
  private readonly counts = new ModelCounts();
  /** By request of the flow, while it is open. */
  private readonly open: (OpenRequest | undefined)[] = [];
  /** By part, while it is with its model: takes it back. */
  private readonly cancels: ((() => void) | undefined)[] = [];
  private entering: OpenRequest | null = null;
  /** Why the one that is entering ended as it came. */
  private refusal: ServingError | null = null;
  /** Null: it has no steps. */
  private readonly steps: StepScheduler | null;
  /** By module: its step's position; -1: it runs a model. */
  private readonly stepOf: readonly number[];
  /** By module: what its takers get where it is missing. */
  private readonly defaults: readonly (readonly NamedValue[])[];
  /** Of the modules' states, that budgets know. */
  private intervals = 0;
  /** Of the steps' times, that budgets know. */
  private stepVersion = 0;
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
    this.states = new ModuleStates(spec.modules.length, spec.budget.windowS);
    this.bytes = new HeldBytes(spec.bytesMax);
    const steps: StepSpec[] = [];
    this.stepOf = spec.modules.map(({ step }) => (step === null ? -1 : steps.push(step) - 1));
    this.steps = steps.length === 0 ? null : new StepScheduler(spec, steps, host.stepPools(spec, steps), host.clock);
    this.defaults = spec.modules.map((module) => defaultsOf(module));
    const ofSteps =
      (usOf: (module: number) => number) =>
      (module: number): number => {
        const step = this.stepOf[module]!;
        return step < 0 ? usOf(module) : this.steps!.timeUs(step);
      };
    this.times = { leastUs: ofSteps(times.leastUs), plannedUs: ofSteps(times.plannedUs ?? times.leastUs) };
    this.budgets = new Budgets(pipeline, spec.budget, this.times);
  }

  /** Requests that have not ended, or of which a part has not. */
  get live(): number {
    return this.flow.live;
  }

  /** Its steps are loaded, before anything comes. @throws ServingError naming the one that cannot be. */
  async start(): Promise<void> {
    await this.steps?.start();
  }

  /** No module is begun any more: steps that wait fail. */
  drain(): void {
    this.steps?.drain();
  }

  /** When nothing is live any more, or the server ends. */
  async close(): Promise<void> {
    await this.steps?.close();
  }

  get heldBytes(): number {
    return this.bytes.bytes;
  }

  /** All its models are there. */
  get isReady(): boolean {
    try {
      return this.spec.modules.every(
        ({ model, step }) => step !== null || !this.host.models.serving(model, "").isLeaving,
      );
    } catch {
      return false;
    }
  }
  /** That not even a lone request can be in time; "": it can. */
  get warning(): string {
    const { client } = this.spec;
    const { leastUs } = this.budgets;
    if (leastUs <= client.sloUs!) return "";
    return `slo_ms must be at least the profiled time of one request in all modules (${(leastUs / 1000).toFixed(3)} ms); was ${client.sloUs! / 1000}`;
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
    const { app } = call.parameters;
    if (app !== undefined) checkApp(app);
    const deadline = deadlineOf(client, call);
    const { live, room } = this.flow;
    if (live >= this.spec.requestsMax || room === 0) {
      const { requestsMax } = this.spec;
      const limit = live >= requestsMax ? `${requestsMax} requests; was ${live + 1}` : `${PARTS_MAX} parts of all`;
      throw this.dropAtOnce(DROP_QUEUE_FULL, `must be at most ${limit}`, call, deadline);
    }
    const hold = this.bytes.enter(call.byteLength);
    if (hold === null) {
      const limit = `must be at most ${client.queueBytesMax} bytes, those between modules included; was ${this.bytes.with(call.byteLength)}`;
      throw this.dropAtOnce(DROP_BYTES_FULL, limit, call, deadline);
    }
    const open = new OpenRequest(call, deadline, hold, this.spec.modules.length, this.flow, handler);
    this.entering = open;
    const request = this.flow.enter(0, call.receivedAt, deadline, this.host.clock.now());
    this.entering = null;
    const { refusal } = this;
    this.refusal = null;
    if (refusal !== null) throw refusal;
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
    const { steps } = this;
    if (steps === null || steps.version === this.stepVersion) return;
    this.stepVersion = steps.version;
    this.budgets.retimed(this.times);
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
    try {
      if (this.host.isDraining) throw drainingError();
      const inputs = this.inputsOf(open, module, frame);
      const step = this.stepOf[module]!;
      this.cancels[part] =
        step < 0 ? this.enterModel(part, open, inputs, at) : this.enterStep(part, step, open, inputs, at);
    } catch (error) {
      this.partFailed(part, open, ServingError.from(error), at);
    }
  }

  private inputsOf(open: OpenRequest, module: number, frame: number): NamedValue[] {
    return this.spec.modules[module]!.inputs.flatMap((input) => {
      const { name } = input;
      try {
        const value = open.find(input, frame);
        return value === undefined ? [] : { name, value };
      } catch (error) {
        if (!(error instanceof WrongParts)) throw error;
        throw moduleFault(`input '${name}', the parts together, ${error.message}`);
      }
    });
  }

  private enterModel(part: Part, open: OpenRequest, inputs: readonly NamedValue[], at: number): () => void {
    const { host, flow } = this;
    const module = flow.moduleOf(part);
    const model = host.models.serving(this.spec.modules[module]!.model, "");
    return host.entry.enter(model, this.callOf(open, module, inputs, timeUs(at)), {
      onReply: ({ outputs, ran }) => {
        const values = outputs.map((value) => ({ name: value.name, value }));
        this.partDone(part, open, values, ran!.startedAt, ran!.size, at);
      },
      onError: (error) => this.partFailed(part, open, error, at),
    });
  }

  private enterStep(
    part: Part,
    step: number,
    open: OpenRequest,
    inputs: readonly NamedValue[],
    at: number,
  ): () => void {
    const module = this.flow.moduleOf(part);
    checkStepInputs(this.spec.modules[module]!.step!, inputs);
    const dueBy = this.budgets.dueBy(module, at, open.deadline, open.call.receivedAt);
    return this.steps!.enter(step, inputs, open.deadline, dueBy, {
      onReply: (outputs, startedAt) => this.partDone(part, open, outputs, startedAt, 1, at),
      onError: (error) => this.partFailed(part, open, error, at),
    });
  }

  private callOf(open: OpenRequest, module: number, inputs: readonly NamedValue[], at: TimeUs): InferCall {
    const { call, deadline } = open;
    const { model, outputs } = this.spec.modules[module]!;
    // A model takes no lists: that was held against it when the pipeline was loaded.
    const tensors = inputs.flatMap(({ name, value }) => (isList(value) ? [] : { ...value, name }));
    return {
      model,
      version: "",
      id: "",
      inputs: tensors,
      outputs,
      receivedAt: at,
      timeoutUs: null,
      transportDeadlineAt: null,
      parameters: call.parameters,
      part: { askedAt: call.receivedAt, deadline, dueBy: this.budgets.dueBy(module, at, deadline, call.receivedAt) },
      traceparent: call.traceparent,
      byteLength: bytesOf(tensors),
    };
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
    this.flow.ended(part, DROPPED, DROP_CANCELLED, at);
  }

  partsOf(request: FlowRequest, module: number, _path: number, frame: number): number {
    const open = this.open[request]!;
    const { fanOut } = this.spec.modules[module]!;
    const counts = fanOut.map((end) => this.rowsOf(open, end, frame));
    const [count = 0] = counts;
    const other = counts.findIndex((each) => each !== count);
    if (other >= 0)
      return this.refuse(
        open,
        moduleFault(
          `fan_out: '${fanOut[other]!.tensor}' must have as many rows as '${fanOut[0]!.tensor}' (${count}); has ${counts[other]}`,
        ),
      );
    const { partsMax } = this.spec;
    open.parts += count;
    if (open.parts > partsMax)
      return this.refuse(
        open,
        moduleFault(`a request must make at most ${partsMax} parts (queue.parts_max); makes ${open.parts} here`),
      );
    if (count <= this.flow.room) return count;
    const { code, text } = dropEnding(DROP_QUEUE_FULL);
    const full = `${text}: at most ${PARTS_MAX} parts of all requests`;
    return this.refuse(open, new ServingError(code, full, { reason: DROP_REASONS[DROP_QUEUE_FULL]!, retryAfterS: 1 }));
  }

  private rowsOf(open: OpenRequest, end: TensorEnd, frame: number): number {
    const value = open.at(end, frame);
    return value === undefined ? 0 : rowCount(value);
  }

  branchOf(request: FlowRequest, module: number, _path: number, frame: number): number {
    const open = this.open[request]!;
    const { branch, subs } = this.spec.modules[module]!;
    const { tensor: name, element, above } = branch!;
    const tensor = open.own(module, name, frame);
    const value = tensor === undefined ? null : elementAt(tensor, element);
    if (value === null)
      return this.refuse(
        open,
        moduleFault(`branch: output '${name}' must have element ${element}; is of shape [${tensor?.shape ?? "none"}]`),
      );
    if (above !== null && !Number.isNaN(value)) return above.filter((bound) => value > bound).length;
    if (above === null && Number.isInteger(value) && value >= 0 && value < subs.length) return value;
    const must = above === null ? `a position of its subs, in [0, ${subs.length - 1}]` : "a number";
    return this.refuse(
      open,
      moduleFault(`branch: element ${element} of output '${name}' must be ${must}; was ${value}`),
    );
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
    if (outcome === FINISHED && at <= open.deadline) {
      this.cells.ended(OUTCOMES[FINISHED], "", "");
      this.cells.duration.observe(totalUs / 1e6);
      this.counts.ran(1, 0, totalUs, 0, this.host.clock.wallMs());
      this.counts.ended(true, totalUs, 0);
      handler.onReply(this.replyOf(open, request));
    } else if (cause === null && outcome !== FINISHED) this.cells.ended(OUTCOMES[DROPPED], "cancelled", "");
    else {
      const name = this.spec.modules[module]?.name ?? "";
      const error = cause === null ? this.late(open) : this.moduleError(name, open, cause);
      const { code, details } = error;
      this.cells.ended(OUTCOMES[outcome === FINISHED ? LATE : outcome]!, details.reason ?? code, name);
      this.counts.ended(false, totalUs, 0);
      if (this.entering === open) this.refusal = error;
      else handler.onError(error);
    }
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

  /** Its last part was a soft one, and missing only after the deadline. */
  private late({ call, deadline }: OpenRequest): ServingError {
    const { code, text } = LATE_ENDING;
    return new ServingError(code, `pipeline '${this.spec.client.name}': ${text}`, {
      reason: "late",
      deadlineUs: deadline - call.receivedAt,
    });
  }

  /** What the part's client would be told, as the client of the whole is told it. */
  private moduleError(
    module: string,
    { call, deadline }: OpenRequest,
    { code, message, details }: ServingError,
  ): ServingError {
    return new ServingError(code, `pipeline '${this.spec.client.name}': module '${module}': ${message}`, {
      ...details,
      module,
      deadlineUs: deadline - call.receivedAt,
    });
  }
}

/** What a module's data does wrong, in its place. */
const moduleFault = (text: string): ServingError =>
  new ServingError("internal", text, { reason: FAIL_CAUSES[FAIL_MODEL_ERROR]! });

/** Extents that were open when the pipeline was loaded. @throws ServingError naming input, step and both shapes. */
function checkStepInputs({ reference, inputs }: StepSpec, values: readonly NamedValue[]): void {
  for (const spec of inputs) {
    const value = values.find(({ name }) => name === spec.name)?.value;
    const tensors = value === undefined ? [] : isList(value) ? value : [value];
    for (const { datatype, shape } of tensors) {
      const isOfShape =
        shape.length === spec.shape.length &&
        spec.shape.every((extent, axis) => extent === -1 || extent === shape[axis]);
      if (datatype !== spec.datatype || !isOfShape)
        throw new ServingError(
          "invalid-argument",
          `input '${spec.name}' of step '${reference}' must be ${spec.datatype} [${spec.shape}]; was ${datatype} [${shape}]`,
          { reason: FAIL_CAUSES[FAIL_MODEL_ERROR]! },
        );
    }
  }
}

/** @throws ServingError naming the default, and what is wrong with it. */
function defaultsOf({ name: module, defaults }: ServedModule): NamedValue[] {
  return defaults.map(({ name, datatype, shape, data }) => {
    const where = `default '${name}' of module '${module}'`;
    const value: TensorOrList = {
      name,
      datatype: datatype as Datatype,
      shape,
      data: bytesFromJson(where, datatype as Datatype, shape, data),
    };
    return { name, value };
  });
}

function drainingError(): ServingError {
  const { code, text } = failEnding(FAIL_DRAINING);
  return new ServingError(code, text, { reason: FAIL_CAUSES[FAIL_DRAINING]!, retryAfterS: 1 });
}

/** How a part ended, by what its client would be told. */
function codesOf({ code, details }: ServingError): { outcome: number; reason: number } {
  const { reason = "" } = details;
  if (reason === "late") return { outcome: LATE, reason: 0 };
  const drop = (DROP_REASONS as readonly string[]).indexOf(reason);
  if (drop >= 0) return { outcome: DROPPED, reason: drop };
  if (code === "resource-exhausted") return { outcome: DROPPED, reason: DROP_QUEUE_FULL };
  const cause = (FAIL_CAUSES as readonly string[]).indexOf(reason);
  return { outcome: FAILED, reason: cause >= 0 ? cause : FAIL_INTERNAL };
}
