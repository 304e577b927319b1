import { spawnSync } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it, test } from "vitest";
import { reportError } from "./exit.js";
import { buildProgram } from "./program.js";

/** Runs the command line in this process, with its streams caught. */
async function rubato(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const output = {
    result: (text: string) => {
      stdout += text;
    },
    note: (text: string) => {
      stderr += text;
    },
    interactive: false,
  };
  let code = 0;
  try {
    await buildProgram(output).parseAsync(["node", "rubato", ...args]);
  } catch (error) {
    code = reportError(error, {
      write: (text: string) => {
        stderr += text;
      },
    });
  }
  return { code, stdout, stderr };
}

describe("rubato", () => {
  it("prints its version and help, and exits 0", async () => {
    expect(await rubato("--version")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+/),
      stderr: "",
    });
    const help = await rubato("--help");
    expect(help.code).toBe(0);
    for (const word of ["check", "simulate", "goodput", "Examples:", "Exit codes"]) expect(help.stdout).toContain(word);
  });
  it.each([["check"], ["simulate"], ["goodput"], ["bench"], ["plan"]])(
    "%s --help ends with examples",
    async (command) => {
      const { code, stdout } = await rubato(command, "--help");
      expect(code).toBe(0);
      expect(stdout).toMatch(new RegExp(`Examples:\\n( {2}rubato ${command} .*\\n?)+$`));
    },
  );
  it("an unknown command exits 2 with the nearest one", async () => {
    const { code, stdout, stderr } = await rubato("simulat");
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("(Did you mean simulate?)");
  });
  it.each([
    [
      ["simulate", "s.yaml", "--rate", "-3"],
      ["--rate", "above 0 and at most 100000000", '"-3"'],
    ],
    [
      ["simulate", "s.yaml", "--rate", "fast"],
      ["--rate", '"fast"'],
    ],
    [
      ["simulate", "s.yaml", "--seed", "1.5"],
      ["--seed", "a whole number in [0, 4294967295]", '"1.5"'],
    ],
    [
      ["simulate", "s.yaml", "--duration", "0"],
      ["--duration", "above 0", '"0"'],
    ],
    [
      ["simulate", "s.yaml", "--policy", "egger"],
      ["--policy", "egger", "auto, deferred, deferred+, eager"],
    ],
    [
      ["simulate", "s.yaml", "--option", "head_drop"],
      ["--option", "KEY=VALUE", '"head_drop"'],
    ],
    [
      ["goodput", "s.yaml", "--seeds", "0"],
      ["--seeds", "in [2, 1000]", '"0"'],
    ],
    [
      ["goodput", "s.yaml", "--jsn"],
      ["--jsn", "--json"],
    ],
    [["goodput"], ["missing required argument 'scenario'"]],
    [["simulate", "a.yaml", "b.yaml"], ["too many arguments"]],
    [["simulate", "not-there.yaml"], ["not-there.yaml: no such file"]],
    [
      ["simulate", "scenarios/overload.yaml", "--option", "head_drp=true"],
      ["command line: policy_options.head_drp", "head_drop"],
    ],
  ])("%j exits 2 and says why", async (args, says) => {
    const { code, stdout, stderr } = await rubato(...args);
    expect([code, stdout]).toEqual([2, ""]);
    for (const part of says) expect(stderr).toContain(part);
  });
  it("a bug exits 1 with its stack, not 2", () => {
    let said = "";
    const code = reportError(new TypeError("boom"), {
      write: (text) => {
        said += text;
      },
    });
    expect(code).toBe(1);
    expect(said).toMatch(/TypeError: boom\n\s+at /);
  });
});

