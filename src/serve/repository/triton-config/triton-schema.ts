/**
 * Triton's model configuration as protobuf has it (model_config.proto of Triton 2.x), and reading a text against it.
 * Names and types only: what becomes of a field is in config/server/triton-fields.ts.
 *
 * A type is a scalar, an enum or a message; `*` behind it: repeated; `{key: type}`: a map.
 */
import { nearest } from "../../../config/config-error.js";
import { parseTextProto, placeOf, type TextField, type TextValue } from "./text-proto.js";

export const ENUMS: Readonly<Record<string, readonly string[]>> = {
  DataType: "INVALID BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 STRING BF16"
    .split(" ")
    .map((type) => `TYPE_${type}`),
  InstanceKind: ["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"],
  SecondaryDeviceKind: ["KIND_NVDLA"],
  Format: ["FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"],
  BatchInputKind: [
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
  ],
  BatchOutputKind: ["BATCH_SCATTER_WITH_INPUT_SHAPE"],
  ModelPriority: ["PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"],
  TimeoutAction: ["REJECT", "DELAY"],
  ControlKind: ["CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_CORRID"],
};

type Fields = Readonly<Record<string, string>>;
const fields = (text: string): Fields =>
  Object.assign(
    Object.create(null),
    Object.fromEntries([...text.matchAll(/(\w+):\s*(\{\w+: \w+\}|\w+\*?)/g)].map(([, name, type]) => [name!, type!])),
  );

export const MESSAGES: Readonly<Record<string, Fields>> = {
  ModelConfig: fields(`name: string  platform: string  backend: string  runtime: string  version_policy: VersionPolicy
    max_batch_size: int32  input: Input*  output: Output*  batch_input: BatchInput*  batch_output: BatchOutput*
    optimization: Optimization  dynamic_batching: DynamicBatching  sequence_batching: SequenceBatching
    ensemble_scheduling: Ensembling  instance_group: InstanceGroup*  default_model_filename: string
    cc_model_filenames: {string: string}  metric_tags: {string: string}  parameters: {string: Parameter}
    model_warmup: Warmup*  model_operations: Operations  model_transaction_policy: TransactionPolicy
    model_repository_agents: RepositoryAgents  response_cache: ResponseCache  model_metrics: Metrics`),
  VersionPolicy: fields("latest: Latest  all: All  specific: Specific"),
  Latest: fields("num_versions: uint32"),
  All: fields(""),
  Specific: fields("versions: int64*"),
  Reshape: fields("shape: int64*"),
  Input: fields(`name: string  data_type: DataType  format: Format  dims: int64*  reshape: Reshape  optional: bool
    is_shape_tensor: bool  allow_ragged_batch: bool  is_non_linear_format_io: bool`),
  Output: fields(`name: string  data_type: DataType  dims: int64*  reshape: Reshape  label_filename: string
    is_shape_tensor: bool  is_non_linear_format_io: bool`),
  BatchInput: fields("kind: BatchInputKind  target_name: string*  data_type: DataType  source_input: string*"),
  BatchOutput: fields("target_name: string*  kind: BatchOutputKind  source_input: string*"),
  InstanceGroup: fields(`name: string  kind: InstanceKind  count: int32  rate_limiter: RateLimiter  gpus: int32*
    secondary_devices: SecondaryDevice*  profile: string*  passive: bool  host_policy: string`),
  SecondaryDevice: fields("kind: SecondaryDeviceKind  device_id: int64"),
  RateLimiter: fields("resources: Resource*  priority: uint32"),
  Resource: fields("name: string  global: bool  count: uint32"),
  Optimization: fields(`graph: Graph  priority: ModelPriority  cuda: Cuda  execution_accelerators: Accelerators
    input_pinned_memory: PinnedMemory  output_pinned_memory: PinnedMemory  gather_kernel_buffer_threshold: uint32
    eager_batching: bool`),
  Graph: fields("level: int32"),
  Cuda: fields("graphs: bool  busy_wait_events: bool  graph_spec: GraphSpec*  output_copy_stream: bool"),
  GraphSpec: fields("batch_size: int32  input: {string: GraphShape}  graph_lower_bound: LowerBound"),
  LowerBound: fields("batch_size: int32  input: {string: GraphShape}"),
  GraphShape: fields("dim: int64*"),
  Accelerators: fields("gpu_execution_accelerator: Accelerator*  cpu_execution_accelerator: Accelerator*"),
  Accelerator: fields("name: string  parameters: {string: string}"),
  PinnedMemory: fields("enable: bool"),
  DynamicBatching: fields(`preferred_batch_size: int32*  max_queue_delay_microseconds: uint64  preserve_ordering: bool
    priority_levels: uint64  default_priority_level: uint64  default_queue_policy: QueuePolicy
    priority_queue_policy: {uint64: QueuePolicy}`),
  QueuePolicy: fields(`timeout_action: TimeoutAction  default_timeout_microseconds: uint64  allow_timeout_override: bool
    max_queue_size: uint32`),
  SequenceBatching: fields(`direct: Direct  oldest: Oldest  max_sequence_idle_microseconds: uint64
    control_input: ControlInput*  state: State*  iterative_sequence: bool`),
  Direct: fields("max_queue_delay_microseconds: uint64  minimum_slot_utilization: float"),
  Oldest: fields(`max_candidate_sequences: int32  preferred_batch_size: int32*  max_queue_delay_microseconds: uint64
    preserve_ordering: bool`),
  ControlInput: fields("name: string  control: Control*"),
  Control: fields(`kind: ControlKind  int32_false_true: int32*  fp32_false_true: float*  bool_false_true: bool*
    data_type: DataType`),
  State:
    fields(`input_name: string  output_name: string  data_type: DataType  dims: int64*  initial_state: InitialState*
    use_same_buffer_for_input_output: bool  use_growable_memory: bool`),
  InitialState: fields("data_type: DataType  dims: int64*  zero_data: bool  data_file: string  name: string"),
  Ensembling: fields("step: Step*  max_inflight_requests: uint32"),
  Step: fields(`model_name: string  model_version: int64  input_map: {string: string}  output_map: {string: string}
    model_namespace: string`),
  Parameter: fields("string_value: string"),
  Warmup: fields("name: string  batch_size: uint32  inputs: {string: WarmupInput}  count: uint32"),
  WarmupInput: fields(`data_type: DataType  dims: int64*  zero_data: bool  random_data: bool  input_data_file: string`),
  Operations: fields("op_library_filename: string*"),
  TransactionPolicy: fields("decoupled: bool"),
  RepositoryAgents: fields("agents: Agent*"),
  Agent: fields("name: string  parameters: {string: string}"),
  ResponseCache: fields("enable: bool"),
  Metrics: fields("metric_control: MetricControl*"),
  MetricControl: fields("metric_identifier: MetricIdentifier  histogram_options: HistogramOptions"),
  MetricIdentifier: fields("family: string"),
  HistogramOptions: fields("buckets: double*"),
};

