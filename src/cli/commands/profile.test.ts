import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { buildProgram } from "../program.js";

test("profile: a model that is not there is said with the repository and the nearest name", async () => {
  const models = mkdtempSync(path.join(tmpdir(), "rubato-models-"));
  mkdirSync(path.join(models, "embedder"));
  const profile = (...args: string[]) =>
    buildProgram({ result: () => {}, note: () => {}, interactive: false }).parseAsync([
      "node",
      "rubato",
      "profile",
      ...args,
    ]);
  try {
    await expect(profile("embeder", "--models", models)).rejects.toThrow(
      `model 'embeder' is not in the repository ${models}; did you mean embedder?`,
    );
    mkdirSync(path.join(models, "pages"));
    writeFileSync(path.join(models, "pages", "pipeline.yaml"), "");
    await expect(profile("pages", "--models", models)).rejects.toThrow(
      "'pages' is a pipeline, which has no profile: its models have",
    );
  } finally {
    rmSync(models, { recursive: true });
  }
});