describe("rubato simulate", () => {
  const example = "scenarios/symphony/example-3-3.yaml";
  it("--json prints the report alone: 48 requests of Symphony §3.3, none dropped", async () => {
    const { code, stdout, stderr } = await rubato("simulate", example, "--json");
    expect([code, stderr]).toEqual([0, ""]);
    expect(JSON.parse(stdout)).toMatchObject({ policy: "deferred", seeds: [1], arrived: 48, finished: 48, dropped: 0 });
  });
  it("prints a summary for people, with one line per model where there are several", async () => {
    const { code, stdout } = await rubato("simulate", "scenarios/two-models.yaml", "--duration", "6", "--seed", "7");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^scenario {5}two-models\npolicy {7}deferred, seed 7, 6 s \(5 s not counted\)\n/);
    expect(stdout).toMatch(/\nembedder +\d.*\ndetector +\d/);
  });
  it("--policy, --option and --rate reach the run", async () => {
    const args = ["--policy", "timeout", "--option", "timeout_ms=3", "--rate", "400", "--json"];
    const { code, stdout } = await rubato("simulate", example, "--duration", "10", ...args);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ policy: "timeout", arrived: 4000 });
  });
});

test("rows of modules add up: who was called off is not among the dropped", async () => {
  const args = ["scenarios/pipelines/pages.yaml", "--rate", "1200", "--duration", "6", "--policy", "pard"];
  const { stdout } = await rubato("simulate", ...args);
  const [titles, ...rows] = stdout
    .slice(stdout.indexOf("\nmodule ") + 1)
    .split("\n")
    .map((line) => line.replaceAll(",", "").split(/ {2,}/));
  expect(titles!.slice(1, 7)).toEqual(["arrived", "finished", "late", "dropped", "failed", "cancelled"]);
  const counts = rows.map((row) => row.slice(1, 7).map(Number));
  expect(counts).toHaveLength(6);
  for (const [arrived, ...ended] of counts) expect(ended.reduce((sum, each) => sum + each, 0)).toBe(arrived);
  expect(counts.some(([, , , , , cancelled]) => cancelled! > 0)).toBe(true);
  const { per_module: modules } = JSON.parse((await rubato("simulate", ...args, "--json")).stdout);
  expect(counts.map((row) => row[5])).toEqual(
    Object.values<{ cancelled: number }>(modules).map(({ cancelled }) => cancelled),
  );
});

describe("rubato simulate with a published system's policy in pipelines", () => {
  const lv = "scenarios/pipelines/lv.yaml";
  const simulate = (...args: string[]) => rubato("simulate", lv, "--duration", "6", "--policy", "nexus", ...args);
  it("says the budget, and where it is not as published", async () => {
    const { stdout, stderr } = await simulate();
    expect(stdout).toMatch(/\nbudget {7}lv: forecast\n/);
    expect(stderr).toContain("hint: pipeline lv names budget forecast; nexus as published has whole (--budget whole)");
    expect(stderr).toContain(
      "hint: groups person, face, expression, eyes, pose: nexus with plan: epochs; as published",
    );
  });
  it("says nothing more to who has it so", async () => {
    const { stdout, stderr } = await simulate("--budget", "whole", "--option", "plan=static", "--json");
    expect(stderr).toBe("");
    expect(JSON.parse(stdout).budgets).toEqual({ lv: "whole" });
  });
});

