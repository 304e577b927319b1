import type { PipelineSpec, ServedModule, StepSpec } from "../../config/server/pipelines/served-pipeline.js";
import { timeUs } from "../../core/time.js";
import type { ModuleTimes } from "../../system/budget/module-times.js";
import type { PartDue } from "../../system/budget/part-due.js";
import { togetherUs } from "../../system/budget/part-work.js";
import type { Clock } from "../../wire/clock/clock.js";
import { ServingError } from "../../wire/serving-error.js";
import type { Datatype } from "../../wire/tensors/tensor.js";
import { bytesFromJson } from "../../wire/tensors/tensor-json.js";
import { REFUSALS } from "../endings.js";
import type { InferCall } from "../gateway.js";
import type { ModelTable } from "../models/model-table.js";
import type { Entry } from "../requests/entry.js";
import { partsFault } from "./data-ways.js";
import { type OpenRequest, WrongParts } from "./open-request.js";
import { moduleFault } from "./part-errors.js";
import { bytesOf, isList, type TensorOrList } from "./part-tensors.js";
import type { StepHealth } from "./steps/step-health.js";
import type { StepLosses } from "./steps/step-losses.js";
import type { NamedValue, StepPools } from "./steps/step-pool.js";
import { StepScheduler } from "./steps/step-scheduler.js";

export interface RunHost {
  readonly clock: Clock;
  readonly models: ModelTable;
  readonly entry: Entry;
  readonly stepPools: StepPools;
}

export interface RunHandler {
  /** @param startedAt of its batch, of this size. */
  onDone(outputs: readonly NamedValue[], startedAt: number, size: number): void;
  onError(error: ServingError): void;
}

/** What the modules of a pipeline run: its models, as their clients ask them, or its steps. */
export class ModuleRuns implements ModuleTimes {
  private readonly modules: readonly ServedModule[];
  private readonly host: RunHost;
  /** Null: it has no steps. */
  private readonly steps: StepScheduler | null;
  /** By module: its step's position; -1: it runs a model. */
  private readonly stepOf: readonly number[];
  private readonly threads: number;
  private readonly times: ModuleTimes;

  /** @param times of modules that run a model. */
  constructor(spec: PipelineSpec, times: ModuleTimes, losses: StepLosses, health: StepHealth, host: RunHost) {
    this.modules = spec.modules;
    this.threads = spec.steps.threads;
    this.times = times;
    this.host = host;
    const steps: StepSpec[] = [];
    this.stepOf = spec.modules.map(({ step }) => (step === null ? -1 : steps.push(step) - 1));
    this.steps =
      steps.length === 0
        ? null
        : new StepScheduler(spec, steps, host.stepPools(spec, steps), losses, health, host.clock);
  }

  /** Its steps are loaded, before anything comes. @throws ServingError naming the one that cannot be. */
  async start(): Promise<void> {
    await this.steps?.start();
  }

  /** Steps that wait fail. */
  drain(): void {
    this.steps?.drain();
  }

  async close(): Promise<void> {
    await this.steps?.close();
  }

  /** Which of its models are not there, or that the process of its steps is not; "": all are. */
  get missing(): string {
    const models = new Set(this.modules.flatMap(({ model, step }) => (step === null ? model : [])));
    const why = [...models].map((model) => this.missingModel(model));
    if (this.steps?.isUp === false) why.push("the process of its steps is being started");
    return why.filter((each) => each !== "").join("; ");
  }

  private missingModel(model: string): string {
    try {
      const { isLeaving } = this.host.models.serving(model, "");
      return isLeaving ? `model '${model}': ${REFUSALS.unloading.text}` : "";
    } catch (error) {
      return ServingError.from(error).message;
    }
  }

  /** As far as is known. */
  readonly leastUs = (module: number): number => this.stepUs(module) ?? this.times.leastUs(module);
  readonly plannedUs = (module: number): number =>
    this.stepUs(module) ?? this.times.plannedUs?.(module) ?? this.times.leastUs(module);

  readonly staggeredUs = (module: number, sloUs: number): number =>
    this.stepUs(module) ?? this.times.staggeredUs?.(module, sloUs) ?? this.times.leastUs(module);

  readonly togetherUs = (module: number, count: number, beside: number, eachUs: number): number => {
    const stepUs = this.stepUs(module);
    if (stepUs !== undefined) return togetherUs(count, this.threads, 1, () => stepUs, beside);
    return this.times.togetherUs?.(module, count, beside, eachUs) ?? this.times.leastUs(module);
  };

