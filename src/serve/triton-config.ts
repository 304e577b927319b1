/** What Rubato understands of Triton's `config.pbtxt`. Fields that it has no use for are ignored, not refused. */
import { ServingError } from "../wire/serving-error.js";
import { parseTextProto, type TextMessage, type TextValue } from "./text-proto.js";

export interface TritonTensor {
  readonly name: string;
  /** Open Inference Protocol datatype. */
  readonly datatype: string;
  /** Without the batch dimension where max_batch_size > 0. */
  readonly dims: readonly number[];
  readonly optional: boolean;
}

export interface TritonConfig {
  readonly name: string | null;
  readonly platform: string | null;
  readonly backend: string | null;
  readonly maxBatchSize: number;
  readonly defaultModelFilename: string | null;
  readonly inputs: readonly TritonTensor[];
  readonly outputs: readonly TritonTensor[];
  /** Instances over all groups, or null where none is declared. */
  readonly instanceCount: number | null;
  readonly preferredBatchSizes: readonly number[];
  readonly maxQueueDelayUs: number | null;
  readonly hasDynamicBatching: boolean;
  /** "latest", "all" or the listed versions. */
  readonly versions: "latest" | "all" | readonly number[];
  readonly parameters: Readonly<Record<string, string>>;
}

const DATATYPES: Readonly<Record<string, string>> = {
  TYPE_BOOL: "BOOL",
  TYPE_UINT8: "UINT8",
  TYPE_UINT16: "UINT16",
  TYPE_UINT32: "UINT32",
  TYPE_UINT64: "UINT64",
  TYPE_INT8: "INT8",
  TYPE_INT16: "INT16",
  TYPE_INT32: "INT32",
  TYPE_INT64: "INT64",
  TYPE_FP16: "FP16",
  TYPE_BF16: "BF16",
  TYPE_FP32: "FP32",
  TYPE_FP64: "FP64",
  TYPE_STRING: "BYTES",
};

/** @throws ServingError invalid-argument naming file and field, bound and value, or line and column. */
export function parseTritonConfig(text: string, file: string): TritonConfig {
  const root = new Fields(parseTextProto(text, file), file, "");
  const batching = root.message("dynamic_batching");
  const version = root.message("version_policy");
  const parameters: Record<string, string> = {};
  for (const entry of root.messages("parameters")) {
    const value = entry.message("value")?.text("string_value");
    const key = entry.text("key");
    if (key !== null) parameters[key] = value ?? "";
  }
  const instances = root.messages("instance_group").map((group) => group.integer("count", 1, 1, 1024));
  const specific = version?.message("specific")?.integers("versions") ?? null;
  return {
    name: root.text("name"),
    platform: root.text("platform"),
    backend: root.text("backend"),
    maxBatchSize: root.integer("max_batch_size", 0, 0, 4096),
    defaultModelFilename: root.text("default_model_filename"),
    inputs: root.messages("input").map(readTensor),
    outputs: root.messages("output").map(readTensor),
    instanceCount: instances.length === 0 ? null : instances.reduce((a, b) => a + b, 0),
    preferredBatchSizes: batching?.integers("preferred_batch_size") ?? [],
    maxQueueDelayUs: batching?.has("max_queue_delay_microseconds")
      ? batching.integer("max_queue_delay_microseconds", 0, 0, Number.MAX_SAFE_INTEGER)
      : null,
    hasDynamicBatching: batching !== null,
    versions: specific ?? (version?.has("all") ? "all" : "latest"),
    parameters,
  };
}

function readTensor(fields: Fields): TritonTensor {
  const name = fields.text("name");
  if (name === null || name === "") fields.fail("name", "given", "nothing");
  const type = fields.text("data_type") ?? "nothing";
  const datatype = DATATYPES[type];
  if (datatype === undefined) fields.fail("data_type", `one of ${Object.keys(DATATYPES).join(", ")}`, type);
  const dims = fields.integers("dims");
  const wrong = dims.find((dim) => dim < -1 || dim === 0);
  if (wrong !== undefined) fields.fail("dims", "-1 or at least 1", wrong);
  // The model sees the reshaped tensor; clients see dims. A reshape that changes the rank cannot be batched blindly.
  const reshape = fields.message("reshape")?.integers("shape") ?? null;
  if (reshape !== null && reshape.join() !== dims.join())
    fields.fail("reshape", "absent or equal to dims (reshaping is not supported)", `[${reshape}]`);
  return { name, datatype, dims, optional: fields.flag("optional") };
}

class Fields {
  constructor(
    private readonly message_: TextMessage,
    private readonly file: string,
    private readonly path: string,
  ) {}

  has(name: string): boolean {
    return this.message_.has(name);
  }

  private last(name: string): TextValue | undefined {
    return this.message_.get(name)?.at(-1);
  }

  text(name: string): string | null {
    const value = this.last(name);
    if (value === undefined) return null;
    return typeof value === "string" ? value : this.fail(name, "text", show(value));
  }

  flag(name: string): boolean {
    const value = this.last(name) ?? false;
    return typeof value === "boolean" ? value : this.fail(name, "true or false", show(value));
  }

  integer(name: string, absent: number, min: number, max: number): number {
    const value = this.last(name) ?? absent;
    if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max)
      this.fail(name, `an integer in [${min}, ${max}]`, show(value));
    return value;
  }

  integers(name: string): number[] {
    return (this.message_.get(name) ?? []).map((value) =>
      typeof value === "number" && Number.isInteger(value) ? value : this.fail(name, "integers", show(value)),
    );
  }

  message(name: string): Fields | null {
    return this.messages(name).at(-1) ?? null;
  }

  messages(name: string): Fields[] {
    return (this.message_.get(name) ?? []).map((value, i) =>
      value instanceof Map
        ? new Fields(value as TextMessage, this.file, `${this.path}${name}[${i}].`)
        : this.fail(name, "a message", show(value)),
    );
  }

  fail(field: string, bound: string, value: unknown): never {
    throw new ServingError(
      "invalid-argument",
      `${this.file}: ${this.path}${field} must be ${bound}; was ${String(value)}`,
    );
  }
}

const show = (value: TextValue): string => (typeof value === "object" ? "a message" : JSON.stringify(value));