describe("rubato goodput", () => {
  it("--json prints the peak with its interval and the baselines beside it", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "rubato-goodput-"));
    const file = path.join(folder, "tiny.yaml");
    writeFileSync(
      file,
      "duration_s: 4\naccelerators: 1\nmodels: [{name: a, profile: {alpha_ms: 5, beta_ms: 5}, slo_ms: 60}]\narrivals: {process: poisson, rate_rps: 1}\n",
    );
    try {
      const { code, stdout, stderr } = await rubato("goodput", file, "--seeds", "3", "--json");
      expect([code, stderr]).toEqual([0, ""]);
      const report = JSON.parse(stdout);
      // One accelerator does 200 requests/s at most, however large its batches.
      expect(report.peak_goodput_rps).toBeGreaterThan(20);
      expect(report.peak_goodput_rps).toBeLessThan(200);
      expect(report.low_rps).toBeLessThanOrEqual(report.peak_goodput_rps);
      expect(report.beside.map((each: { policy: string }) => each.policy)).toEqual(["eager", "timeout"]);
      const alone = await rubato("goodput", file, "--seeds", "2", "--policy", "eager");
      expect(alone.code).toBe(0);
      expect(alone.stdout).toMatch(/^peak goodput {2}[\d.]+ \(95 %: [\d.]+ to [\d.]+\) requests\/s, eager\n/);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
  it("of a pipeline it is a rate of requests: less is in time just above it, and enough just below", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "rubato-goodput-"));
    const file = path.join(folder, "pair.yaml");
    writeFileSync(
      file,
      `duration_s: 12
warmup_s: 2
groups: [{ name: g, accelerators: 2 }, { name: h, accelerators: 1, policy: eager }]
models:
  - { name: a, group: g, profile: { alpha_ms: 1, beta_ms: 5 } }
  - { name: b, group: h, profile: { alpha_ms: 2, beta_ms: 5 } }
pipelines: [{ name: p, slo_ms: 80, modules: [{ id: 0, name: a }, { id: 1, name: b, pres: [0] }] }]
policy: deferred
arrivals: { process: poisson, rate_rps: 1 }
`,
    );
    try {
      const { code, stdout, stderr } = await rubato("goodput", file, "--seeds", "3", "--no-baselines", "--json");
      expect([code, stderr]).toEqual([0, ""]);
      const report = JSON.parse(stdout);
      expect(report).toMatchObject({ policy: "deferred, eager", found: "root", budgets: { p: "staggered" } });
      const badAt = async (rate: number): Promise<number> => {
        const seeds = ["1", "2", "3"];
        const runs = await Promise.all(
          seeds.map((seed) => rubato("simulate", file, "--json", "--seed", seed, "--rate", String(rate))),
        );
        return runs.reduce((sum, run) => sum + JSON.parse(run.stdout).per_model.p.bad_rate, 0) / seeds.length;
      };
      expect(await badAt(0.97 * report.peak_goodput_rps)).toBeLessThan(0.01);
      expect(await badAt(1.03 * report.peak_goodput_rps)).toBeGreaterThan(0.01);
      const shown = await rubato("goodput", file, "--seeds", "2", "--policy", "naive");
      expect(shown.stdout).toMatch(/^peak goodput .*, naive\nlimited by {4}p, at 1.00 % bad\n/);
      const short = await rubato("goodput", file, "--seeds", "2", "--policy", "naive", "--duration", "3");
      expect(short.stdout).toMatch(/\nmeasured .* runs; few requests: 1.00 % of them are \d/);
      expect(shown.stdout).toContain("budget       p: whole\n");
      const bounded = await rubato("goodput", file, "--bound");
      expect([bounded.code, bounded.stdout]).toEqual([2, ""]);
      expect(bounded.stderr).toContain("pipelines: do not go with --bound, which looks at models one by one");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
  it("refuses a replay, whose rate cannot change", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "rubato-goodput-"));
    const file = path.join(folder, "s.yaml");
    writeFileSync(path.join(folder, "r.csv"), "at_us,model\n0,a\n");
    writeFileSync(
      file,
      "accelerators: 1\nmodels: [{name: a, profile: {alpha_ms: 5, beta_ms: 5}, slo_ms: 60}]\narrivals: {process: replay, replay: r.csv}\n",
    );
    const { code, stderr } = await rubato("goodput", file);
    rmSync(folder, { recursive: true, force: true });
    expect(code).toBe(2);
    expect(stderr).toContain("arrivals.process: must be a process whose rate can change; was replay");
  });
});

