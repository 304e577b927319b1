/** One model of the repository: its files read and held against each other, and what follows from them. */

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { paddedBuckets } from "../../config/buckets.js";
import { type AcceleratorGroupSpec, type EmulatedSpec, GROUP_AUTO, type ModelSpec } from "../../config/model.js";
import {
  DEFAULT_TIMEOUT_MS,
  MODEL_FILE_BYTES_MAX,
  type ModelFile,
  ModelFileError,
  parseModelFile,
  policyOf,
  QUEUE_REQUESTS_MAX,
} from "../../config/server/model-file.js";
import { durationUs, sloUsFromMs } from "../../core/time.js";
import { ServingError } from "../../wire/serving-error.js";
import { elasticGraph } from "./elastic-graph.js";
import { insideOf, isFolder, resolveModelFile } from "./model-location.js";
import { mergeTensors, type TensorSources } from "./model-tensors.js";
import { servedVersions, versionFolders } from "./model-versions.js";
import { type OnnxHeader, type OnnxValue, readOnnxHeader } from "./onnx-header.js";
import { headerWithTail } from "./onnx-tail.js";
import { parseTritonConfig, type TritonConfig } from "./triton-config/triton-config.js";

export interface ReaderOptions {
  /** Largest model file, bytes. Default 16 GiB. */
  readonly modelBytesMax?: number;
  /** Models on this kind of accelerator that name no group leave it to placement (group: auto). Default: none do. */
  readonly autoKind?: AcceleratorGroupSpec["kind"];
}

const MODEL_BYTES_MAX = 16 * 1024 ** 3;
const BATCH_MAX_DEFAULT = 32;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/;
export const CONFIG_NAMES = ["rubato.yaml", "config.pbtxt"] as const;
/** Nearly these names: read by nobody, and meant to be. */
const MISNAMED: readonly (readonly [RegExp, string])[] = [
  [/^rubato\.(ya?ml|json)$/i, "rubato.yaml"],
  [/^pipelines?\.ya?ml$/i, "pipeline.yaml"],
  [/^config\.(pbtxt?|pbtext|textproto)(\.txt)?$/i, "config.pbtxt"],
];

/** What a file of nearly the right name must be called; null: it is called so, or meant to be something else. */
export function rightName(entry: string): string | null {
  const [, right] = MISNAMED.find(([pattern]) => pattern.test(entry)) ?? [];
  return right === undefined || right === entry ? null : right;
}

/** The newest of the versions served. @see readVersions */
export function readModel(repository: string, name: string, options: ReaderOptions = {}): ModelSpec {
  return readVersions(repository, name, options).at(-1)!;
}

/**
 * Every version that is served, the newest last; at least one.
 *
 * @throws ServingError not-found when there is no such folder; invalid-argument listing every problem, a line each.
 */
export function readVersions(repository: string, name: string, options: ReaderOptions = {}): readonly ModelSpec[] {
  const parts = name.split("/");
  if (parts.length > 2 || parts.some((part) => !NAME.test(part)))
    throw new ServingError(
      "invalid-argument",
      `model name must be words of letters, digits, '._+-', at most one '/'; was ${name}`,
    );
  const folder = path.resolve(repository, ...parts);
  if (!isFolder(folder)) throw new ServingError("not-found", `model '${name}' is not in the repository`);
  try {
    const declared = readDeclared(repository, folder, name);
    const { versions, ignored } = chooseVersions(folder, name, declared);
    const warnings = [
      ...(declared.triton?.warnings ?? []),
      ...ignored.map((each) => `${name}/${each}: is no version: they are ${VERSION_WORDS}`),
    ];
    const shared = { repository, folder, name, versions, warnings, ...declared };
    return versions.map((version) => new SpecReader(shared, version, options).read());
  } catch (error) {
    if (error instanceof ModelFileError) throw new ServingError("invalid-argument", error.message, { cause: error });
    throw error;
  }
}