  readonly isSingle = (module: number): boolean => this.stepOf[module]! >= 0 || this.times.isSingle?.(module) === true;

  /** All steps of a pipeline share their threads. */
  readonly groupOf = (module: number): number => (this.stepOf[module]! >= 0 ? -1 : this.times.groupOf!(module));

  readonly acceleratorsOf = (module: number): number =>
    this.stepOf[module]! >= 0 ? this.threads : this.times.acceleratorsOf!(module);

  /** Undefined: it runs a model. */
  private stepUs(module: number): number | undefined {
    const step = this.stepOf[module]!;
    return step < 0 ? undefined : this.steps!.timeUs(step);
  }

  /** Changes whenever what is known of steps does. */
  get version(): number {
    return this.steps === null ? 0 : this.steps.version;
  }

  /**
   * @param frame of the part. @param at when it comes. @param due what the queue is told.
   * @returns takes it back. @throws ServingError, or what ServingError.from knows: it cannot even enter.
   */
  enter(module: number, open: OpenRequest, frame: number, at: number, due: PartDue, handler: RunHandler): () => void {
    const spec = this.modules[module]!;
    const inputs = inputsOf(spec, this.modules, open, frame);
    if (spec.step !== null) {
      checkStepInputs(spec.step, inputs);
      return this.steps!.enter(this.stepOf[module]!, inputs, open.call.receivedAt, due, {
        onReply: (outputs, startedAt) => handler.onDone(outputs, startedAt, 1),
        onError: (error) => handler.onError(error),
      });
    }
    const { models, entry } = this.host;
    return entry.enter(models.serving(spec.model, ""), callOf(spec, open, inputs, at, due), {
      onReply: ({ outputs, ran }) => {
        const values = outputs.map((value) => ({ name: value.name, value }));
        handler.onDone(values, ran!.startedAt, ran!.size);
      },
      onError: (error) => handler.onError(error),
    });
  }
}

function inputsOf(
  { inputs, step }: ServedModule,
  modules: readonly ServedModule[],
  open: OpenRequest,
  frame: number,
): NamedValue[] {
  return inputs.flatMap((input) => {
    const { name } = input;
    try {
      const value = open.find(input, frame);
      if (step === null && value !== undefined) checkParts(input, value, modules);
      return value === undefined ? [] : { name, value };
    } catch (error) {
      if (!(error instanceof WrongParts)) throw error;
      throw moduleFault(`input '${name}', the parts together, ${error.message}`);
    }
  });
}

/** A model has no batch of none. @throws ServingError the client's fault only where the rows were its own. */
function checkParts(
  { name, from }: ServedModule["inputs"][number],
  value: TensorOrList,
  modules: readonly ServedModule[],
): void {
  const gathered = from.find(({ gatheredOf }) => gatheredOf >= 0);
  if (gathered === undefined || isList(value) || value.shape[0] !== 0) return;
  const text = `input '${name}', the parts together, must have at least 1 row, as a model takes; has none: no parts were made`;
  throw moduleFault(text, partsFault(modules[gathered.gatheredOf]!));
}

function callOf(
  { model, outputs }: ServedModule,
  open: OpenRequest,
  inputs: readonly NamedValue[],
  at: number,
  due: PartDue,
): InferCall {
  const { call, acceleratorTime } = open;
  // A model takes no lists: that was held against it when the pipeline was loaded.
  const tensors = inputs.flatMap(({ name, value }) => (isList(value) ? [] : { ...value, name }));
  return {
    model,
    version: "",
    id: "",
    inputs: tensors,
    outputs,
    receivedAt: timeUs(at),
    timeoutUs: null,
    transportDeadlineAt: null,
    parameters: call.parameters,
    part: { askedAt: call.receivedAt, ...due, ran: (us) => acceleratorTime.spent(us) },
    traceparent: call.traceparent,
    byteLength: bytesOf(tensors),
  };
}

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
          { reason: "invalid-argument" },
        );
    }
  }
}

/** What takers of a module get where it is missing. @throws ServingError naming the default, and what is wrong with it. */
export function defaultsOf({ name: module, defaults }: ServedModule): NamedValue[] {
  return defaults.map(({ name, datatype: written, shape, data }) => {
    const datatype = written as Datatype;
    const bytes = bytesFromJson(`default '${name}' of module '${module}'`, datatype, shape, data);
    return { name, value: { name, datatype, shape, data: bytes } };
  });
}
