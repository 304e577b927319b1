/** The worked example of docs/add-a-policy.md: one file and a line, then simulated, served live, in the docs and in the schema. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { loadScenarioFrom } from "../../src/config/scenario/scenario.js";
import { serverConfigFrom } from "../../src/config/server/server.js";
import { sourceOf } from "../../src/config/source.js";
import { durationUs } from "../../src/core/time.js";
import { simulate } from "../../src/sim/simulate.js";
import { FakeServer, group, modelSpec } from "../fakes/fake-server.js";

const root = path.resolve(import.meta.dirname, "../..");
const MACHINE = { cpus: 2, folder: "." };
const NAME = "fixed-size";

const serverConfig = (value: object) => serverConfigFrom(sourceOf(value, "rubato.config.yaml"), ".", MACHINE);

function* sources(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) yield* sources(file);
    else if (file.endsWith(".ts") && !file.endsWith(".test.ts")) yield path.relative(root, file);
  }
}

describe("a policy is one file and a line", () => {
  test("nothing else in the source names it", () => {
    const naming = [...sources(path.join(root, "src"))].filter((file) =>
      readFileSync(path.join(root, file), "utf8").includes(NAME),
    );
    expect(naming.sort()).toEqual(["src/policies/fixed-size/fixed-size.ts", "src/policies/registry.ts"]);
  });

  test("it is made of what the library exports", () => {
    const namesIn = (file: string, keyword: string): string[] =>
      [...readFileSync(path.join(root, file), "utf8").matchAll(new RegExp(`^${keyword} (?:type )?{([^}]*)}`, "gm"))]
        .flatMap(([, names]) => names!.split(","))
        .map((name) => name.replace("type ", "").trim())
        .filter((name) => name !== "");
    const needed = namesIn("src/policies/fixed-size/fixed-size.ts", "import");
    expect(needed).toContain("WaitingRequests");
    expect(namesIn("src/index.ts", "export")).toEqual(expect.arrayContaining(needed));
  });

  test("it is in the reference and has a schema", () => {
    expect(readFileSync(path.join(root, "docs/configuration.md"), "utf8")).toContain(`## Policy options: ${NAME}`);
    const schema = JSON.parse(
      readFileSync(path.join(root, `docs/schemas/policy-options-${NAME}.schema.json`), "utf8"),
    ) as { properties: Record<string, { default: number }> };
    expect(schema.properties.batch_size!.default).toBe(8);
  });

  test("simulated: full batches under load, and no batch waits past its earliest deadline", () => {
    const scenario = loadScenarioFrom(
      sourceOf(
        {
          name: "fixed",
          duration_s: 20,
          accelerators: 2,
          models: [{ name: "m", profile: { alpha_ms: 1, beta_ms: 4 }, slo_ms: 50, batch_max: 16 }],
          arrivals: { process: "poisson", rate_rps: 600 },
          policy: NAME,
          policy_options: { batch_size: 6 },
        },
        "fixed.yaml",
      ),
    );
    const report = simulate(scenario);
    expect(report.batch_size.max).toBe(6);
    expect(report.batch_size.mean).toBeGreaterThan(5.5);
    expect(report.late).toBe(0);
    expect(report.finish_rate).toBeGreaterThan(0.99);
    expect(report.finished + report.dropped).toBe(report.arrived);
  });

  test("its options are checked as any other's", () => {
    const config = (policy_options: object) => () =>
      serverConfig({ groups: { gpu: { kind: "emulated", policy: NAME, policy_options } } });
    expect(config({ batch_size: 0 })).toThrow("groups.gpu.policy_options.batch_size: must be at least 1; was 0");
    expect(config({ batchsize: 4 })).toThrow("did you mean batch_size?");
  });

  test("served live by a group that names it", { retry: 2 }, async () => {
    const spec = modelSpec({
      batchSizeMax: 16,
      emulated: { alphaMs: 1, betaMs: 4, tableMs: null },
      sloUs: durationUs(2_000_000),
    });
    const policy = { name: NAME, options: { batch_size: 4 } };
    const fake = await new FakeServer([spec], [{ ...group(1), policy }]).start();
    const answers = await Promise.all(Array.from({ length: 8 }, () => fake.infer()));
    expect(answers.every(({ reply }) => reply !== null)).toBe(true);
    expect(fake.pool.runs.map(({ batch }) => batch.members.length)).toEqual([4, 4]);
    await fake.stop();
  });
});

test("a policy that a server cannot carry out is refused by name and reason", () => {
  const config = () => serverConfig({ groups: { gpu: { kind: "emulated", policy: "shepherd" } } });
  expect(config).toThrow("groups.gpu.policy: must be a policy that a server can carry out: it preempts batches");
  const clipper = (cap: string) =>
    serverConfig({ groups: { gpu: { kind: "emulated", policy: "clipper", policy_options: { cap } } } });
  expect(() => clipper("regression")).toThrow("a server can carry out: with cap regression it learns from batches");
  expect(() => clipper("aimd")).not.toThrow();
  const threads = () =>
    serverConfig({ scheduler: { threads: 2 }, groups: { gpu: { kind: "emulated", policy: NAME } } });
  expect(threads).toThrow("groups.gpu.policy: must be absent where scheduler.threads is 2; was fixed-size");
});
