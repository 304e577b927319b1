/**
 * What a door (HTTP, gRPC) asks of the server, over plain records: doors know nothing of scheduling,
 * and everything behind the gateway knows nothing of transports.
 */
import type { ModelSpec } from "../config/model.js";
import type { RequestTraits } from "../core/tables/request-table.js";
import type { DurationUs, TimeUs } from "../core/time.js";
import type { PartDue } from "../system/budget/part-due.js";
import type { ServingError } from "../wire/serving-error.js";
import type { Tensor } from "../wire/tensors/tensor.js";
import type { GroupScaling } from "./group-scaling.js";

export type ParameterValue = string | number | boolean;

/** One inference as a door parsed it. */
export interface InferCall {
  readonly model: string;
  /** "" = the server's choice. */
  readonly version: string;
  /** The client's id, echoed; "" = none. */
  readonly id: string;
  readonly inputs: readonly Tensor[];
  /** Output names asked for; empty = all. */
  readonly outputs: readonly string[];
  /** Monotonic moment (Clock.now) when the request's headers were received: deadlines count from it. */
  readonly receivedAt: TimeUs;
  /** Request parameter `timeout`, microseconds, or null. */
  readonly timeoutUs: DurationUs | null;
  /** The transport's own deadline (gRPC), as a moment, or null. */
  readonly transportDeadlineAt: TimeUs | null;
  readonly parameters: Readonly<Record<string, ParameterValue>>;
  /** What the scheduler is told of it beyond its queue and deadline. Absent: the kind of its app. */
  readonly traits?: RequestTraits;
  readonly part?: CallOfPart;
  /** W3C `traceparent` header, or null. */
  readonly traceparent: string | null;
  /** Bytes of the request body, for byte limits. */
  readonly byteLength: number;
}

/** It is a part of a pipeline's request. */
export interface CallOfPart extends Readonly<PartDue> {
  /** When the whole was received. */
  readonly askedAt: number;
  /** Its batch ran, whoever still waits for it. @param us its equal share of the batch's time. */
  ran(us: number): void;
}

/** A call that a door refused before the gateway saw it, as far as it was known. */
export type RefusedCall = Pick<InferCall, "model" | "version" | "receivedAt" | "traceparent">;

export interface InferReply {
  readonly model: string;
  readonly version: string;
  readonly outputs: readonly Tensor[];
  readonly parameters: Readonly<Record<string, ParameterValue>>;
  /** When its batch began to execute, and the requests in that; absent: it was a pipeline. */
  readonly ran?: { readonly startedAt: number; readonly size: number };
}

/** Called exactly once per `infer`, unless the call was cancelled first. */
export interface InferHandler {
  onReply(reply: InferReply): void;
  onError(error: ServingError): void;
}

export interface RepositoryIndexEntry {
  readonly name: string;
  readonly version: string;
  readonly state: "UNKNOWN" | "READY" | "UNAVAILABLE" | "LOADING" | "UNLOADING";
  readonly reason: string;
}

/** Counters in Triton's statistics shape; durations in nanoseconds. */
export interface ModelStatistics {
  readonly name: string;
  readonly version: string;
  readonly lastInferenceMs: number;
  readonly inferenceCount: number;
  readonly executionCount: number;
  readonly success: StatisticDuration;
  readonly fail: StatisticDuration;
  readonly queue: StatisticDuration;
  readonly computeInput: StatisticDuration;
  readonly computeInfer: StatisticDuration;
  readonly computeOutput: StatisticDuration;
  readonly batches: readonly {
    readonly batchSize: number;
    readonly computeInput: StatisticDuration;
    readonly computeInfer: StatisticDuration;
    readonly computeOutput: StatisticDuration;
  }[];
}
export interface StatisticDuration {
  readonly count: number;
  readonly ns: number;
}

/** A task of an elastic model, as doors show it. */
export interface TaskStatus {
  readonly model: string;
  readonly name: string;
  /** READY: served. PROFILING: no version is, but one will be. UNAVAILABLE: it is not; the reason says why. */
  readonly state: "READY" | "PROFILING" | "UNAVAILABLE";
  /** Why its newest version is not served; "": it is, or will be. */
  readonly reason: string;
  /** Served; 0: none is. */
  readonly version: number;
  /** That is being profiled; 0: none is. */
  readonly profilingVersion: number;
  /** How far that is: images run, of how many over all gammas; null: none is. */
  readonly profiling: { readonly done: number; readonly of: number; readonly leftS: number | null } | null;
  readonly classes: readonly string[];
  readonly utility: number;
  /** 0: the model's. */
  readonly sloMs: number;
  /** Ascending. Empty before it is profiled. */
  readonly gammas: readonly TaskGamma[];
}

export interface TaskGamma {
  readonly gamma: number;
  /** Share of its profiling set that was right. */
  readonly accuracy: number;
  /** Measured with its profiling set; empty where it was profiled elsewhere. */
  readonly latencies: readonly { readonly batchSize: number; readonly us: number }[];
}

/** Tasks of elastic models. Each throws ServingError not-found for an unknown model, one that is not elastic, and an unknown task. */
export interface TaskRegistry {
  list(model: string): readonly TaskStatus[];
  get(model: string, task: string): TaskStatus;
  /** To be asked before a body is read: throws where none may be registered. */
  check(model: string): void;
  /** Stored when it resolves, and served when it has been profiled. */
  register(model: string, task: string, registration: TaskRegistration): Promise<TaskStatus>;
  /** Resolves with what it was, when it is gone. */
  remove(model: string, task: string): Promise<TaskStatus>;
}

/** A task as a client sends it. */
export interface TaskRegistration {
  readonly tensors: readonly Tensor[];
  readonly parameters: Readonly<Record<string, ParameterValue>>;
}

/** Prometheus' text format 0.0.4, or OpenMetrics 1.0.0. */
export type MetricsFormat = "prometheus" | "openmetrics";

export interface Gateway {
  /** Starts one inference. Returns a function that cancels it (idempotent; after it neither handler method is called). Throws ServingError for what is refused at once (unknown model, wrong tensors, draining). */
  infer(call: InferCall, handler: InferHandler): () => void;
  /** A door refused a call without asking: for counters and traces. */
  refused(call: RefusedCall, error: ServingError): void;
  readonly live: boolean;
  /** What should be loaded is, and nothing ends. */
  readonly ready: boolean;
  modelNames(): readonly string[];
  /** Throws ServingError not-found, naming the model or version. */
  model(name: string, version: string): ModelSpec;
  modelReady(name: string, version: string): boolean;
  /** Why it is not ready; "": it is. Throws as `model`. */
  modelFault(name: string, version: string): string;
  /** null or "" = all models. */
  statistics(name: string | null, version: string): readonly ModelStatistics[];
  repositoryIndex(onlyReady: boolean): readonly RepositoryIndexEntry[];
  /** Throws ServingError unless models are loaded and unloaded by request: to be asked before a body is read. */
  checkControl(what: "load" | "unload"): void;
  load(name: string, parameters: Readonly<Record<string, ParameterValue>>): Promise<void>;
  unload(name: string): Promise<void>;
  readonly tasks: TaskRegistry;
  /** How many accelerators each group needs, for those who add and remove them. */
  scaling(): readonly GroupScaling[];
  metrics(format?: MetricsFormat): Promise<string>;
}
