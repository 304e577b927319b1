/** A pipeline's file in the repository. */
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { ModelFileError } from "../../config/server/model-file.js";
import { hint } from "../../config/server/pipelines/module-tensors.js";
import { parsePipelineFile, type ReadPipeline } from "../../config/server/pipelines/pipeline-file.js";
import { stepReference } from "../../config/server/pipelines/step-fields.js";
import { IssueList } from "../../config/source.js";
import { ServingError } from "../../wire/serving-error.js";
import { insideOf, isFile } from "./model-location.js";
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
  if (!isFile(path.join(folder, file)))
    throw new ServingError("invalid-argument", `${shown}: must be a plain file, no folder or pipe`);
  const read = parsePipelineFile(readSmall(repository, path.join(folder, file), shown)!, shown);
  checkSteps(folder, read);
  return { folder, read };
}

/** Steps are files of the pipeline's own folder, also where links lead. */
function checkSteps(folder: string, { file, source }: ReadPipeline): void {
  const issues = new IssueList(source);
  for (const [index, { id, name, step }] of file.modules.entries()) {
    if (step === undefined) continue;
    const at = ["modules", index, "step"];
    const { file: own } = stepReference(step)!;
    const found = path.join(folder, own);
    const title = `of module ${id} (${name})`;
    if (leavesFolder(folder, found))
      issues.add(at, `${title} must stay inside the pipeline's folder, also where links lead; was ${step}`);
    else if (!isFile(found))
      issues.add(
        at,
        `${title} must be a file in the pipeline's folder; there is no ${own}${hint(own, filesOf(folder))}`,
      );
  }
  if (issues.issues.length === 0) return;
  const where = (line: number | null): string => (line === null ? source.file : `${source.file}:${line}`);
  throw new ModelFileError(issues.issues.map(({ line, field, message }) => `${where(line)}: ${field}: ${message}`));
}

const filesOf = (folder: string): string[] => readdirSync(folder).map((name) => `./${name}`);

function leavesFolder(folder: string, file: string): boolean {
  try {
    insideOf(folder, file, "", "");
    return false;
  } catch {
    return true;
  }
}
