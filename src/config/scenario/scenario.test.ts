import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConfigError } from "../config-error.js";
import { parseSource } from "../source.js";
import {
  loadScenario,
  loadScenarioFrom,
  parseScenario,
  type ScenarioOverrides,
  totalRate,
  withRate,
} from "./scenario.js";
import { dataDirOf } from "./traces.js";

const expand = (text: string, overrides: ScenarioOverrides = {}) =>
  loadScenarioFrom(parseSource(text, "test.yaml"), overrides);
const model = (name: string, more = "") => `{name: ${name}, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 25${more}}`;
const scenario = (models: string[], rest: string) => `accelerators: 2\nmodels: [${models.join(", ")}]\n${rest}\n`;
const rates = (text: string) => expand(text).models.map(({ rateRps }) => rateRps);

describe("expandScenario: models", () => {
  it("tabulates l(b) in whole microseconds rounded up, 0 before and Infinity after (ResNet50 of Symphony Table 2)", () => {
    const [resnet] = loadScenario("scenarios/symphony/table2-resnet50.yaml").models;
    expect(resnet!.batchSizeMax).toBe(18);
    expect(resnet!.execUs).toHaveLength(20);
    expect(resnet!.execUs[0]).toBe(0);
    expect(resnet!.execUs[1]).toBe(6125);
    expect(resnet!.execUs[18]).toBe(24_026);
    expect(resnet!.execUs[19]).toBe(Number.POSITIVE_INFINITY);
    expect(resnet!.sloUs).toBe(25_000);
  });
  it("rounds work up and promises down", () => {
    const text = scenario(
      ["{name: a, profile: {alpha_ms: 0.0004, beta_ms: 1}, slo_ms: 1.5009}"],
      "arrivals: {process: poisson, rate_rps: 1}",
    );
    const [a] = expand(text).models;
    expect(a!.execUs[1]).toBe(1001);
    expect(a!.sloUs).toBe(1500);
  });
  it("bounds the batch by the SLO, by 1024, by the table, or as told", () => {
    const batchMax = (profile: string, more = "") =>
      expand(
        scenario([`{name: a, profile: ${profile}, slo_ms: 25${more}}`], "arrivals: {process: poisson, rate_rps: 1}"),
      ).models[0]!.batchSizeMax;
    expect(batchMax("{alpha_ms: 1, beta_ms: 5}")).toBe(20);
    expect(batchMax("{alpha_ms: 0, beta_ms: 5}")).toBe(1024);
    expect(batchMax("{table_ms: [5, 6, 7]}")).toBe(3);
    expect(batchMax("{table_ms: [5, 6, 70]}")).toBe(2);
    expect(batchMax("{alpha_ms: 1, beta_ms: 5}", ", batch_max: 4")).toBe(4);
    expect(batchMax("{alpha_ms: 1, beta_ms: 5}", ", batch_max: 40")).toBe(40);
  });
  it("makes copies with names of their own", () => {
    const text = scenario([model("m", ", count: 3")], "arrivals: {process: poisson, rate_rps: 30}");
    expect(expand(text).models.map(({ name }) => name)).toEqual(["m-1", "m-2", "m-3"]);
    expect(rates(text)).toEqual([10, 10, 10]);
  });
  it("copies share one table, so that 10,000 of them fit in memory, and one error", () => {
    const { models } = expand(
      scenario([model("m", ", count: 3"), model("n")], "arrivals: {process: poisson, rate_rps: 30}"),
    );
    expect(models[2]!.execUs).toBe(models[0]!.execUs);
    expect(models[3]!.execUs).not.toBe(models[0]!.execUs);
    const short = "{name: m, count: 3, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 2}";
    expect(() => expand(scenario([short], "arrivals: {process: poisson, rate_rps: 30}"))).toThrow(
      /^test\.yaml:2: models\[0\]\.slo_ms: [^\n]*was 2$/,
    );
  });
  it("takes models of a zoo, all, by batching effect, or by name and in that order", () => {
    const names = (select: string) =>
      expand(
        `accelerators: 1\nmodels_from: {zoo: a100, select: ${select}}\narrivals: {process: poisson, rate_rps: 1}`,
      ).models.map(({ name }) => name);
    expect(names("all")).toHaveLength(37);
    expect(names("strong").length + names("weak").length).toBe(37);
    expect(names("weak")).toContain("BERT");
    expect(names("strong")).toContain("ResNet50");
    expect(names("[VGG19, ResNet50]")).toEqual(["VGG19", "ResNet50"]);
  });
});

