/**
 * A model repository on disk, in Triton's layout (`NAME/VERSION/model.onnx`, optional `NAME/config.pbtxt`), with
 * `NAME/rubato.yaml` for what only the owner knows. Reading it executes nothing. A folder that holds models instead of
 * being one gives its name to them: `emulated/resnet50`.
 */
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import type { ModelSpec } from "../../config/model.js";
import { hint } from "../../config/server/pipelines/module-tensors.js";
import { resolvePipeline } from "../../config/server/pipelines/pipeline-spec.js";
import type { PipelineSpec } from "../../config/server/pipelines/served-pipeline.js";
import { SERVER_CONFIG_NAME } from "../../config/server/server.js";
import { ServingError } from "../../wire/serving-error.js";
import { type HostLimits, hostProblem } from "../models/host-limits.js";
import { IS_PIPELINE } from "../pipelines/pipeline-table.js";
import { isFolder } from "./model-location.js";
import { CONFIG_NAMES, type ReaderOptions, readVersions, rightName } from "./model-reader.js";
import { versionFolders } from "./model-versions.js";
import { isPipelineFolder, readPipelineFile } from "./pipeline-reader.js";

export interface RepositoryOptions extends ReaderOptions {
  /** Default 10,000. */
  readonly modelsMax?: number;
  /** What the server that is to serve them has. Absent: only the files are looked at. */
  readonly host?: HostLimits;
}

/** Options for models that this server is to serve. */
export const servedBy = (host: HostLimits): RepositoryOptions =>
  host.placedKind === null ? { host } : { host, autoKind: host.placedKind };

export interface RepositoryError {
  readonly name: string;
  /** "" where it is not known. */
  readonly version: string;
  /** Every problem of the model, a line each; names file, field, bound and value. */
  readonly message: string;
}

export interface Repository {
  /** Every version that is served. */
  readonly models: readonly ModelSpec[];
  readonly pipelines: readonly PipelineSpec[];
  readonly errors: readonly RepositoryError[];
}

const MODELS_MAX = 10_000;

/**
 * All models of a repository; one that is wrong does not keep the others from being served. This is what `check` says.
 *
 * @throws ServingError invalid-argument when the folder is no repository or holds more than `modelsMax` models.
 */
export function readRepository(folder: string, options: RepositoryOptions = {}): Repository {
  const names = modelNames(folder, options.modelsMax);
  const pipelines: PipelineSpec[] = [];
  const models: ModelSpec[] = [];
  const errors: RepositoryError[] = [];
  for (const name of names) {
    try {
      models.push(...readServable(folder, name, options));
    } catch (error) {
      errors.push({ name, version: "", message: (error as Error).message });
    }
  }
  const pipelinesNamed = pipelineNames(folder, options.modelsMax);
  const modelOf = (name: string): ModelSpec | string => {
    if (pipelinesNamed.includes(name)) return IS_PIPELINE;
    const why = names.includes(name) ? "it cannot be served" : `there is no such model${hint(name, names)}`;
    return models.findLast((spec) => spec.name === name) ?? why;
  };
  const policyOf = (name: string): string | null => {
    const group = options.host?.groups.find((each) => each.name === (modelOf(name) as ModelSpec).group);
    return group?.policy?.name ?? null;
  };
  for (const name of pipelinesNamed) {
    try {
      const { folder: own, read } = readPipelineFile(folder, name);
      pipelines.push(resolvePipeline(name, own, read, modelOf, policyOf));
    } catch (error) {
      errors.push({ name, version: "", message: (error as Error).message });
    }
  }
  return { models, pipelines, errors };
}

/**
 * The versions of one model as this server can serve them. This is what loading says.
 *
 * @throws ServingError not-found, or invalid-argument listing every problem, a line each.
 */
export function readServable(folder: string, name: string, options: RepositoryOptions): readonly ModelSpec[] {
  if (!hasModel(folder, name))
    throw new ServingError("not-found", `Request for unknown model: '${name}' is not found in the repository`, {
      reason: "unknown-model",
    });
  const specs = readVersions(folder, name, options);
  const problem = options.host === undefined ? null : hostProblem(specs.at(-1)!, options.host);
  if (problem !== null) throw new ServingError("invalid-argument", problem);
  return specs;
}

/**
 * Refuses a folder that cannot be a repository, before anything is started.
 *
 * @param mayBeEmpty models come later, by request.
 * @returns what lies in it and is no model, though it is meant as one; a sentence each.
 * @throws ServingError invalid-argument naming the folder, and what would be right.
 */