interface Declared {
  readonly file: ModelFile;
  readonly fileName: string;
  readonly triton: TritonConfig | null;
  readonly tritonName: string;
}

/** Both configurations, with the problems of both. @throws ModelFileError */
function readDeclared(repository: string, folder: string, name: string): Declared {
  const problems: string[] = [];
  for (const entry of readdirSync(folder)) {
    const right = rightName(entry);
    if (right !== null) problems.push(`${name}/${entry}: must be named ${right}; it is not read`);
  }
  const read = <T>(entry: string, parse: (text: string | null, shown: string) => T): T | null => {
    const shown = `${name}/${entry}`;
    try {
      return parse(readSmall(repository, path.join(folder, entry), shown), shown);
    } catch (error) {
      if (!(error instanceof ModelFileError || error instanceof ServingError)) throw error;
      problems.push(error.message);
      return null;
    }
  };
  const file = read("rubato.yaml", (text, shown) => parseModelFile(text ?? "", shown));
  const triton = read("config.pbtxt", (text, shown) => (text === null ? null : parseTritonConfig(text, shown)));
  const tritonName = `${name}/config.pbtxt`;
  const called = triton?.name ?? name;
  if (called !== name && called !== name.split("/").at(-1))
    problems.push(`${tritonName}: name must be that of its folder, ${name}; was ${called}`);
  if (file === null || problems.length > 0) throw new ModelFileError(problems);
  return { file, fileName: `${name}/rubato.yaml`, triton, tritonName };
}

/** @returns null: there is no such file. @throws ServingError: it is too large, or lies elsewhere. */
export function readSmall(repository: string, file: string, shown: string): string | null {
  if (!existsSync(file)) return null;
  insideOf(repository, file, shown, shown);
  const { size } = statSync(file);
  if (size > MODEL_FILE_BYTES_MAX)
    throw new ServingError("invalid-argument", `${shown}: must be at most ${MODEL_FILE_BYTES_MAX} bytes; was ${size}`);
  return readFileSync(file, "utf8");
}

const VERSION_WORDS = "1 to 2^63 - 1, without zeros before";

/** A model whose file lies elsewhere needs no version folder and is version 1. */
function chooseVersions(
  folder: string,
  name: string,
  { file, triton, tritonName }: Declared,
): { versions: readonly string[]; ignored: readonly string[] } {
  const { versions, ignored } = versionFolders(folder);
  const policy = triton?.versions ?? { kind: "latest", count: 1 };
  if (versions.length > 0) return { versions: servedVersions(versions, policy, tritonName), ignored };
  if (file.model_file !== undefined || file.emulated !== undefined) return { versions: ["1"], ignored };
  const found = readdirSync(folder).find((entry) => entry.endsWith(".onnx"));
  const instead = found === undefined ? "none" : `none, but ${name}/${found}: move it to ${name}/1/model.onnx`;
  throw new ModelFileError([
    `${name}: must hold a version folder such as ${name}/1 (or rubato.yaml with model_file); was ${ignored.length > 0 ? `${ignored.join(", ")}, and versions are ${VERSION_WORDS}` : instead}`,
  ]);
}

interface Shared extends Declared {
  readonly repository: string;
  readonly folder: string;
  readonly name: string;
  readonly versions: readonly string[];
  readonly warnings: readonly string[];
}

class SpecReader {
  constructor(
    private readonly model: Shared,
    private readonly version: string,
    private readonly options: ReaderOptions,
  ) {}

