/**
 * A model repository on disk, in Triton's layout (`NAME/VERSION/model.onnx`, optional `NAME/config.pbtxt`), with
 * `NAME/rubato.yaml` for what only the owner knows. Reading it executes nothing. A folder that holds models instead of
 * being one gives its name to them: `emulated/resnet50`.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { type AcceleratorGroupSpec, type EmulatedSpec, GROUP_AUTO, type ModelSpec } from "../config/model.js";
import {
  MODEL_FILE_BYTES_MAX,
  type ModelFile,
  ModelFileError,
  parseModelFile,
  policyOf,
} from "../config/model-file.js";
import { durationUs, sloUsFromMs } from "../core/time.js";
import { ServingError } from "../wire/serving-error.js";
import { resolveModelFile } from "./model-path.js";
import { mergeTensors, type TensorSources } from "./model-tensors.js";
import { type OnnxValue, readOnnxHeader } from "./onnx-header.js";
import { parseTritonConfig, type TritonConfig } from "./triton-config.js";

export interface RepositoryOptions {
  /** Default 10,000. */
  readonly modelsMax?: number;
  /** Largest model file, bytes. Default 16 GiB. */
  readonly modelBytesMax?: number;
  /** Models on this kind of accelerator that name no group leave it to placement (group: auto). Default: none do. */
  readonly autoKind?: AcceleratorGroupSpec["kind"];
}

export interface RepositoryError {
  readonly name: string;
  /** "" where it is not known. */
  readonly version: string;
  /** Every problem of the model, a line each; names file, field, bound and value. */
  readonly message: string;
}

export interface Repository {
  readonly models: readonly ModelSpec[];
  readonly errors: readonly RepositoryError[];
}

const MODELS_MAX = 10_000;
const MODEL_BYTES_MAX = 16 * 1024 ** 3;
const BATCH_MAX_DEFAULT = 32;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/;
const CONFIG_NAMES = ["rubato.yaml", "config.pbtxt"] as const;

/**
 * All models of a repository; one that is wrong does not keep the others from being served.
 *
 * @throws ServingError invalid-argument when the folder cannot be read or holds more than `modelsMax` models.
 */
export function readRepository(folder: string, options: RepositoryOptions = {}): Repository {
  const names = modelNames(folder, options.modelsMax);
  const models: ModelSpec[] = [];
  const errors: RepositoryError[] = [];
  for (const name of names) {
    try {
      models.push(readModel(folder, name, options));
    } catch (error) {
      errors.push({ name, version: "", message: (error as Error).message });
    }
  }
  return { models, errors };
}

/**
 * Names of all folders that are, or fail to be, models.
 *
 * @throws ServingError invalid-argument when the folder cannot be read or holds more than `limit` models.
 */
export function modelNames(folder: string, limit = MODELS_MAX): string[] {
  const names = subfolders(folder).flatMap((name) => namesIn(folder, name));
  if (names.length > limit)
    throw new ServingError("invalid-argument", `${folder}: must hold at most ${limit} models; was ${names.length}`);
  return names.sort();
}

/** Whether a model of this name is there; looks at its own folder alone. */
export function hasModel(folder: string, name: string): boolean {
  const [first = ""] = name.split("/");
  return NAME.test(first) && isFolder(path.join(folder, first)) && namesIn(folder, first).includes(name);
}

/** A subfolder is a model, or holds some. */
function namesIn(folder: string, name: string): string[] {
  const inner = subfolders(path.join(folder, name)).filter((child) => looksLikeModel(path.join(folder, name, child)));
  if (looksLikeModel(path.join(folder, name)) || inner.length === 0) return [name];
  return inner.map((child) => `${name}/${child}`);
}

/** Whether a folder has what makes it a model: a configuration, or a version. */
export const looksLikeModel = (folder: string): boolean =>
  CONFIG_NAMES.some((file) => existsSync(path.join(folder, file))) || versionFolders(folder).length > 0;