describe("expandScenario: rates", () => {
  it("splits a total equally, by Zipf over the order of models, or by share", () => {
    const three = [model("a"), model("b"), model("c")];
    expect(rates(scenario(three, "arrivals: {process: poisson, rate_rps: 30}"))).toEqual([10, 10, 10]);
    const zipf = rates(scenario(three, "arrivals: {process: poisson, rate_rps: 110}\npopularity: {zipf: 1}"));
    expect(zipf.map((rate) => Math.round(rate * 1e6) / 1e6)).toEqual([60, 30, 20]);
    const shares = [model("a", ", share: 9"), model("b", ", share: 1")];
    expect(rates(scenario(shares, "arrivals: {process: poisson, rate_rps: 50}"))).toEqual([45, 5]);
  });
  it("takes models' own rates as they are", () => {
    expect(
      rates(scenario([model("a", ", rate_rps: 3"), model("b", ", rate_rps: 0")], "arrivals: {process: poisson}")),
    ).toEqual([3, 0]);
  });
  it("withRate keeps the parts and sets the total", () => {
    const before = expand(
      scenario([model("a", ", rate_rps: 3"), model("b", ", rate_rps: 1")], "arrivals: {process: poisson}"),
    );
    const after = withRate(before, 100);
    expect(after.models.map(({ rateRps }) => rateRps)).toEqual([75, 25]);
    expect(totalRate(after)).toBe(100);
    expect(totalRate(before)).toBe(4);
    expect(() => withRate(before, 0)).toThrow(/rate_rps: must be a number greater than 0; was 0/);
    expect(() => withRate(before, Number.NaN)).toThrow(ConfigError);
    expect(() => withRate(before, 1e12)).toThrow(/at most 2000000000 requests/);
  });
  it("turns steps into factors around the mean over the duration", () => {
    const text = scenario(
      [model("a")],
      "duration_s: 60\narrivals: {process: poisson, rate_rps: 600, steps: [{at_s: 20, rate_rps: 1500}, {at_s: 40, rate_rps: 600}, {at_s: 70, rate_rps: 9}]}",
    );
    const { arrivals, models } = expand(text);
    expect(models[0]!.rateRps).toBe(900);
    if (arrivals.kind !== "renewal") throw new Error("not renewal");
    expect([...arrivals.modulation!.atUs]).toEqual([0, 20e6, 40e6]);
    expect([...arrivals.modulation!.factor].map((factor) => factor * 900)).toEqual([600, 1500, 600]);
  });
  it("a model's own steps are factors of its own rate; the total follows, the others stay", () => {
    const { models, arrivals } = expand(
      scenario(
        [
          model("a", ", rate_rps: 100, steps: [{at_s: 0, factor: 1}, {at_s: 15, factor: 3}]"),
          model("b", ", rate_rps: 50"),
        ],
        "duration_s: 60\narrivals: {process: poisson}",
      ),
    );
    expect(models.map(({ rateRps }) => rateRps)).toEqual([250, 50]);
    expect([...models[0]!.modulation!.atUs]).toEqual([0, 15e6]);
    expect([...models[0]!.modulation!.factor]).toEqual([0.4, 1.2]);
    expect(models[1]!.modulation).toBeUndefined();
    expect(arrivals).toMatchObject({ kind: "renewal", modulation: null });
  });
  it.each([
    [
      "steps: [{at_s: 1, factor: 2}]",
      "arrivals: {process: poisson, rate_rps: 9}",
      "models[0].steps[0].at_s: must be 0; was 1",
    ],
    [
      "steps: [{at_s: 0, factor: 2}, {at_s: 0, factor: 1}]",
      "arrivals: {process: poisson, rate_rps: 9}",
      "models[0].steps[1].at_s: must be greater than the step before (0); was 0",
    ],
    [
      "steps: [{at_s: 0, factor: 2}]",
      "arrivals: {process: poisson, steps: [{at_s: 0, rate_rps: 9}]}",
      "must not stand beside arrivals.steps",
    ],
  ])("refuses %s with %s", (steps, rest, message) => {
    expect(() => expand(scenario([model("a", `, ${steps}`)], rest))).toThrow(message);
  });
  it("counts missing arrivals from 1 in the file and from 0 for the simulator", () => {
    const { arrivals } = loadScenario("scenarios/symphony/example-3-3-missing.yaml");
    expect(arrivals).toMatchObject({ kind: "renewal", gaps: "equal", missing: [12, 13, 14], modulation: null });
  });
});

