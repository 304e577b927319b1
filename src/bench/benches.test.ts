import { expect, test, vi } from "vitest";
import { BENCHES } from "./benches.js";

// Each loads real models for several workers, some of them three times: beside other work that takes longer than a test may by default.
vi.setConfig({ testTimeout: 240_000 });

/** Real servers, real models, tiny: that it runs and that its rows are there is all that a busy machine can promise. */
async function tiny(name: string): Promise<Map<string, number>> {
  const bench = BENCHES.find((candidate) => candidate.name === name)!;
  const notes: string[] = [];
  const onProgress = (text: string) => notes.push(text);
  const results = await bench.run({ size: 0.01, seconds: undefined, dataDir: null, onProgress });
  expect(notes).not.toEqual([]);
  for (const { detail, digest, unit } of results) for (const text of [detail, digest, unit]) expect(text).not.toBe("");
  const values = new Map(results.map((result) => [result.name, result.value]));
  expect(values.size).toBe(results.length);
  for (const value of values.values()) expect(value).toBeTypeOf("number");
  return values;
}

test("doors: every door against its echo", async () => {
  const values = await tiny("doors");
  expect([...values.keys()]).toEqual(["doors-http-1KB", "doors-http-64KB", "doors-grpc-1KB", "doors-grpc-64KB"]);
});

test("overhead: every tensor size at every load, over both protocols", async () => {
  const values = await tiny("overhead");
  const cases = ["http-1KB", "http-600KB", "http-4MB", "grpc-1KB"];
  const columns = ["back-to-back", "saturation", "load-10", "load-50", "load-80"];
  expect([...values.keys()]).toEqual(cases.flatMap((name) => columns.map((column) => `overhead-${name}-${column}`)));
  for (const name of cases) expect(values.get(`overhead-${name}-saturation`)).toBeGreaterThan(0);
});

test("embedder: every policy has its rates and its peak", async () => {
  const values = await tiny("embedder");
  const policies = ["deferred", "eager", "deferred-plus", "timeout-0.05"];
  expect([...values.keys()]).toEqual([
    "embedder-capacity",
    ...policies.map((name) => `embedder-${name}-offered-0.5`),
    ...policies.map((name) => `embedder-${name}-peak`),
  ]);
  expect(values.get("embedder-capacity")).toBeGreaterThan(1);
});

test("pipelines: the default and pard past capacity, and what is found there", async () => {
  const values = await tiny("pipelines");
  const names = ["default", "pard"];
  const findings = ["goodput past capacity", "dropped before recognition", "accelerator time in vain"];
  expect([...values.keys()]).toEqual([
    ...names.map((name) => `pipelines ocr at 2, ${name}`),
    ...names.flatMap((name) => findings.map((finding) => `pipelines ${finding}, ${name}`)),
  ]);
});

test("apps: every contender at a load, and what batches were expected to take", async () => {
  const values = await tiny("apps");
  const [first, ...others] = values.keys();
  expect(first).toBe("apps embedder at 1");
  // A machine in use may serve no batch in so short a run: then there is nothing to say of what it was expected to take.
  const predicted = ["default", "distribution-plus", "by-size"].map((name) => `prediction apps embedder, ${name}`);
  expect(predicted).toEqual(expect.arrayContaining(others));
  // A machine in use makes runs void: then there is no value.
  for (const value of values.values()) expect(value).not.toBeGreaterThan(1);
});
