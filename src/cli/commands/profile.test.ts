import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
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
  } finally {
    rmSync(models, { recursive: true });
  }
});
