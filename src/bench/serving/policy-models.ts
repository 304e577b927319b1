/** A model several times in one repository, under a policy each: all are the same file with the same profile. */
import { copyFileSync, existsSync, linkSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { ServingError } from "../../wire/serving-error.js";

const SHIPPED = fileURLToPath(new URL("../../../models", import.meta.url));

export interface ModelSource {
  /** Of its rubato.yaml. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Its model.onnx; null: the settings say where it is, or it is emulated. */
  readonly file: string | null;
  /** That goes on from its outputs. Absent: none does. */
  readonly tailFile?: string;
}

export interface PolicyModel {
  readonly name: string;
  readonly group: string;
  /** null: none is named, and the server's own is what it gets. */
  readonly policy: string | null;
  readonly policyOptions: Readonly<Record<string, unknown>>;
}

/** One of the models that `npm start` serves. @throws ServingError not-found. */
export const shippedModel = (name: string): ModelSource => sourceOf(shippedFolder(name));

export const shippedFolder = (name: string): string => path.join(SHIPPED, name);

/** @param folder of a model that is version 1. @throws ServingError not-found. */
export function sourceOf(folder: string): ModelSource {
  if (!existsSync(path.join(folder, "rubato.yaml")))
    throw new ServingError("not-found", `the model is not there: ${folder}`);
  const settings = parse(readFileSync(path.join(folder, "rubato.yaml"), "utf8")) as ModelSource["settings"];
  const tail = settings.tail_file === undefined ? {} : { tailFile: path.join(folder, settings.tail_file as string) };
  if (settings.model_file !== undefined) return { settings, file: null, ...tail };
  const file = path.join(folder, "1", "model.onnx");
  if (!existsSync(file)) throw new ServingError("not-found", `the model is not there: ${file}`);
  return { settings, file, ...tail };
}

/** @param profile file of a measured profile, or null. */
export function writePolicyModels(
  folder: string,
  source: ModelSource,
  models: readonly PolicyModel[],
  sloMs: number,
  profile: string | null,
): void {
  for (const { name, group, policy, policyOptions } of models) {
    const version = path.join(folder, name, "1");
    mkdirSync(version, { recursive: true });
    if (source.file !== null) linkOrCopy(source.file, path.join(version, "model.onnx"));
    if (source.tailFile !== undefined)
      copyFileSync(source.tailFile, path.join(folder, name, path.basename(source.tailFile)));
    if (profile !== null) copyFileSync(profile, path.join(version, "profile.json"));
    const chosen = policy === null ? {} : { policy, policy_options: policyOptions };
    const tail = source.tailFile === undefined ? {} : { tail_file: path.basename(source.tailFile) };
    const own = { ...source.settings, ...tail, slo_ms: sloMs, group, ...chosen };
    writeFileSync(path.join(folder, name, "rubato.yaml"), stringify(own));
  }
}

/** The same bytes once where both are on one disk. */
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}
