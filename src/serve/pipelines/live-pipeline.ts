import type { PipelineSpec } from "../../config/server/pipelines/pipeline-spec.js";
import { violated } from "../../core/invariant.js";
import {
  DROP_BYTES_FULL,
  DROP_CANCELLED,
  DROP_QUEUE_FULL,
  DROP_REASONS,
  DROPPED,
  FAIL_CAUSES,
  FAIL_DRAINING,
  FAIL_INTERNAL,
  FAILED,
  FINISHED,
  LATE,
  OUTCOMES,
} from "../../core/outcome.js";
import { type TimeUs, timeUs } from "../../core/time.js";
import { Budgets, type ModuleTimes } from "../../system/budget.js";
import { Flow, type FlowDriver, type FlowRequest, type Part } from "../../system/flow.js";
import { ModuleStates } from "../../system/module-states.js";
import { Pipeline } from "../../system/pipeline.js";
import type { Clock } from "../../wire/clock/clock.js";
import { ServingError } from "../../wire/serving-error.js";
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
import { bytesOf, OpenRequest } from "./open-request.js";

export interface PipelineHost {
  readonly clock: Clock;
  readonly models: ModelTable;
  readonly entry: Entry;
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
  private readonly bytes: HeldBytes;
  private readonly counts = new ModelCounts();
  /** By request of the flow, while it is open. */
  private readonly open: (OpenRequest | undefined)[] = [];
  /** By part, while it is with its model: takes it back. */
  private readonly cancels: ((() => void) | undefined)[] = [];
  private entering: OpenRequest | null = null;
  /** Of the modules' states, that budgets know. */
  private intervals = 0;
  private isTurnComing = false;

  constructor(spec: PipelineSpec, times: ModuleTimes, cells: PipelineCells, host: PipelineHost) {
    const pipeline = new Pipeline(spec.modules);
    this.spec = spec;
    this.host = host;
    this.cells = cells;
    this.flow = new Flow(pipeline, this, spec.requestsMax);
    this.states = new ModuleStates(spec.modules.length, spec.budget.windowS);
    this.budgets = new Budgets(pipeline, spec.budget, times);
    this.bytes = new HeldBytes(spec.bytesMax);
  }

  /** Requests that have not ended, or of which a part has not. */
  get live(): number {
    return this.flow.live;
  }
  get heldBytes(): number {
    return this.bytes.bytes;
  }

  /** All its models are there. */
  get isReady(): boolean {
    try {
      return this.spec.modules.every(({ model }) => !this.host.models.serving(model, "").isLeaving);
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
    const hold = this.bytes.enter(call.byteLength);
    if (hold === null) {
      const limit = `must be at most ${client.queueBytesMax} bytes, those between modules included; was ${this.bytes.with(call.byteLength)}`;
      throw this.dropAtOnce(DROP_BYTES_FULL, limit, call, deadline);
    }
    const open = new OpenRequest(call, deadline, hold, this.spec.modules.length, handler);
    this.entering = open;
    const request = this.flow.enter(0, call.receivedAt, deadline, this.host.clock.now());
    this.entering = null;
    if (request < 0) {
      open.close(false);
      const limit = `must be at most ${client.queueRequestsMax} requests; was ${this.flow.live + 1}`;
      throw this.dropAtOnce(DROP_QUEUE_FULL, limit, call, deadline);
    }
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
      if (intervals !== this.intervals) this.budgets.published(this.states.board, at);
      this.intervals = intervals;
      this.flow.settle(at);
    } catch (error) {
      this.host.onBroken(error);
    }
  };

  // FlowDriver

  requestEntered(request: FlowRequest): void {
    this.open[request] = this.entering!;
  }

  submit(part: Part, at: number): void {
    const { flow, host } = this;
    const module = flow.moduleOf(part);
    const open = this.open[flow.requestOf(part)]!;
    this.cancels[part] = undefined;
    this.states.came(module, at);
    try {
      if (host.isDraining) throw drainingError();
      const model = host.models.serving(this.spec.modules[module]!.model, "");
      this.cancels[part] = host.entry.enter(model, this.callOf(open, module, timeUs(at)), {
        onReply: (reply) => {
          if (open.isOpen) open.answered(module, reply.outputs);
          const { startedAt, size } = reply.ran!;
          if (flow.isAwaited(part)) this.states.ran(module, size, host.clock.now());
          this.partEnded(part, open, FINISHED, 0, null, at, startedAt);
        },
        onError: (error) => this.partFailed(part, open, error, at),
      });
    } catch (error) {
      this.partFailed(part, open, ServingError.from(error), at);
    }
  }

  private callOf(open: OpenRequest, module: number, at: TimeUs): InferCall {
    const { call, deadline } = open;
    const { model, inputs: ends, outputs } = this.spec.modules[module]!;
    const inputs = ends.flatMap(({ name, from }) => {
      const tensor = open.tensor(from.module, from.tensor);
      return tensor === undefined ? [] : [{ ...tensor, name }];
    });
    return {
      model,
      version: "",
      id: "",
      inputs,
      outputs,
      receivedAt: at,
      timeoutUs: null,
      transportDeadlineAt: null,
      parameters: call.parameters,
      part: { askedAt: call.receivedAt, deadline, dueBy: this.budgets.dueBy(module, at, deadline, call.receivedAt) },
      traceparent: call.traceparent,
      byteLength: bytesOf(inputs),
    };
  }

  private partFailed(part: Part, open: OpenRequest, error: ServingError, cameAt: number): void {
    const { outcome, reason } = codesOf(error);
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

  partsOf(): number {
    return violated("no module of a live pipeline fans out");
  }
  branchOf(): number {
    return violated("no module of a live pipeline branches");
  }

  requestEnded(request: FlowRequest, outcome: number, _reason: number, module: number, at: number): void {
    const open = this.open[request]!;
    this.open[request] = undefined;
    const { call, cause } = open;
    const handler = open.close(outcome === FINISHED);
    const totalUs = at - call.receivedAt;
    if (outcome === FINISHED && at <= open.deadline) {
      this.cells.ended(OUTCOMES[FINISHED], "", "");
      this.cells.duration.observe(totalUs / 1e6);
      this.counts.ran(1, 0, totalUs, 0, this.host.clock.wallMs());
      this.counts.ended(true, totalUs, 0);
      handler.onReply(this.replyOf(open));
    } else if (cause === null && outcome !== FINISHED) this.cells.ended(OUTCOMES[DROPPED], "cancelled", "");
    else {
      const name = this.spec.modules[module]?.name ?? "";
      const error = cause === null ? this.late(open) : this.moduleError(name, open, cause);
      const { code, details } = error;
      this.cells.ended(OUTCOMES[outcome === FINISHED ? LATE : outcome]!, details.reason ?? code, name);
      this.counts.ended(false, totalUs, 0);
      handler.onError(error);
    }
  }

  private replyOf(open: OpenRequest): InferReply {
    const { client, outputs } = this.spec;
    const asked = open.call.outputs;
    const wanted = asked.length === 0 ? outputs : asked.map((name) => outputs.find((output) => output.name === name)!);
    return {
      model: client.name,
      version: client.version,
      outputs: wanted.map(({ name, from }) => ({ ...open.tensor(from.module, from.tensor)!, name })),
      parameters: {},
    };
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
