import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { BOUND_INPUTS } from "../../src/config/elastic.js";
import { modelFile, modelsDir, root, rubatoYaml, session, tailOf } from "./direct-client.js";

/** Pipelines have a folder too, and no tensors of their own. */
const models = readdirSync(modelsDir, { withFileTypes: true }).filter(
  (entry) => entry.isDirectory() && existsSync(path.join(modelsDir, entry.name, "rubato.yaml")),
);
const names = models.map((entry) => entry.name);
const groups: Record<string, { kind: string; count: number }> = parse(
  readFileSync(path.join(root, "rubato.config.yaml"), "utf8"),
).groups;

describe("model repository", () => {
  it("has the models of the examples and emulated ones", () => {
    for (const name of ["embedder", "ocr-det", "ocr-cls", "ocr-rec", "vad"]) expect(names).toContain(name);
    expect(names.filter((name) => name.startsWith("emulated-")).length).toBeGreaterThanOrEqual(5);
  });

  it("every model runs in a group of rubato.config.yaml of its kind", () => {
    for (const name of names) {
      const { group, platform } = rubatoYaml(name);
      expect(groups[group]?.kind, `${name}: group ${group}`).toBe(platform === "rubato_emulated" ? "emulated" : "onnx");
    }
  });

  it("the file of every real model exists and has exactly the declared tensors", async () => {
    for (const name of names.filter((n) => rubatoYaml(n).platform !== "rubato_emulated")) {
      const { inputNames, outputNames } = await session(name);
      const declared = rubatoYaml(name);
      const given = declared.elastic === undefined ? [] : Object.keys(BOUND_INPUTS);
      expect([...Object.keys(declared.inputs), ...given].sort(), name).toEqual([...inputNames].sort());
      const tail = await tailOf(name);
      const kept = outputNames.filter((output) => tail?.inputNames.includes(output) !== true);
      expect(Object.keys(declared.outputs).sort(), name).toEqual([...kept, ...(tail?.outputNames ?? [])].sort());
    }
  });

  it("a full batch of every emulated model meets its SLO", () => {
    for (const name of names.filter((n) => rubatoYaml(n).platform === "rubato_emulated")) {
      const { emulated, batch_max, slo_ms } = rubatoYaml(name);
      expect(emulated!.alpha_ms * batch_max + emulated!.beta_ms, name).toBeLessThanOrEqual(slo_ms);
    }
  });

  it("the committed embedder is at most 25 MB", () => {
    expect(statSync(modelFile("embedder")).size).toBeLessThanOrEqual(25_000_000);
  });
});