  read(): ModelSpec {
    const { file, fileName, triton, name, versions, folder, warnings } = this.model;
    const isEmulated = file.emulated !== undefined || file.platform === "rubato_emulated";
    const onnxFile = isEmulated ? null : this.modelFile();
    const own = onnxFile === null ? null : readOnnxHeader(onnxFile);
    const weights = own === null ? [] : this.weightFiles(onnxFile!, own.weightFiles);
    const problems: string[] = [];
    const tailFile = file.tail_file === undefined || own === null ? null : this.tailFile(file.tail_file);
    const header =
      tailFile === null ? own : headerWithTail(own!, readOnnxHeader(tailFile), `${fileName}: tail_file`, problems);
    if (file.tail_file !== undefined && own === null)
      problems.push(`${fileName}: tail_file: must be absent where the model is emulated; was ${file.tail_file}`);
    const elastic =
      header === null || file.elastic === undefined
        ? null
        : elasticGraph(file.elastic, header, `${fileName}: elastic`, problems);
    if (elastic !== null && versions.length > 1)
      problems.push(
        `${fileName}: elastic: one version must be served, as tasks are made for it; were ${versions.join(", ")}`,
      );
    const given = elastic === null ? header : { ...header!, inputs: elastic.inputs };
    const sources: TensorSources = {
      ...this.model,
      ...(given === null ? emulatedTensors(file) : this.tensors(given)),
    };
    const { inputs, outputs, batches, unbatched } = mergeTensors(sources, problems);
    if (file.sizes === "together" && paddedBuckets({ inputs }) === null)
      problems.push(
        `${fileName}: sizes: together needs one input with mode pad, masks aside; has ${inputs.filter(({ variable }) => variable?.mode === "pad").length}`,
      );
    if (problems.length > 0) throw new ModelFileError(problems);
    const fixed = file.batch_fixed ?? null;
    const wanted = file.batch_max ?? (triton !== null && triton.maxBatchSize > 0 ? triton.maxBatchSize : undefined);
    if (fixed !== null && wanted !== undefined && wanted > fixed)
      throw new ModelFileError([`${fileName}: batch_max: must be at most batch_fixed ${fixed}; was ${wanted}`]);
    return {
      name,
      version: this.version,
      versions,
      platform: isEmulated ? "rubato_emulated" : "onnx_onnxv1",
      file: onnxFile,
      ...(tailFile === null ? {} : { tailFile }),
      folder,
      inputs,
      outputs,
      batchSizeMax: batches ? (wanted ?? fixed ?? BATCH_MAX_DEFAULT) : 0,
      batchSizeFixed: fixed,
      ...(unbatched === null ? {} : { unbatched }),
      sloUs: file.slo_ms === undefined ? null : sloUsFromMs(file.slo_ms),
      ...timeouts(file, triton),
      policy: policyOf(file),
      namesPolicy: file.policy !== undefined || Object.keys(file.policy_options).length > 0,
      policyOptions: file.policy_options,
      group: file.group ?? this.groupDefault(isEmulated),
      memoryMb: file.memory_mb ?? bytesOnDisk([onnxFile, tailFile, ...weights].flatMap((each) => each ?? [])) / 1e6,
      dynamicMemoryMb: file.dynamic_memory_mb,
      queueRequestsMax: file.queue.requests_max ?? triton?.queue?.requestsMax ?? QUEUE_REQUESTS_MAX,
      queueBytesMax: file.queue.bytes_max,
      emulated: isEmulated ? emulatedSpec(file) : null,
      apps: file.apps,
      ...(elastic === null ? {} : { elastic: elastic.spec }),
      ...(file.sizes === undefined ? {} : { sizes: file.sizes }),
      parameters: tritonParameters(triton),
      ...(warnings.length === 0 ? {} : { warnings }),
    };
  }

  /** Inputs with an initializer may be given; weights only where the owner names them. */
  private tensors({ inputs, outputs, overridable }: OnnxHeader): Pick<TensorSources, "inputs" | "outputs"> {
    const { file, triton } = this.model;
    const isNamed = (name: string): boolean =>
      Object.hasOwn(file.inputs, name) || (triton?.inputs.some((tensor) => tensor.name === name) ?? false);
    const offered = overridable.filter(({ value, isWeight }) => !isWeight || isNamed(value.name));
    return { inputs: [...inputs, ...offered.map(({ value }) => value)], outputs };
  }

  private groupDefault(isEmulated: boolean): string {
    if (this.options.autoKind === (isEmulated ? "emulated" : "onnx")) return GROUP_AUTO;
    return isEmulated ? "emulated" : "cpu";
  }