/** At most one of each: what protobuf calls a oneof. */
const ONEOFS: Readonly<Record<string, readonly string[]>> = {
  ModelConfig: ["dynamic_batching", "sequence_batching", "ensemble_scheduling"],
  VersionPolicy: ["latest", "all", "specific"],
  SequenceBatching: ["direct", "oldest"],
  InitialState: ["zero_data", "data_file"],
  WarmupInput: ["zero_data", "random_data", "input_data_file"],
};

/** What a field holds: 64-bit numbers are bigints, enums their names, maps objects without a prototype. */
export type TritonValue = string | number | bigint | boolean | TritonMessage | readonly TritonValue[];
export interface TritonMessage {
  readonly [field: string]: TritonValue;
}

/**
 * @param problems gets what the text says that the schema does not allow, each `FILE:LINE:COLUMN: FIELD ...`.
 * @throws ServingError invalid-argument as `FILE:LINE:COLUMN: expected ..., found ...` for what is no text format.
 */
export function readTritonText(text: string, file: string, problems: string[]): TritonMessage {
  const reader = new SchemaReader((at, problem) => problems.push(`${placeOf(text, file, at)}: ${problem}`));
  return reader.message("ModelConfig", parseTextProto(text, file), "");
}

class SchemaReader {
  constructor(private readonly complain: (at: number, problem: string) => void) {}

