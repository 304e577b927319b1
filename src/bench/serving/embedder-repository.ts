/** The real model several times in one repository, under a policy each: all run on the same workers, with one profile. */
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { ServingError } from "../../wire/serving-error.js";

const EMBEDDER = fileURLToPath(new URL("../../../models/embedder", import.meta.url));

export interface PolicyModel {
  readonly name: string;
  readonly policy: string;
  readonly policyOptions: Readonly<Record<string, unknown>>;
}

/** @param profile file of a measured profile, or null. */
export function writeEmbedder(
  folder: string,
  group: string,
  models: readonly PolicyModel[],
  sloMs: number,
  profile: string | null,
): void {
  const file = path.join(EMBEDDER, "1", "model.onnx");
  if (!existsSync(file)) throw new ServingError("not-found", `the model is not there: ${file}`);
  const settings = parse(readFileSync(path.join(EMBEDDER, "rubato.yaml"), "utf8")) as object;
  for (const { name, policy, policyOptions } of models) {
    const version = path.join(folder, name, "1");
    mkdirSync(version, { recursive: true });
    copyFileSync(file, path.join(version, "model.onnx"));
    if (profile !== null) copyFileSync(profile, path.join(version, "profile.json"));
    const own = { ...settings, slo_ms: sloMs, group, policy, policy_options: policyOptions };
    writeFileSync(path.join(folder, name, "rubato.yaml"), stringify(own));
  }
}
