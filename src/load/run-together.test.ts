import { afterEach, expect, test } from "vitest";
import { type OipStub, startHttpStub } from "../../test/support/oip-stub.js";
import { LOAD_DEFAULTS, type LoadOptions } from "./load-options.js";
import { runTogether } from "./run-together.js";

const INPUTS = [{ name: "x", datatype: "FP32", shape: [-1, 4] }] as const;
let stub: OipStub | undefined;
afterEach(() => stub?.close());

const loadOf = (origin: string, model: string, changes: Partial<LoadOptions> = {}): LoadOptions => ({
  ...LOAD_DEFAULTS,
  targets: [`${origin}/v2/models/${model}#slo=5000`],
  mode: { kind: "open", process: "poisson", shape: 1, steps: [{ fromS: 0, rps: 200 }] },
  durationS: 0.8,
  warmupS: 0.2,
  clientTimeoutMs: 10_000,
  isSpinning: false,
  encoding: "binary",
  ...changes,
});

test("the same moments and bodies go to all, in an order drawn for each; what one's server does is its own", async () => {
  const models = { a: INPUTS, b: INPUTS, c: INPUTS };
  stub = await startHttpStub({
    models,
    reply: ({ path }) => (path.includes("/b/") ? { status: 503, body: JSON.stringify({ error: "no" }) } : {}),
  });
  const { origin, requests } = stub;
  const [a, b, c] = (await runTogether(["a", "b", "c"].map((model) => loadOf(origin, model)))).map(
    ({ report }) => report,
  );
  const modelOf = (path: string) => path.split("/")[3]!;
  expect(new Set([a, b, c].map((report) => report!.arrived)).size).toBe(1);
  expect([a!.finished, b!.finished, c!.finished]).toEqual([a!.arrived, 0, a!.arrived]);
  expect([a!.targets, b!.targets]).toEqual([[`${origin}/v2/models/a`], [`${origin}/v2/models/b`]]);
  const bodies = ["a", "b", "c"].map((model) =>
    requests
      .filter(({ path }) => modelOf(path) === model)
      .map(({ binary }) => binary![0]!.toString("hex"))
      .sort(),
  );
  expect(bodies[0]!.length).toBeGreaterThan(50);
  expect(bodies[1]).toEqual(bodies[0]);
  expect(bodies[2]).toEqual(bodies[0]);
  const places = new Set(requests.slice(0, 150).map(({ path }, number) => `${modelOf(path)}${number % 3}`));
  expect(places.size).toBe(9);
});

test("the counted time in parts: what each saw adds up to the whole", async () => {
  stub = await startHttpStub({ models: { a: INPUTS }, reply: () => ({}) });
  const [whole] = await runTogether([loadOf(stub.origin, "a", { durationS: 1.1, partS: 0.3 })]);
  const { report, parts } = whole!;
  expect(parts).toHaveLength(3);
  for (const field of ["arrived", "finished", "late"] as const)
    expect(parts.reduce((sum, part) => sum + part[field], 0)).toBe(report[field]);
  for (const { arrived, lagMs } of parts) {
    expect(arrived).toBeGreaterThan(20);
    expect(lagMs).toBeLessThanOrEqual(report.lag_ms.max!);
  }
});

test("refuses loads whose arrivals would differ, naming the field", async () => {
  const first = loadOf("http://127.0.0.1:1", "a");
  const refused = (changes: Partial<LoadOptions>) => runTogether([first, { ...first, ...changes }]);
  await expect(refused({ seed: 2 })).rejects.toThrow("seed must be the same for loads together: 1; was 2");
  await expect(refused({ durationS: 2 })).rejects.toThrow("durationS must be the same");
  await expect(refused({ workers: 2 })).rejects.toThrow("workers must be 1 where loads run together; was 2");
  const closed = { ...first, mode: { kind: "closed", concurrency: 1 } } as const;
  await expect(runTogether([closed])).rejects.toThrow("mode must be open; was closed");
});