  private modelFile(): string {
    const { file, fileName, triton, tritonName, folder, name, repository } = this.model;
    const runtime = triton?.platform ?? triton?.backend ?? "";
    if (runtime !== "" && !/^onnx/.test(runtime))
      throw new ModelFileError([
        `${tritonName}: platform must be onnxruntime_onnx (backend: onnxruntime); was ${runtime}`,
      ]);
    const reference = file.model_file;
    const found =
      reference === undefined
        ? this.versionFile(triton?.defaultModelFilename ?? "model.onnx")
        : resolveModelFile(reference, folder, repository, `${fileName}: model_file`);
    if (!existsSync(found) || !statSync(found).isFile())
      throw new ModelFileError([
        `${name}/${this.version}: must hold model.onnx; looked for ${path.relative(repository, found)}`,
      ]);
    return this.bounded(found);
  }

  private tailFile(reference: string): string {
    const { folder, repository, fileName } = this.model;
    return this.bounded(resolveModelFile(reference, folder, repository, `${fileName}: tail_file`));
  }

  private bounded(file: string): string {
    const limit = this.options.modelBytesMax ?? MODEL_BYTES_MAX;
    const { size } = statSync(file);
    if (size > limit) throw new ModelFileError([`${file}: must be at most ${limit} bytes; was ${size}`]);
    return file;
  }

  private versionFile(file: string): string {
    const { folder, tritonName, repository } = this.model;
    const version = path.join(folder, this.version);
    const field = `${tritonName}: default_model_filename`;
    const found = path.resolve(version, file);
    if (!found.startsWith(version + path.sep))
      throw new ModelFileError([`${field}: must stay inside the version's folder; was ${file}`]);
    return insideOf(repository, found, file, field);
  }

  /** @throws ModelFileError: one is not there; ServingError: one lies elsewhere. */
  private weightFiles(model: string, locations: readonly string[]): readonly string[] {
    const { repository, name, file } = this.model;
    // A package is a place of its own; its weights lie beside its model.
    const root = file.model_file?.startsWith("npm:") ? path.dirname(model) : repository;
    const field = `${name}/${this.version}: weights of ${path.basename(model)}`;
    const files = locations.map((location) =>
      insideOf(root, path.resolve(path.dirname(model), location), location, field),
    );
    const absent = locations.filter((_, i) => !(statSync(files[i]!, { throwIfNoEntry: false })?.isFile() ?? false));
    if (absent.length > 0) throw new ModelFileError([`${field}: must lie beside it; missing are ${absent.join(", ")}`]);
    return files;
  }
}

/** rubato.yaml has the last word; a default of config.pbtxt says what requests may do about it. */
function timeouts(
  file: ModelFile,
  triton: TritonConfig | null,
): Pick<ModelSpec, "defaultTimeoutUs" | "timeoutMaxUs" | "timeoutOverride"> {
  const isOwn = file.slo_ms !== undefined || file.default_timeout_ms !== undefined;
  const queue = isOwn ? null : (triton?.queue ?? null);
  const defaultTimeoutUs = queue?.timeoutUs ?? sloUsFromMs(file.default_timeout_ms ?? DEFAULT_TIMEOUT_MS);
  return {
    defaultTimeoutUs: durationUs(defaultTimeoutUs),
    timeoutMaxUs: durationUs(Math.max(defaultTimeoutUs, sloUsFromMs(file.timeout_max_ms))),
    ...(file.run_max_ms === 0 ? {} : { runMaxUs: durationUs(Math.round(file.run_max_ms * 1000)) }),
    ...(queue === null || queue.timeoutUs === null
      ? {}
      : { timeoutOverride: queue.allowsOverride ? "shorten" : "never" }),
  };
}

/** With the weights that lie beside a large model. */
const bytesOnDisk = (files: readonly string[]): number => files.reduce((sum, file) => sum + statSync(file).size, 0);

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