  message(type: string, given: readonly TextField[], path: string): TritonMessage {
    const known = MESSAGES[type]!;
    const out: Record<string, TritonValue> = Object.create(null);
    for (const { name, at, values, isList } of given) {
      const field = `${path}${name}`;
      const declared = known[name];
      if (declared === undefined) {
        const near = nearest(name, Object.keys(known));
        this.complain(
          at,
          `${field} is no field of Triton's configuration${near === null ? "" : `; did you mean ${near}?`}`,
        );
        continue;
      }
      const isMany = /[*}]$/.test(declared);
      const other = ONEOFS[type]?.includes(name) ? ONEOFS[type].find((each) => each in out) : undefined;
      if (!isMany && isList) this.complain(at, `${field} must be one value; was a list`);
      else if (!isMany && (name in out || other !== undefined))
        this.complain(at, `${field} must be given once, and beside no ${other ?? name}`);
      else if (!isMany) this.put(out, name, this.value(declared, values[0]!, field));
      else if (declared.endsWith("}")) this.entries(out, name, declared, values, field);
      else {
        out[name] ??= [];
        const list = out[name] as TritonValue[];
        for (const value of values) {
          const read = this.value(declared.slice(0, -1), value, `${field}[${list.length}]`);
          if (read !== null) list.push(read);
        }
      }
    }
    return out;
  }

  private put(out: Record<string, TritonValue>, name: string, value: TritonValue | null): void {
    if (value !== null) out[name] = value;
  }

  /** Entries of a map are messages of a key and a value; the last one of a key holds. */
  private entries(
    out: Record<string, TritonValue>,
    name: string,
    type: string,
    values: readonly TextValue[],
    field: string,
  ): void {
    const [, keyType, valueType] = /^\{(\w+): (\w+)\}$/.exec(type)!;
    out[name] ??= Object.create(null) as TritonMessage;
    const map = out[name] as Record<string, TritonValue>;
    for (const value of values) {
      if (value.kind !== "message") {
        this.complain(value.at, `${field} must be a message of key and value; was ${shown(value)}`);
        continue;
      }
      const entry = new Map<string, TritonValue>();
      for (const { name: part, at, values: given, isList } of value.fields) {
        const of = part === "key" ? keyType : part === "value" ? valueType : undefined;
        if (of === undefined || isList || entry.has(part))
          this.complain(at, `${field} must have key and value, once; was ${part}`);
        else entry.set(part, this.value(of, given[0]!, `${field}.${part}`) ?? "");
      }
      const absent: TritonValue = valueType! in MESSAGES ? Object.create(null) : "";
      map[String(entry.get("key") ?? (keyType === "string" ? "" : 0))] = entry.get("value") ?? absent;
    }
  }

  private value(type: string, value: TextValue, field: string): TritonValue | null {
    if (type in MESSAGES) {
      if (value.kind === "message") return this.message(type, value.fields, `${field}.`);
      this.complain(value.at, `${field} must be a message; was ${shown(value)}`);
      return null;
    }
    const read = type in ENUMS ? enumName(ENUMS[type]!, value) : SCALARS[type]!.read(value);
    if (read !== null) return read;
    const names = ENUMS[type];
    const near = names !== undefined && value.kind === "word" ? nearest(value.text, names) : null;
    const bound = names === undefined ? SCALARS[type]!.bound : `one of ${names.join(", ")}`;
    this.complain(
      value.at,
      `${field} must be ${bound}; was ${shown(value)}${near === null ? "" : `; did you mean ${near}?`}`,
    );
    return null;
  }
}

function shown(value: TextValue): string {
  if (value.kind === "message") return "a message";
  if (value.kind === "string") return JSON.stringify(value.bytes.toString());
  return `${value.isNegative ? "-" : ""}${value.text}`;
}

/** Hexadecimal and octal as in C. */
function integer(value: TextValue, min: bigint, max: bigint): bigint | null {
  if (value.kind !== "number" || !/^(?:0[xX][0-9a-fA-F]+|\d+)$/.test(value.text)) return null;
  const magnitude = BigInt(/^0[0-7]/.test(value.text) ? `0o${value.text.slice(1)}` : value.text);
  const signed = value.isNegative ? -magnitude : magnitude;
  return signed >= min && signed <= max ? signed : null;
}

function enumName(names: readonly string[], value: TextValue): string | null {
  if (value.kind === "word") return !value.isNegative && names.includes(value.text) ? value.text : null;
  const number = integer(value, 0n, BigInt(names.length - 1));
  return number === null ? null : names[Number(number)]!;
}

interface Scalar {
  readonly bound: string;
  readonly read: (value: TextValue) => string | number | bigint | boolean | null;
}

const whole = (min: bigint, max: bigint, isWide: boolean): Scalar => ({
  bound: `a whole number in [${min}, ${max}]`,
  read: (value) => {
    const read = integer(value, min, max);
    return read === null || isWide ? read : Number(read);
  },
});

const real = (round: (value: number) => number): Scalar => ({
  bound: "a number",
  read: (value) => {
    if (value.kind !== "word" && value.kind !== "number") return null;
    const sign = value.isNegative ? -1 : 1;
    if (value.kind === "word")
      return /^inf(inity)?$/i.test(value.text)
        ? sign * Number.POSITIVE_INFINITY
        : /^nan$/i.test(value.text)
          ? Number.NaN
          : null;
    // Only decimal: protobuf takes no other for a real number.
    if (/^0[xX]|^0\d+$/.test(value.text)) return null;
    return round(sign * Number.parseFloat(value.text));
  },
});

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const SCALARS: Readonly<Record<string, Scalar>> = {
  string: {
    bound: "text in quotes (UTF-8)",
    read: (value) => {
      if (value.kind !== "string") return null;
      try {
        return UTF8.decode(value.bytes);
      } catch {
        return null;
      }
    },
  },
  bool: {
    bound: "true or false",
    read: (value) => {
      if (value.kind === "word" && !value.isNegative) {
        if (/^(?:true|True|t)$/.test(value.text)) return true;
        return /^(?:false|False|f)$/.test(value.text) ? false : null;
      }
      const number = integer(value, 0n, 1n);
      return number === null ? null : number === 1n;
    },
  },
  int32: whole(-(2n ** 31n), 2n ** 31n - 1n, false),
  uint32: whole(0n, 2n ** 32n - 1n, false),
  int64: whole(-(2n ** 63n), 2n ** 63n - 1n, true),
  uint64: whole(0n, 2n ** 64n - 1n, true),
  float: real(Math.fround),
  double: real((value) => value),
};
