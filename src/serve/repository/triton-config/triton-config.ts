/** What Rubato takes from Triton's `config.pbtxt`; what becomes of each field is in config/server/triton-fields.ts. */
import { tritonField } from "../../../config/server/triton-fields.js";
import { ServingError } from "../../../wire/serving-error.js";
import { readTritonText, type TritonMessage, type TritonValue } from "./triton-schema.js";

export interface TritonTensor {
  readonly name: string;
  /** Open Inference Protocol datatype; null: the model file's. */
  readonly datatype: string | null;
  /** What clients see, without the batch dimension where max_batch_size > 0; null: as in the model file. */
  readonly dims: readonly number[] | null;
  /** What the model has instead of dims; null: dims. */
  readonly reshape: readonly number[] | null;
  readonly optional: boolean;
}

export type VersionPolicy =
  | { readonly kind: "latest"; readonly count: number }
  | { readonly kind: "all" }
  | { readonly kind: "specific"; readonly versions: readonly string[] };

export interface QueuePolicy {
  /** Deadline of a request without a timeout, µs; null: none is said. */
  readonly timeoutUs: number | null;
  /** Whether a request's timeout may shorten it. */
  readonly allowsOverride: boolean;
  /** null: no bound is said. */
  readonly requestsMax: number | null;
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
  readonly queue: QueuePolicy | null;
  readonly versions: VersionPolicy;
  readonly parameters: Readonly<Record<string, string>>;
  /** What it asks for and does not get, a sentence each. */
  readonly warnings: readonly string[];
}

/** Rows of one batch. */
const BATCH_MAX = 4096;
/** A day, µs: as the longest timeout of rubato.yaml. */
const TIMEOUT_US_MAX = 86_400e6;

/** @throws ServingError invalid-argument with every problem, a line each: file, place, field, bound and value. */
export function parseTritonConfig(text: string, file: string): TritonConfig {
  const problems: string[] = [];
  const root = readTritonText(text, file, problems);
  const warnings: string[] = [];
  judge(root, file, problems, warnings);
  const config = new ConfigReader(file, problems, warnings).read(root);
  if (problems.length > 0) throw new ServingError("invalid-argument", problems.join("\n"));
  return config;
}

/** Each field that says something, held against the table. One word per field, however often it is given. */
function judge(root: TritonMessage, file: string, problems: string[], warnings: string[]): void {
  const told = new Set<string>();
  const visit = (value: TritonValue, path: string): void => {
    const field = tritonField(path);
    const isOwn = field !== null && field.path === path;
    if (isOwn && field.kind !== "obeyed" && !isDefault(value)) {
      if (told.has(path)) return;
      told.add(path);
      const text = `${file}: ${path}: is not offered: ${field.what}`;
      (field.kind === "refused" ? problems : warnings).push(text);
      return;
    }
    if (Array.isArray(value)) for (const each of value) visit(each, path);
    else if (typeof value === "object")
      for (const [name, each] of Object.entries(value)) visit(each, path === "" ? name : `${path}.${name}`);
  };
  visit(root, "");
}

/** What protobuf does not tell from absent, and messages that set nothing more. A scheduler that is chosen is a choice. */
function isDefault(value: TritonValue): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return (
    value === "" || value === 0 || value === 0n || value === false || value === "REJECT" || value === "FORMAT_NONE"
  );
}

class ConfigReader {
  constructor(
    private readonly file: string,
    private readonly problems: string[],
    private readonly warnings: string[],
  ) {}

  read(root: TritonMessage): TritonConfig {
    const batching = messageOf(root.dynamic_batching);
    const instances = messagesOf(root.instance_group).map((group, i) =>
      this.within(`instance_group[${i}].count`, numberOf(group.count) ?? 0, 0, 1024),
    );
    const parameters: Record<string, string> = {};
    // A plain assignment of "__proto__" would set the prototype.
    for (const [key, value] of Object.entries(messageOf(root.parameters) ?? {}))
      Object.defineProperty(parameters, key, {
        value: textOf(messageOf(value)?.string_value) ?? "",
        enumerable: true,
      });
    return {
      name: textOf(root.name),
      platform: textOf(root.platform),
      backend: textOf(root.backend),
      maxBatchSize: this.batchMax(numberOf(root.max_batch_size) ?? 0),
      defaultModelFilename: textOf(root.default_model_filename),
      inputs: messagesOf(root.input).map((tensor, i) => this.tensor(tensor, `input[${i}]`)),
      outputs: messagesOf(root.output).map((tensor, i) => this.tensor(tensor, `output[${i}]`)),
      // No count is one.
      instanceCount: instances.length === 0 ? null : instances.reduce((sum, count) => sum + Math.max(1, count), 0),
      preferredBatchSizes: numbersOf(batching?.preferred_batch_size),
      maxQueueDelayUs: numberOf(batching?.max_queue_delay_microseconds),
      queue: this.queue(messageOf(batching?.default_queue_policy)),
      versions: this.versions(messageOf(root.version_policy)),
      parameters,
      warnings: this.warnings,
    };
  }

