/** A published system's policy brings its budget, in the simulator and in a repository; what is written stands over it. */
import { describe, expect, it, test } from "vitest";
import { pipelineText, resolverOf } from "../../test/support/pipeline-files.js";
import { modelSpec, tensorSpec } from "../../test/support/specs.js";
import { POLICY_NAMES, policyNamed } from "../policies/registry.js";
import { simulate } from "../sim/simulate.js";
import { BUDGET_DEFAULTS, BUDGET_RULES } from "../system/budget/budget-spec.js";
import { defaultBudget } from "./default-budget.js";
import { budgetSpec, type WrittenBudget, writtenBudget } from "./pipeline-modules.js";
import { loadScenarioFrom, type ScenarioOverrides } from "./scenario/scenario.js";
import { parseSource } from "./source.js";

const PUBLISHED = [
  ["pard", "forecast"],
  ["clipper++", "split"],
  ["naive", "whole"],
  ["nexus", "whole"],
] as const;

test("what policies name are rules and options that there are, and these name one", () => {
  const named = POLICY_NAMES.flatMap((name) => {
    const { inPipelines, options } = policyNamed(name);
    if (inPipelines === null) return [];
    expect(BUDGET_RULES).toContain(inPipelines.budget);
    for (const [key, value] of Object.entries(inPipelines.options ?? {}))
      expect(options[key]).toMatchObject({ type: "choice", of: expect.arrayContaining([value]) });
    return [[name, inPipelines.budget]];
  });
  expect(named).toEqual(PUBLISHED);
});

describe("defaultBudget", () => {
  it.each(PUBLISHED)("%s: %s", (policy, rule) => expect(defaultBudget([policy, policy])).toBe(rule));
  it("is that of several policies that name the same", () => expect(defaultBudget(["naive", "nexus"])).toBe("whole"));
  it.each([[["pard", "clipper++"]], [["pard", "eager"]], [["pard", null]], [["auto"]], [[null]], [[]]])(
    "%j: staggered",
    (policies) => expect(defaultBudget(policies)).toBe("staggered"),
  );
});

const scenario = (budget: string, second = ""): string => `
duration_s: 3
groups:
  - { name: g, accelerators: 2 }
  - { name: h, accelerators: 1${second} }
models:
  - { name: a, group: g, profile: { alpha_ms: 1, beta_ms: 5 } }
  - { name: b, group: h, profile: { alpha_ms: 1, beta_ms: 5 } }
pipelines:
  - { name: p, slo_ms: 60, ${budget}modules: [{ id: 0, name: a }, { id: 1, name: b, pres: [0] }] }
arrivals: { process: poisson, rate_rps: 500 }
`;
const load = (overrides: ScenarioOverrides, text = scenario("")) =>
  loadScenarioFrom(parseSource(text, "s.yaml"), overrides);

describe("in the simulator", () => {
  it.each(PUBLISHED)("%s runs as with budget %s written, and the report says it", (policy, rule) => {
    const report = simulate(load({ policy }));
    expect(report.budgets).toEqual({ p: rule });
    expect(report).toEqual(simulate(load({ policy, budget: rule })));
  });
  it("a budget of the file or of the command line wins", () => {
    expect(simulate(load({ policy: "pard" }, scenario("budget: rest, "))).budgets).toEqual({ p: "rest" });
    expect(simulate(load({ policy: "pard", budget: "share" })).budgets).toEqual({ p: "share" });
  });
  it("groups with policies that do not name the same have the default", () => {
    const rules = ["", ", policy: pard", ", policy: eager"].map(
      (second) => load({}, `${scenario("", second)}policy: pard`).pipelines![0]!.budget.rule,
    );
    expect(rules).toEqual(["forecast", "forecast", "staggered"]);
  });
});

describe("in a repository", () => {
  const X = tensorSpec("x", "FP32", [-1, 1]);
  const models = ["a", "b"].map((name) => modelSpec({ name, inputs: [X], outputs: [X] }));
  const ruleOf = (policyOf: (model: string) => string | null, more = "") => {
    const spec = resolverOf(models, policyOf)(pipelineText(["{ id: 0, name: a }"], more));
    expect(spec.client.parameters?.["rubato.budget"]).toBe(spec.budget.rule);
    return spec.budget.rule;
  };
  it.each(PUBLISHED)("a group's %s: %s", (policy, rule) => expect(ruleOf(() => policy)).toBe(rule));
  it("a group without a policy, and what is written", () => {
    expect(ruleOf(() => null)).toBe("staggered");
    expect(ruleOf(() => "pard", "budget: share\n")).toBe("share");
  });
});

test("a budget is written as a file would say it", () => {
  const written: WrittenBudget[] = ["worst"];
  for (const each of written) expect(writtenBudget(budgetSpec(each, []))).toBe(each);
  const spec = { ...BUDGET_DEFAULTS, rule: "forecast", lambda: 0, windowS: 9, thresholdUs: 25_000 } as const;
  expect(writtenBudget(spec)).toEqual({ rule: "forecast", lambda: 0, window_s: 9, threshold_ms: 25 });
});