describe("expandScenario: accelerators and faults", () => {
  it("lists accelerators in order, with their speeds", () => {
    const { accelerators } = loadScenario("scenarios/two-models.yaml");
    expect(accelerators.map(({ kind, scale }) => [kind, scale])).toEqual([
      ["fast", 1],
      ["fast", 1],
      ["slow", 1.5],
      ["slow", 1.5],
    ]);
  });
  it("makes pauses pairs of events in order of time", () => {
    const text = `${scenario([model("a")], "arrivals: {process: poisson, rate_rps: 1}")}faults:
  - {at_s: 10, kind: slow, accelerator: 1, factor: 5, for_s: 5}
  - {at_s: 1, kind: fail, accelerator: 0, for_s: 2}
`;
    expect(expand(text).faults).toEqual([
      { at: 1e6, kind: "fail", accelerator: 0, factor: 1 },
      { at: 3e6, kind: "recover", accelerator: 0, factor: 1 },
      { at: 10e6, kind: "slow", accelerator: 1, factor: 5 },
      { at: 15e6, kind: "slow", accelerator: 1, factor: 1 },
    ]);
  });
  it("an accelerator whose first fault is a join is absent from the start", () => {
    const { accelerators } = loadScenario("scenarios/faults/grow-and-shrink.yaml");
    expect(accelerators.map(({ present }) => present)).toEqual([true, true, true, false]);
  });
});

describe("overrides", () => {
  const text = `${scenario([model("a")], "arrivals: {process: poisson, rate_rps: 1}")}policy: timeout\npolicy_options: {timeout_fraction: 0.5}\n`;
  it("another policy starts from its own defaults, the same one keeps the scenario's options", () => {
    expect(expand(text).policyOptions).toMatchObject({ timeout_fraction: 0.5 });
    expect(expand(text, { policy: "timeout" }).policyOptions).toMatchObject({ timeout_fraction: 0.5 });
    const eager = expand(text, { policy: "eager" });
    expect(eager.policy).toBe("eager");
    expect(eager.policyOptions).toEqual({ drop: "infeasible", rate_window_s: 5, target: "auto" });
  });
  it("one of two exclusive options replaces the other", () => {
    const { policyOptions } = expand(text, { policyOptions: { timeout_ms: 3 } });
    expect(policyOptions.timeout_ms).toBe(3);
    expect(policyOptions.timeout_fraction).toBeUndefined();
  });
  it("rate, seed and duration win over the file", () => {
    const overridden = expand(text, { rateRps: 7, seed: 9, durationS: 3 });
    expect([totalRate(overridden), overridden.seed, overridden.durationUs]).toEqual([7, 9, 3e6]);
  });
  it("a wrong option names the command line", () => {
    expect(() => expand(text, { policyOptions: { timeout_ms: -1 } })).toThrow(
      "command line: policy_options.timeout_ms: must be at least 0; was -1",
    );
    expect(() => expand(text, { policy: "eagre" })).toThrow(
      /command line: policy: must be one of .*did you mean eager\?/,
    );
  });
});