  private batchMax(value: number): number {
    if (value > BATCH_MAX)
      this.warnings.push(`${this.file}: max_batch_size: batches have at most ${BATCH_MAX} rows; was ${value}`);
    return Math.min(BATCH_MAX, this.within("max_batch_size", value, 0, 2 ** 31 - 1));
  }

  private queue(policy: TritonMessage | null): QueuePolicy | null {
    if (policy === null) return null;
    const field = "dynamic_batching.default_queue_policy.default_timeout_microseconds";
    const timeoutUs = this.within(field, numberOf(policy.default_timeout_microseconds) ?? 0, 0, TIMEOUT_US_MAX);
    const requestsMax = numberOf(policy.max_queue_size) ?? 0;
    return {
      timeoutUs: timeoutUs === 0 ? null : timeoutUs,
      allowsOverride: policy.allow_timeout_override === true,
      requestsMax: requestsMax === 0 ? null : Math.min(requestsMax, 10_000_000),
    };
  }

  private versions(policy: TritonMessage | null): VersionPolicy {
    if (policy?.all !== undefined) return { kind: "all" };
    const specific = messageOf(policy?.specific);
    if (specific !== null) {
      const versions = ((specific.versions ?? []) as readonly bigint[]).map(String);
      if (versions.length === 0) this.fail("version_policy.specific.versions", "at least one version", "none");
      return { kind: "specific", versions };
    }
    const count = numberOf(messageOf(policy?.latest)?.num_versions) ?? 0;
    return { kind: "latest", count: Math.max(1, count) };
  }

  private tensor(tensor: TritonMessage, field: string): TritonTensor {
    const name = textOf(tensor.name);
    if (name === null) this.fail(`${field}.name`, "given", "nothing");
    const type = textOf(tensor.data_type) ?? "TYPE_INVALID";
    const dims = this.extents(`${field}.dims`, tensor.dims);
    const shape = messageOf(tensor.reshape);
    const reshape = shape === null ? null : this.extents(`${field}.reshape.shape`, shape.shape);
    if (reshape !== null && dims.length === 0) this.fail(`${field}.dims`, "given with reshape", "nothing");
    else if (reshape !== null && !isReshapeOf(dims, reshape))
      this.fail(`${field}.reshape.shape`, `as many elements as dims [${dims}], also between -1s`, `[${reshape}]`);
    return {
      name: name ?? "",
      datatype: type === "TYPE_INVALID" ? null : type === "TYPE_STRING" ? "BYTES" : type.slice("TYPE_".length),
      dims: dims.length === 0 ? null : dims,
      reshape,
      optional: tensor.optional === true,
    };
  }

  private extents(field: string, given: TritonValue | undefined): readonly number[] {
    const extents = (given ?? []) as readonly bigint[];
    const wrong = extents.find((extent) => extent < -1n || extent === 0n || extent > Number.MAX_SAFE_INTEGER);
    if (wrong !== undefined) this.fail(field, `-1 or in [1, ${Number.MAX_SAFE_INTEGER}]`, wrong);
    return extents.map(Number);
  }

  private within(field: string, value: number, min: number, max: number): number {
    if (value < min || value > max) this.fail(field, `in [${min}, ${max}]`, value);
    return value;
  }

  private fail(field: string, bound: string, value: unknown): void {
    this.problems.push(`${this.file}: ${field} must be ${bound}; was ${String(value)}`);
  }
}

/** Axes of open extent keep their order, and what stands between them its number of elements: as Triton asks for. */
function isReshapeOf(dims: readonly number[], shape: readonly number[]): boolean {
  const between = (extents: readonly number[]): string => {
    const counts = [1];
    for (const extent of extents) {
      if (extent === -1) counts.push(1);
      else counts[counts.length - 1]! *= extent;
    }
    return counts.join();
  };
  return between(dims) === between(shape);
}

const messageOf = (value: TritonValue | undefined): TritonMessage | null => (value as TritonMessage) ?? null;
const messagesOf = (value: TritonValue | undefined): readonly TritonMessage[] =>
  (value as readonly TritonMessage[]) ?? [];
const numberOf = (value: TritonValue | undefined): number | null => (value === undefined ? null : Number(value));
const numbersOf = (value: TritonValue | undefined): readonly number[] =>
  ((value as readonly TritonValue[]) ?? []).map(Number);
/** Empty is absent, as protobuf has it. */
const textOf = (value: TritonValue | undefined): string | null =>
  value === undefined || value === "" ? null : String(value);
