/** A pipeline's file in the repository. */
import { existsSync } from "node:fs";
import path from "node:path";
import { parsePipelineFile, type ReadPipeline } from "../../config/server/pipelines/pipeline-file.js";
import { ServingError } from "../../wire/serving-error.js";
import { CONFIG_NAMES, readSmall } from "./model-reader.js";

export const PIPELINE_NAMES = ["pipeline.yaml", "pipeline.json"] as const;

/** The folder is a pipeline, or means to be one. */
export const isPipelineFolder = (folder: string): boolean =>
  PIPELINE_NAMES.some((file) => existsSync(path.join(folder, file)));

/** @throws ServingError, ModelFileError: what is wrong with it. */
export function readPipelineFile(repository: string, name: string): { folder: string; read: ReadPipeline } {
  const folder = path.resolve(repository, ...name.split("/"));
  const files = [...PIPELINE_NAMES, ...CONFIG_NAMES].filter((file) => existsSync(path.join(folder, file)));
  const [file] = files;
  if (file === undefined)
    throw new ServingError("not-found", `Request for unknown model: '${name}' is not found in the repository`, {
      reason: "unknown-model",
    });
  if (files.length > 1)
    throw new ServingError("invalid-argument", `${name}: must hold one of ${files.join(", ")}; has ${files.length}`);
  const shown = `${name}/${file}`;
  return { folder, read: parsePipelineFile(readSmall(repository, path.join(folder, file), shown)!, shown) };
}