describe("data files", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "rubato-config-"));
    for (const name of ["scenarios", "data"]) mkdirSync(path.join(folder, name));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const put = (name: string, text: string) => {
    writeFileSync(path.join(folder, name), text);
    return path.join(folder, name);
  };
  const traced = (arrivals: string) => scenario([model("a"), model("b")], `arrivals: ${arrivals}`);

  it("a trace is found beside the scenario, else in the data folder, and sets the duration", () => {
    const file = put("scenarios/s.yaml", traced("{process: trace, trace: t.csv, scale: 2}"));
    const dataDir = path.join(folder, "data");
    put("data/t.csv", "# origin\nsecond,requests_per_second\n100,10\n160,30\n");
    const fromData = loadScenario(file, { dataDir });
    expect(fromData.durationUs).toBe(120e6);
    expect(totalRate(fromData)).toBe(40);
    if (fromData.arrivals.kind !== "renewal") throw new Error("not renewal");
    expect([...fromData.arrivals.modulation!.factor]).toEqual([0.5, 1.5]);
    put("scenarios/t.csv", "second,requests_per_second\n0,5\n");
    expect(totalRate(loadScenario(file, { dataDir }))).toBe(10);
    expect(() => loadScenario(file, { durationS: 2 })).toThrow(
      /duration_s: must be at most the length of .*\(1 s\); was 2/,
    );
  });
  it("a missing trace is answered with where it was looked for", () => {
    const file = put("scenarios/s.yaml", traced("{process: trace, trace: t.csv}"));
    const dataDir = path.join(folder, "data");
    expect(() => loadScenario(file, { dataDir })).toThrow(
      `"t.csv" is not in ${path.join(folder, "scenarios")} or ${dataDir}`,
    );
  });
  it("a link out of the folder is refused", () => {
    const file = put("scenarios/s.yaml", traced("{process: trace, trace: t.csv}"));
    put("t.csv", "second,requests_per_second\n0,5\n");
    symlinkSync(path.join(folder, "t.csv"), path.join(folder, "scenarios", "t.csv"));
    expect(() => loadScenario(file)).toThrow(/link that leaves/);
  });
  it("a replay gives its requests and cannot be given another rate", () => {
    const file = put("scenarios/s.yaml", traced("{process: replay, replay: r.csv}"));
    put("scenarios/r.csv", "at_us,model,app\n0,b,x\n500000,a,y\n999999,b,x\n");
    const replayed = loadScenario(file);
    if (replayed.arrivals.kind !== "replay") throw new Error("not replay");
    expect(replayed.durationUs).toBe(1e6);
    expect([...replayed.arrivals.model]).toEqual([1, 0, 1]);
    expect([...replayed.arrivals.atUs]).toEqual([0, 500_000, 999_999]);
    expect(replayed.arrivals.appNames).toEqual(["x", "y"]);
    expect([...replayed.arrivals.app!]).toEqual([0, 1, 0]);
    expect(totalRate(replayed)).toBe(3);
    expect(() => loadScenario(file, { rateRps: 5 })).toThrow(/cannot override a replay/);
    const cut = loadScenario(file, { durationS: 0.6 });
    expect(cut.arrivals.kind === "replay" && cut.arrivals.atUs.length).toBe(2);
    put("scenarios/r.csv", "at_us,model\n0,bb\n");
    expect(() => loadScenario(file)).toThrow(/must name models of the scenario; was "bb"; did you mean/);
  });
  it("the option wins over RUBATO_DATA; empty means none", () => {
    expect(dataDirOf("a", { RUBATO_DATA: "b" })).toBe("a");
    expect(dataDirOf(undefined, { RUBATO_DATA: "b" })).toBe("b");
    expect(dataDirOf(undefined, { RUBATO_DATA: "" })).toBeNull();
    expect(dataDirOf(undefined, {})).toBeNull();
  });
  it("JSON scenarios read like YAML ones", () => {
    const file = put(
      "scenarios/s.json",
      JSON.stringify(parseScenario(scenario([model("a")], "arrivals: {process: poisson, rate_rps: 5}"))),
    );
    expect(totalRate(loadScenario(file))).toBe(5);
  });
});

describe("ready scenarios", () => {
  const files = readdirSync("scenarios", { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".yaml"),
  );
  it.each(files)("%s is valid and named by what it holds", (name) => {
    expect(loadScenario(path.join("scenarios", name)).name).not.toBe("");
  });
});