describe("rubato check", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "rubato-check-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const put = (name: string, text: string) => {
    writeFileSync(path.join(folder, name), text);
    return path.join(folder, name);
  };

  it("says what a scenario and a configuration describe", async () => {
    const scenario = await rubato("check", "scenarios/symphony/table2-resnet50.yaml");
    expect(scenario).toMatchObject({ code: 0, stderr: "" });
    expect(scenario.stdout).toContain("1 model, 8 accelerators, 5,264 requests/s for 65 s, deferred");
    const config = await rubato("check", put("rubato.config.yaml", "http: {port: 9000}\ngroups: {cpu: {count: 2}}\n"));
    expect(config.code).toBe(0);
    expect(config.stdout).toContain("HTTP 127.0.0.1:9000");
    expect(config.stdout).toContain("cpu (2 onnx)");
  });
  it("--json prints one document, also when something is wrong, and exits 2", async () => {
    put("good.yaml", "http: {port: 9000}\n");
    const bad = put("bad.yaml", "http: {port: -1}\n");
    put("other.json", '{"compilerOptions": {}}');
    const { code, stdout, stderr } = await rubato("check", folder, "--json");
    expect(code).toBe(2);
    const report = JSON.parse(stdout);
    expect(report.ok).toBe(false);
    expect(report.files.map((each: { ok: boolean }) => each.ok)).toEqual([false, true]);
    expect(report.files[0].problems).toEqual([
      { file: bad, line: 1, field: "http.port", message: "must be at least 0; was -1" },
    ]);
    expect(report.skipped).toEqual([path.join(folder, "other.json")]);
    expect(stderr).toContain(`${bad}:1: http.port: must be at least 0; was -1`);
  });
  it("validates the data a scenario names", async () => {
    put("t.csv", "second,requests_per_second\n0,1\n1,-1\n");
    const file = put(
      "s.yaml",
      "accelerators: 1\nmodels: [{name: a, profile: {alpha_ms: 1, beta_ms: 1}, slo_ms: 9}]\narrivals: {process: trace, trace: t.csv}\n",
    );
    const { code, stderr } = await rubato("check", file);
    expect(code).toBe(2);
    expect(stderr).toContain("t.csv:3: requests_per_second: must be a number in [0, 1000000000]");
  });
  it("checks a model repository as a whole: every model, and each problem with its model's name", async () => {
    const model = (name: string, text: string) => {
      mkdirSync(path.join(folder, name));
      writeFileSync(path.join(folder, name, "rubato.yaml"), text);
    };
    const tensors =
      "inputs: {x: {datatype: FP32, shape: [-1, 4], batch_axis: 0}}\noutputs: {y: {datatype: FP32, shape: [-1, 4], batch_axis: 0}}\n";
    const emulated = `platform: rubato_emulated\nslo_ms: 50\nemulated: {alpha_ms: 1, beta_ms: 5}\n${tensors}`;
    model("good", emulated);
    writeFileSync(path.join(folder, "README.md"), "models\n");
    const config = ["--config", put("rubato.config.yaml", "groups: {emulated: {kind: emulated, count: 1}}\n")];
    const good = await rubato("check", folder, ...config);
    expect(good).toMatchObject({ code: 0, stderr: "" });
    expect(good.stdout).toContain("repository  1 model, groups emulated");
    const alone = await rubato("check", path.join(folder, "good", "rubato.yaml"));
    expect(alone.stdout).toContain("model configuration  SLO 50 ms, default group");
    model("bad", emulated.replace("slo_ms: 50", "slo_ms: -50"));
    const { code, stderr } = await rubato("check", folder, ...config);
    expect(code).toBe(2);
    expect(stderr).toMatch(/\/bad\/rubato\.yaml:2: slo_ms: .*-50/);
  });
  it("of a model's config.pbtxt it says what to check instead", async () => {
    const { code, stderr } = await rubato("check", put("config.pbtxt", "max_batch_size: 8\n"));
    expect(code).toBe(2);
    expect(stderr).toMatch(/config\.pbtxt: is part of a model: check the repository that holds it, /);
  });
  it("refuses what is neither, and folders of nothing", async () => {
    expect((await rubato("check", put("x.yaml", "a: 1\n"))).stderr).toMatch(
      /x\.yaml: must be a scenario .* or a server configuration .*; has keys a/,
    );
    expect((await rubato("check", "src/cli/commands")).code).toBe(2);
  });
});

it("a result that cannot be written is a failed run, in one line", () => {
  const stdout = openSync("/dev/full", "w");
  const { status, stderr } = spawnSync(process.execPath, ["bin/rubato.js", "--version"], {
    stdio: ["ignore", stdout, "pipe"],
    encoding: "utf8",
  });
  closeSync(stdout);
  expect([status, stderr]).toEqual([
    1,
    "rubato: the result cannot be written: ENOSPC: no space left on device, write\n",
  ]);
});
