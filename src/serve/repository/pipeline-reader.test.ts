import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { hasModel, hasPipeline, modelNames, pipelineNames, readRepository } from "./repository.js";

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "rubato-pipeline-folders-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function put(file: string, text: string): void {
  const full = path.join(root, file);
  mkdirSync(path.dirname(full), { recursive: true });
  writeFileSync(full, text);
}
const MODEL = "platform: rubato_emulated\nemulated: { alpha_ms: 1, beta_ms: 1 }\n";
const modules = (model: string): string =>
  `{ "slo_ms": 50, "modules": [{ "id": 0, "name": "one", "model": "${model}", "inputs": { "INPUT": { "tensor": "x" } } }] }`;

test("a folder with a pipeline's file is one, beside models and within a folder of them, as YAML or JSON", () => {
  put("m/rubato.yaml", MODEL);
  put("p/pipeline.yaml", modules("m"));
  put("group/n/rubato.yaml", MODEL);
  put("group/q/pipeline.json", modules("group/n"));
  expect(modelNames(root)).toEqual(["group/n", "m"]);
  expect(pipelineNames(root)).toEqual(["group/q", "p"]);
  const isOne = (has: typeof hasModel) => ["m", "p", "group/n", "group/q", "none"].map((name) => has(root, name));
  expect(isOne(hasModel)).toEqual([true, false, true, false, false]);
  expect(isOne(hasPipeline)).toEqual([false, true, false, true, false]);
  const { pipelines, errors } = readRepository(root);
  expect(errors).toEqual([]);
  const words = pipelines.map(({ client, modules: [one] }) => [client.name, client.inputs[0]!.name, one!.model]);
  expect(words).toEqual([
    ["group/q", "x", "group/n"],
    ["p", "x", "m"],
  ]);
});

test("what is wrong with a pipeline is said by its name, and keeps nobody else from being served", () => {
  put("m/rubato.yaml", MODEL);
  put("both/pipeline.yaml", modules("m"));
  put("both/rubato.yaml", MODEL);
  put("broken/rubato.yaml", "slo_ms: -1\n");
  put("on-broken/pipeline.yaml", modules("broken"));
  put("on-pipeline/pipeline.yaml", modules("p"));
  put("p/pipeline.yaml", modules("m"));
  put("misnamed/pipeline.yml", modules("m"));
  const { models, pipelines, errors } = readRepository(root);
  expect([models.map(({ name }) => name), pipelines.map(({ client }) => client.name)]).toEqual([["m"], ["p"]]);
  const of = (name: string): string => errors.find((error) => error.name === name)!.message;
  expect(of("both")).toBe("both: must hold one of pipeline.yaml, rubato.yaml; has 2");
  expect(of("on-broken")).toContain(
    "modules[0].model: of module 0 (one) must be a model of the repository that is served; was broken: it cannot be served",
  );
  expect(of("on-pipeline")).toContain("was p: it is a pipeline, and pipelines do not nest");
  expect(of("misnamed")).toContain("misnamed/pipeline.yml: must be named pipeline.yaml; it is not read");
});