export function checkRepository(folder: string, mayBeEmpty = false): readonly string[] {
  if (folder.endsWith(".onnx"))
    throw new ServingError(
      "invalid-argument",
      `${folder}: is a model file, not a repository of models: move it to FOLDER/NAME/1/model.onnx and give FOLDER`,
    );
  const entries = list(folder);
  if (isModel(folder))
    throw new ServingError(
      "invalid-argument",
      `${folder}: is a ${isPipelineFolder(folder) ? "pipeline" : "model"}, not a repository of models: give the folder that holds it, ${path.dirname(path.resolve(folder))}`,
    );
  const moves = entries
    .filter((name) => name.endsWith(".onnx"))
    .map((name) => `move ${name} to ${name.slice(0, -".onnx".length)}/1/model.onnx`);
  if (mayBeEmpty || modelNames(folder).length > 0) return moves.map((move) => `a model is a folder: ${move}`);
  const instead = moves.length === 0 ? "" : `: ${moves[0]}`;
  throw new ServingError("invalid-argument", `${folder}: must hold models as NAME/1/model.onnx; has none${instead}`);
}

/** Whether a folder is meant as a repository: its subfolders are models, or nearly. */
export function looksLikeRepository(folder: string): boolean {
  const nearly = (child: string): boolean =>
    looksLikeModel(child) || list(child).some((name) => name.endsWith(".onnx") || rightName(name) !== null);
  const children = subfolders(folder);
  if (children.some((name) => nearly(path.join(folder, name)))) return true;
  // Each holds models: emulated/resnet50. With a server's configuration beside them they are repositories themselves.
  if (children.length === 0 || list(folder).includes(SERVER_CONFIG_NAME)) return false;
  return children.every((name) => namesIn(folder, name)[0] !== name);
}

/** It has what only a model has: a configuration, or a version with a model in it. */
export function isModel(folder: string): boolean {
  return (
    CONFIG_NAMES.some((file) => existsSync(path.join(folder, file))) ||
    isPipelineFolder(folder) ||
    versionFolders(folder).versions.some((version) => existsSync(path.join(folder, version, "model.onnx")))
  );
}

/**
 * Names of all folders that are, or fail to be, models; those of pipelines are not among them.
 *
 * @throws ServingError invalid-argument when the folder cannot be read or holds more than `limit` models.
 */
export const modelNames = (folder: string, limit = MODELS_MAX): string[] =>
  servableNames(folder, limit).filter((name) => !isPipelineFolder(path.join(folder, name)));

/** Names of all folders that are, or fail to be, pipelines. @throws as `modelNames`. */
export const pipelineNames = (folder: string, limit = MODELS_MAX): string[] =>
  servableNames(folder, limit).filter((name) => isPipelineFolder(path.join(folder, name)));

function servableNames(folder: string, limit: number): string[] {
  const names = subfolders(folder).flatMap((name) => namesIn(folder, name));
  if (names.length > limit)
    throw new ServingError("invalid-argument", `${folder}: must hold at most ${limit} models; was ${names.length}`);
  return names.sort();
}

/** Whether a model of this name is in the list; looks at its own folder alone. */
export const hasModel = (folder: string, name: string): boolean =>
  isServable(folder, name) && !isPipelineFolder(path.join(folder, name));

/** Whether a pipeline of this name is in the list. */
export const hasPipeline = (folder: string, name: string): boolean =>
  isServable(folder, name) && isPipelineFolder(path.join(folder, name));

function isServable(folder: string, name: string): boolean {
  const [first = ""] = name.split("/");
  const isListed = first !== "" && !first.startsWith(".") && isFolder(path.join(folder, first));
  return isListed && namesIn(folder, first).includes(name);
}

/** A subfolder is a model, or holds some. */
function namesIn(folder: string, name: string): string[] {
  const inner = subfolders(path.join(folder, name)).filter((child) => looksLikeModel(path.join(folder, name, child)));
  if (looksLikeModel(path.join(folder, name)) || inner.length === 0) return [name];
  return inner.map((child) => `${name}/${child}`);
}

/** Whether a folder has what makes it a model: a configuration, or a version. */
const looksLikeModel = (folder: string): boolean =>
  CONFIG_NAMES.some((file) => existsSync(path.join(folder, file))) ||
  isPipelineFolder(folder) ||
  versionFolders(folder).versions.length > 0;

const subfolders = (folder: string): string[] =>
  list(folder).filter((name) => !name.startsWith(".") && isFolder(path.join(folder, name)));

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why =
      code === "ENOENT"
        ? "no such folder"
        : code === "ENOTDIR"
          ? "must be a folder of models"
          : `cannot be read: ${message}`;
    throw new ServingError("invalid-argument", `${folder}: ${why}`, { cause });
  }
}