function subfolders(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => !name.startsWith(".") && isFolder(path.join(folder, name)));
  } catch (cause) {
    throw new ServingError("invalid-argument", `${folder}: cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/** A link to nowhere, or what was removed since it was listed, is none. */
function isFolder(file: string): boolean {
  try {
    return statSync(file).isDirectory();
  } catch {
    return false;
  }
}

const versionFolders = (folder: string): number[] =>
  subfolders(folder)
    .filter((name) => /^[1-9]\d{0,8}$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);

/**
 * One model.
 *
 * @throws ServingError not-found when there is no such folder; invalid-argument listing every problem, a line each.
 */
export function readModel(repository: string, name: string, options: RepositoryOptions = {}): ModelSpec {
  const parts = name.split("/");
  if (parts.length > 2 || parts.some((part) => !NAME.test(part)))
    throw new ServingError(
      "invalid-argument",
      `model name must be words of letters, digits, '._+-', at most one '/'; was ${name}`,
    );
  const folder = path.resolve(repository, ...parts);
  if (!existsSync(folder) || !statSync(folder).isDirectory())
    throw new ServingError("not-found", `model '${name}' is not in the repository`);
  const fileName = `${name}/rubato.yaml`;
  const tritonName = `${name}/config.pbtxt`;
  try {
    const file = parseModelFile(readSmall(path.join(folder, "rubato.yaml"), fileName) ?? "", fileName);
    const configText = readSmall(path.join(folder, "config.pbtxt"), tritonName);
    const triton = configText === null ? null : parseTritonConfig(configText, tritonName);
    return new SpecReader(repository, folder, name, { file, fileName, triton, tritonName }, options).read();
  } catch (error) {
    if (error instanceof ModelFileError) throw new ServingError("invalid-argument", error.message, { cause: error });
    throw error;
  }
}

function readSmall(file: string, shown: string): string | null {
  if (!existsSync(file)) return null;
  const { size } = statSync(file);
  if (size > MODEL_FILE_BYTES_MAX)
    throw new ServingError("invalid-argument", `${shown}: must be at most ${MODEL_FILE_BYTES_MAX} bytes; was ${size}`);
  return readFileSync(file, "utf8");
}

interface Declared {
  readonly file: ModelFile;
  readonly fileName: string;
  readonly triton: TritonConfig | null;
  readonly tritonName: string;
}

class SpecReader {
  constructor(
    private readonly repository: string,
    private readonly folder: string,
    private readonly name: string,
    private readonly declared: Declared,
    private readonly options: RepositoryOptions,
  ) {}

  read(): ModelSpec {
    const { file, fileName, triton } = this.declared;
    const isEmulated = file.emulated !== undefined || file.platform === "rubato_emulated";
    const versions = this.versions();
    const version = versions.at(-1)!;
    const onnxFile = isEmulated ? null : this.modelFile(version);
    const sources = this.sources(onnxFile);
    const problems: string[] = [];
    const { inputs, outputs, batches } = mergeTensors(sources, problems);
    if (problems.length > 0) throw new ModelFileError(problems);
    const fixed = file.batch_fixed ?? null;
    const wanted = file.batch_max ?? (triton !== null && triton.maxBatchSize > 0 ? triton.maxBatchSize : undefined);
    if (fixed !== null && wanted !== undefined && wanted > fixed)
      throw new ModelFileError([`${fileName}: batch_max: must be at most batch_fixed ${fixed}; was ${wanted}`]);
    return {
      name: this.name,
      version: String(version),
      versions: versions.map(String),
      platform: isEmulated ? "rubato_emulated" : "onnx_onnxv1",
      file: onnxFile,
      folder: this.folder,
      inputs,
      outputs,
      batchSizeMax: batches ? (wanted ?? fixed ?? BATCH_MAX_DEFAULT) : 0,
      batchSizeFixed: fixed,
      sloUs: file.slo_ms === undefined ? null : sloUsFromMs(file.slo_ms),
      defaultTimeoutUs: durationUs(sloUsFromMs(file.default_timeout_ms)),
      timeoutMaxUs: durationUs(sloUsFromMs(file.timeout_max_ms)),
      policy: policyOf(file),
      policyOptions: file.policy_options,
      group: file.group ?? this.groupDefault(isEmulated),
      memoryMb: file.memory_mb ?? (onnxFile === null ? 0 : bytesOnDisk(onnxFile) / 1e6),
      dynamicMemoryMb: file.dynamic_memory_mb,
      queueRequestsMax: file.queue.requests_max,
      queueBytesMax: file.queue.bytes_max,
      emulated: isEmulated ? emulatedSpec(file) : null,
      apps: file.apps,
      parameters: tritonParameters(triton),
    };
  }

  private groupDefault(isEmulated: boolean): string {
    if (this.options.autoKind === (isEmulated ? "emulated" : "onnx")) return GROUP_AUTO;
    return isEmulated ? "emulated" : "cpu";
  }

  /** Increasing; a model whose file lies elsewhere needs no version folder and is version 1. */
  private versions(): number[] {
    const { file, triton } = this.declared;
    const all = versionFolders(this.folder);
    const listed = triton?.versions;
    const allowed = Array.isArray(listed) ? all.filter((version) => listed.includes(version)) : all;
    if (allowed.length > 0) return allowed;
    if (all.length > 0)
      throw new ModelFileError([
        `${this.declared.tritonName}: version_policy: must list one of the folders ${all.join(", ")}; was ${listed}`,
      ]);
    if (file.model_file !== undefined || file.emulated !== undefined) return [1];
    throw new ModelFileError([
      `${this.name}: must hold a version folder such as ${this.name}/1 (or rubato.yaml with model_file); was none`,
    ]);
  }

  private modelFile(version: number): string {
    const { file, fileName, triton, tritonName } = this.declared;
    const runtime = triton?.platform ?? triton?.backend ?? "";
    if (runtime !== "" && !/^onnx/.test(runtime))
      throw new ModelFileError([
        `${tritonName}: platform must be onnxruntime_onnx (backend: onnxruntime); was ${runtime}`,
      ]);
    const reference = file.model_file;
    const found =
      reference === undefined
        ? path.join(this.folder, String(version), triton?.defaultModelFilename ?? "model.onnx")
        : resolveModelFile(reference, this.folder, this.repository, `${fileName}: model_file`);
    if (!existsSync(found) || !statSync(found).isFile())
      throw new ModelFileError([
        `${this.name}/${version}: must hold model.onnx; looked for ${path.relative(this.repository, found)}`,
      ]);
    const limit = this.options.modelBytesMax ?? MODEL_BYTES_MAX;
    const { size } = statSync(found);
    if (size > limit) throw new ModelFileError([`${found}: must be at most ${limit} bytes; was ${size}`]);
    return found;
  }

  private sources(onnxFile: string | null): TensorSources {
    if (onnxFile === null) return { ...this.declared, ...emulatedTensors(this.declared.file) };
    const { inputs, outputs } = readOnnxHeader(onnxFile);
    return { ...this.declared, inputs, outputs };
  }
}

/** With the weights that exporters put beside a large model. */
function bytesOnDisk(file: string): number {
  let bytes = 0;
  for (const part of [file, `${file}.data`, `${file}_data`])
    bytes += statSync(part, { throwIfNoEntry: false })?.size ?? 0;
  return bytes;
}

function emulatedSpec(file: ModelFile): EmulatedSpec {
  const { alpha_ms = 0, beta_ms = 0, table_ms } = file.emulated!;
  return { alphaMs: alpha_ms, betaMs: beta_ms, tableMs: table_ms ?? null };
}

/** An emulated model has the tensors that its file declares, or one of each: INPUT and OUTPUT, FP32 [-1, 1]. */
function emulatedTensors(file: ModelFile): Pick<TensorSources, "inputs" | "outputs"> {
  const values = (entries: ModelFile["inputs"] | ModelFile["outputs"], fallback: string): OnnxValue[] => {
    const names = Object.keys(entries);
    return (names.length === 0 ? [fallback] : names).map((name) => {
      const entry = entries[name];
      const shape = entry?.shape ?? [-1, 1];
      const dims = shape.map((extent, axis) => (extent >= 0 ? extent : axis === 0 ? "batch" : ""));
      return { name, datatype: entry?.datatype ?? "FP32", dims };
    });
  };
  return { inputs: values(file.inputs, "INPUT"), outputs: values(file.outputs, "OUTPUT") };
}

/** Kept for display: Rubato's own rules decide when a batch leaves. */
function tritonParameters(triton: TritonConfig | null): Record<string, string> {
  if (triton === null) return {};
  const out: Record<string, string> = { ...triton.parameters };
  if (triton.maxQueueDelayUs !== null)
    out["dynamic_batching.max_queue_delay_microseconds"] = String(triton.maxQueueDelayUs);
  if (triton.preferredBatchSizes.length > 0)
    out["dynamic_batching.preferred_batch_size"] = triton.preferredBatchSizes.join(",");
  if (triton.instanceCount !== null) out["instance_group.count"] = String(triton.instanceCount);
  return out;
}
