import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { reportError } from "../exit.js";
import { buildProgram } from "../program.js";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-plan-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const at = path.join(folder, name);
  writeFileSync(at, text);
  return at;
}

async function plan(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let [stdout, stderr, code] = ["", "", 0];
  const output = {
    result: (text: string) => {
      stdout += text;
    },
    note: (text: string) => {
      stderr += text;
    },
    interactive: false,
  };
  try {
    await buildProgram(output).parseAsync(["node", "rubato", "plan", ...args]);
  } catch (error) {
    code = reportError(error, {
      write: (text: string) => {
        stderr += text;
      },
    });
  }
  return { code, stdout, stderr };
}

const model = (name: string, rate: number, memory: number, more = "") =>
  `  - {name: ${name}, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 50, rate_rps: ${rate}, memory_mb: ${memory}${more}}\n`;
const scenario = (models: string, section: string, accelerators = "8") =>
  `accelerators: ${accelerators}\narrivals: {process: poisson}\nmodels:\n${models}plan: ${section}\n`;
const FOUR = model("a", 30, 10) + model("b", 20, 30) + model("c", 20, 30) + model("d", 10, 50);

describe("rubato plan", () => {
  it("--json prints the plan alone; its assignment is what --current reads, and then nothing moves", async () => {
    const at = file("four.yaml", scenario(FOUR, "{clusters: 2}"));
    const first = await plan(at, "--json");
    expect([first.code, first.stderr]).toEqual([0, ""]);
    const document = JSON.parse(first.stdout);
    expect(document).toMatchObject({ status: "optimal", clusters: 2, objective: 0, load_imbalance: 0, moves: [] });
    expect(Object.keys(document.assignment)).toEqual(["a", "b", "c", "d"]);
    expect(document.assignment.a).toBe(document.assignment.d);
    expect(document.sub_clusters.map((each: { memory_mb: number }) => each.memory_mb)).toEqual([60, 60]);
    const again = await plan(at, "--json", "--current", file("now.json", first.stdout));
    expect(JSON.parse(again.stdout)).toMatchObject({ moves: [], cost: 0, assignment: document.assignment });
  });
  it("lists sub-clusters and moves for people, and says which places are passed over", async () => {
    const at = file("four.yaml", scenario(FOUR, "{clusters: 2, cost_max: 2}"));
    const now = file("now.yaml", "assignment: {a: 0, b: 0, c: 1, old: 1, d: 7}\n");
    const { code, stdout, stderr } = await plan(at, "--current", now);
    expect(code).toBe(0);
    expect(stdout).toMatch(/sub-cluster +models +requests\/s +memory MB/);
    expect(stdout).toMatch(/models to load, cost \d \(bound 2\)/);
    expect(stderr).toContain("1 models of");
    expect(stderr).toContain("1 models are in sub-clusters that are no more");
  });
  it("--clusters overrides the scenario's, memory comes from the accelerators, zoo models know their size", async () => {
    const zoo =
      "accelerators: [{count: 4, memory_mb: 900}, {count: 4, memory_mb: 2000}]\n" +
      "arrivals: {process: poisson, rate_rps: 100}\nmodels_from: {zoo: a100, select: [VGG16, BERT, ResNet50]}\n";
    const { code, stdout } = await plan(file("zoo.yaml", zoo), "--clusters", "2", "--json", "--time-limit", "0");
    expect(code).toBe(0);
    const document = JSON.parse(stdout);
    expect(document.bounds).toEqual({ rate_rps_max: null, memory_mb_max: 900, cost_max: null });
    expect(document.sub_clusters.flatMap((each: { models: string[] }) => each.models).sort()).toEqual([
      "BERT",
      "ResNet50",
      "VGG16",
    ]);
  });
  it.each<[string, string, readonly string[], readonly string[]]>([
    ["no number of sub-clusters", scenario(FOUR, "{}"), [], ["plan.clusters: is required here or as --clusters"]],
    [
      "a model without memory",
      `accelerators: 1\narrivals: {process: poisson, rate_rps: 9}\nmodels: [{name: a, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 50}]\n`,
      ["--clusters", "1"],
      ["models: must all have memory_mb", "missing for a"],
    ],
    [
      "costs of another number of sub-clusters",
      scenario(FOUR + model("e", 1, 1, ", load_cost: [1, 2, 3]"), "{clusters: 2}"),
      [],
      ["load_cost of e must have one entry per sub-cluster (2); has 3"],
    ],
    [
      "a misspelt bound",
      scenario(FOUR, "{clusters: 2, cost_mx: 1}"),
      [],
      ["plan.cost_mx: unknown key; did you mean cost_max?"],
    ],
    ["no sub-cluster", scenario(FOUR, "{clusters: 0}"), [], ["plan.clusters: must be at least 1; was 0"]],
    [
      "negative memory",
      scenario(model("a", 1, -1), "{clusters: 1}"),
      [],
      ["models[0].memory_mb: must be at least 0; was -1"],
    ],
    [
      "a rate too high for R_max",
      scenario(FOUR, "{clusters: 2, rate_rps_max: 25}"),
      [],
      ["plan: infeasible:", "25 requests/s (R_max)", "a needs 30"],
    ],
    [
      "too many sub-clusters asked for",
      scenario(FOUR, "{clusters: 2}"),
      ["--clusters", "5000"],
      ["--clusters", "in [1, 1024]", '"5000"'],
    ],
    [
      "a time limit below 0",
      scenario(FOUR, "{clusters: 2}"),
      ["--time-limit", "-1"],
      ["--time-limit", "in [0, 86400]", '"-1"'],
    ],
    [
      "a current placement that is not there",
      scenario(FOUR, "{clusters: 2}"),
      ["--current", "not-there.json"],
      ["not-there.json: no such file"],
    ],
  ])("%s exits 2 and says why", async (_, text, args, says) => {
    const { code, stdout, stderr } = await plan(file("bad.yaml", text), ...args);
    expect([code, stdout]).toEqual([2, ""]);
    for (const part of says) expect(stderr).toContain(part);
  });
  it.each<[string, string, string]>([
    ["no assignment", "status: optimal\n", "assignment: is required"],
    ["a place in words", "assignment: {a: first}\n", 'assignment.a: must be a whole number; was "first"'],
    ["a place below 0", "assignment: {a: -1}\n", "assignment.a: must be at least 0; was -1"],
  ])("a current placement with %s exits 2", async (_, text, says) => {
    const at = file("four.yaml", scenario(FOUR, "{clusters: 2}"));
    const { code, stderr } = await plan(at, "--current", file("now.yaml", text));
    expect(code).toBe(2);
    expect(stderr).toContain(says);
  });
  it("--json of an infeasible input is a document, too", async () => {
    const { code, stdout } = await plan(file("bad.yaml", scenario(FOUR, "{clusters: 2, rate_rps_max: 25}")), "--json");
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({
      status: "infeasible",
      conflicts: [{ constraint: "rate", reach: "model" }],
    });
  });
});
