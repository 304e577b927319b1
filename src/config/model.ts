/**
 * A model as the server knows it: what the model file says, what `config.pbtxt` says, what `rubato.yaml` says, merged.
 * The repository reader produces it; doors, batching, workers and the scheduler's driver read it.
 */
import type { NamedPolicy } from "../core/event-log.js";
import type { DurationUs } from "../core/time.js";
import type { AutoscaleOptions } from "./autoscale.js";
import type { ElasticSpec } from "./elastic.js";

export interface TensorSpec {
  readonly name: string;
  /** Open Inference Protocol datatype. */
  readonly datatype: string;
  /** -1 = variable. Includes the batch dimension where `batchAxis` is a number. */
  readonly shape: readonly number[];
  /** What clients send or get in place of `shape`: the same elements (Triton's reshape). Absent: `shape`. */
  readonly clientShape?: readonly number[];
  /** Where requests are concatenated; null: no batch axis, so values must be equal to share a batch. */
  readonly batchAxis: number | null;
  /** An axis whose extent differs between requests, and what to do about it; null: all -1 axes must be equal to share a batch. */
  readonly variable: VariableAxis | null;
  /** May be left out. Then it is the model file's initializer, a mask of ones, or else 0 (empty text) in every element. */
  readonly optional: boolean;
  /** The model file has an initializer for it. */
  readonly isBacked?: boolean;
  /** Whole numbers that the model takes, lowest and highest: indices of a table. Absent: any. */
  readonly range?: readonly [number, number];
  /** An attention mask: where a request leaves it out it is made (1 = real, 0 = padding). Implies padValue 0. */
  readonly mask?: boolean;
  /** What warm-up and profiling feed: a value for every element (default 0; masks 1), extents for the -1 axes that nothing else fixes. */
  readonly profileValue?: number;
  readonly profileShape?: readonly number[];
}

export interface VariableAxis {
  readonly axis: number;
  /** "pad": pad up to the next bucket (never beyond the last: longer is refused). "equal": only equal extents share a batch. */
  readonly mode: "pad" | "equal";
  /** Increasing extents; empty with "equal". */
  readonly buckets: readonly number[];
  readonly padValue: number;
  /** Outputs along this axis are cut back to the request's own extent: output name -> axis, scale output/input (e.g. 1/8). */
  readonly unpad: readonly { readonly output: string; readonly axis: number; readonly scale: number }[];
}

export interface EmulatedSpec {
  /** l(b) = alphaMs * b + betaMs, or tableMs[b] for b = 1.. */
  readonly alphaMs: number;
  readonly betaMs: number;
  readonly tableMs: readonly number[] | null;
}

export interface ModelSpec {
  readonly name: string;
  /** A numbered folder, 1 to 2^63 - 1. */
  readonly version: string;
  /** Those that are served beside it, itself included, increasing. */
  readonly versions: readonly string[];
  /** rubato_pipeline: no model of its own, but several of the repository in turn. */
  readonly platform: "onnx_onnxv1" | "rubato_emulated" | "rubato_pipeline";
  /** Absolute path of the .onnx file; null for emulated. */
  readonly file: string | null;
  /** Of a .onnx file whose nodes go on from its outputs. Absent: none do. */
  readonly tailFile?: string;
  /** Folder of the model in the repository (profiles are kept in it). */
  readonly folder: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** 0: the model does not batch (no batch dimension in shapes). */
  readonly batchSizeMax: number;
  /** Why it does not batch; absent where it does. */
  readonly unbatched?: string;
  /** The run always has exactly this many rows (padded up); null: any size up to batchSizeMax. */
  readonly batchSizeFixed: number | null;
  /** null: no SLO; served as eager with `defaultTimeoutUs`. */
  readonly sloUs: DurationUs | null;
  readonly defaultTimeoutUs: DurationUs;
  readonly timeoutMaxUs: DurationUs;
  /** What a request's own timeout may do where there is a default. Absent: anything up to timeoutMaxUs. */
  readonly timeoutOverride?: "shorten" | "never";
  /** A run that computes may take so long, whatever its prediction and its deadline. Absent: 0. */
  readonly runMaxUs?: DurationUs;
  readonly policy: string;
  /** It names the policy itself; otherwise that is the default. */
  readonly namesPolicy?: boolean;
  readonly policyOptions: Readonly<Record<string, unknown>>;
  /** Name of the accelerator group that runs it. */
  readonly group: string;
  /** True: `group` is what placement chose, and may choose anew. Absent: its owner's word. */
  readonly isPlaced?: boolean;
  /** Megabytes (10^6 bytes) on each accelerator of its group, and those that one run needs beside. Absent: 0. */
  readonly memoryMb?: number;
  readonly dynamicMemoryMb?: number;
  readonly queueRequestsMax: number;
  readonly queueBytesMax: number;
  readonly emulated: EmulatedSpec | null;
  readonly apps: readonly string[];
  /** It runs with tokens added or merged, for tasks. Absent: it does not. */
  readonly elastic?: ElasticSpec;
  /** Requests of different buckets of the padded input: share batches, or do not. Absent: as the group's policy likes it. */
  readonly sizes?: "apart" | "together";
  /** Anything else of config.pbtxt worth showing in /config. */
  readonly parameters: Readonly<Record<string, string>>;
  /** What its files ask for and do not get, a sentence each. Absent: nothing. */
  readonly warnings?: readonly string[];
}

/** In place of a group's name: placement chooses it. */
export const GROUP_AUTO = "auto";

/** A group of accelerators that hold the same models (Symphony: a sub-cluster). */
export interface AcceleratorGroupSpec {
  readonly name: string;
  readonly kind: "onnx" | "emulated";
  readonly count: number;
  /** onnx: intra-op threads per worker. */
  readonly threads: number;
  /** Relative speed per accelerator, 1 = as profiled, 5 = five times slower; length `count`. */
  readonly scales: readonly number[];
  /** Absent: as the defaults of the configuration file, advice only. */
  readonly autoscale?: GroupAutoscale;
  /** Schedules all models of the group. Absent: each brings its own rules. */
  readonly policy?: NamedPolicy;
}

export interface GroupAutoscale {
  readonly options: AutoscaleOptions;
  /** False: advice only. True: `count` is the most there can be. */
  readonly act: boolean;
  /** Accelerators at the start, those of the lowest numbers. */
  readonly start: number;
  /** How long a parked worker stays loaded before its process ends. */
  readonly keepWarmUs: DurationUs;
}

/** Accelerators of the group that are there at the start. */
export const startCount = (group: AcceleratorGroupSpec): number =>
  group.autoscale?.act === true ? group.autoscale.start : group.count;
