/** Groups and pipelines that cannot be: each message names the place, the bound and the value, and both ends of an edge. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { refusal as refusalOf } from "../../../../test/support/refusal.js";
import { ConfigError } from "../../config-error.js";
import { parseSource, sourceOf } from "../../source.js";
import { groupsOf, loadScenarioFrom } from "../scenario.js";

const scenario = (pipelines: string, more = "", models = ""): string => `
groups:
  - { name: g, accelerators: 2 }
  - { name: h, accelerators: 1, policy: eager }
models:
  - { name: a, group: g, profile: { alpha_ms: 1, beta_ms: 5 } }
  - { name: b, group: h, profile: { alpha_ms: 1, beta_ms: 5 } }
${models}
pipelines:
${pipelines}
arrivals: { process: poisson, rate_rps: 100 }
${more}`;
const modules = (...lines: readonly string[]): string =>
  ["  - name: p", "    slo_ms: 100", "    modules:", ...lines.map((line) => `      - ${line}`)].join("\n");
const GOOD = modules("{ id: 0, name: a, pres: [], subs: [1] }", "{ id: 1, name: b, pres: [0], subs: [] }");
const one = (keys: string): string => modules(`{ id: 0, name: a${keys} }`, "{ id: 1, name: b, pres: [0] }");

const load = (text: string) => loadScenarioFrom(parseSource(text, "bad.yaml"));
const refusal = (text: string): string => refusalOf(() => load(text));

/** Requests of two apps that take the ways of the first module unlike. */
const forked = (branch: string, apps = "[{ name: x, share: 3 }, { name: y }]"): string =>
  scenario(`
  - name: p
    slo_ms: 100
    apps: ${apps}
    modules:
      - { id: 0, name: a, subs: [1, 2], branch: ${branch} }
      - { id: 1, name: b, pres: [0] }
      - { id: 2, name: c, model: b, pres: [0] }
`);

describe("apps of pipelines", () => {
  it("a branch has probabilities for each, or the same for all", () => {
    const { apps, modules } = load(forked("{ x: [0.2, 0.8], y: [1, 0] }")).pipelines![0]!;
    expect([apps!.names, [...apps!.cumulative]]).toEqual([
      ["x", "y"],
      [0.75, 1],
    ]);
    expect(modules[0]!.ways!.map((each) => [...each])).toEqual([
      [0.2, 1],
      [1, 1],
    ]);
    expect(load(forked("[0.5, 0.5]")).pipelines![0]!.modules[0]!.ways!.map((each) => [...each])).toEqual([[0.5, 1]]);
  });

  it.each([
    [
      "{ x: [0.2, 0.8] }",
      undefined,
      "pipelines[0].modules[0].branch: must be a list, or name every app of the pipeline (x, y); named x",
    ],
    ["{ x: [0.2, 0.8], y: [1, 0], z: [1, 0] }", undefined, "name every app of the pipeline (x, y); named x, y, z"],
    ["{ constructor: [1, 0] }", "[{ name: constructor }, { name: y }]", "(constructor, y); named constructor"],
    ['{ "__proto__": [1, 0] }', undefined, "pipelines[0].modules[0].branch.__proto__: unknown key"],
    ["{ x: [0.2, 0.7], y: [1, 0] }", undefined, "pipelines[0].modules[0].branch.x: must sum up to 1"],
    ["{ x: [0.2, 0.2, 0.6], y: [1, 0] }", undefined, "must have a probability for each of the subs (2); has 3"],
    [
      "[1, 0]",
      "[{ name: x }, { name: x }]",
      'pipelines[0].apps[1].name: must be unique in the pipeline; was "x" twice',
    ],
  ])("branch %s, apps %s: %s", (branch, apps, message) => {
    expect(() => load(forked(branch, apps))).toThrow(message);
  });

  it("a branch by apps where there are none: refused, an empty one, too", () => {
    expect(() => load(forked("{}").replace(/\n +apps: .*/, ""))).toThrow(
      "branch: must be a list, or name every app of the pipeline (it has none); named none",
    );
  });
});

describe("groups and pipelines of scenarios", () => {
  it("a good one is expanded: groups by number, budgets' least times, queues' SLOs", () => {
    const { models, pipelines, ...rest } = load(scenario(GOOD, "policy: deferred"));
    expect(models.map(({ isInner, group = 0, sloUs }) => [isInner, group, sloUs])).toEqual([
      [true, 0, 50_000],
      [true, 1, 50_000],
    ]);
    expect(pipelines![0]!.modules.map(({ model, pres, subs }) => [model, pres, subs])).toEqual([
      [0, [], [1]],
      [1, [0], []],
    ]);
    const groups = groupsOf({ models, ...rest });
    expect(groups.map(({ name, first, count, policy }) => [name, first, count, policy])).toEqual([
      ["g", 0, 2, "deferred"],
      ["h", 2, 1, "eager"],
    ]);
  });

  it("a policy that is asked for is that of all groups", () => {
    const overridden = loadScenarioFrom(parseSource(scenario(GOOD), "x.yaml"), { policy: "timeout" });
    expect(groupsOf(overridden).map(({ policy }) => policy)).toEqual(["timeout", "timeout"]);
  });

  it("pipelines share the total rate with models that requests ask for", () => {
    const own = "  - { name: c, group: g, profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 50 }";
    const { models, pipelines } = load(scenario(GOOD, "", own));
    expect([...models.map(({ rateRps }) => rateRps), pipelines![0]!.rateRps]).toEqual([0, 0, 50, 50]);
  });

  test.each<[string, string, readonly string[]]>([
    [
      "a circle",
      scenario(modules("{ id: 0, name: a, pres: [1] }", "{ id: 1, name: b, pres: [0] }")),
      ["pipelines[0].modules[", "must not lead back to where they come from; was", "0 (a)", "1 (b)"],
    ],
    [
      "an id that no module has",
      scenario(one(", pres: [7]")),
      ["pipelines[0].modules[0].pres: of module 0 (a) must be ids of modules (0, 1); was 7"],
    ],
    [
      "an edge that one end does not know",
      scenario(one(", subs: []")),
      ["pipelines[0].modules[1].pres: of module 1 (b) names 0 (a), whose subs must name 1; were []"],
    ],
    [
      "a model that is not there",
      scenario(`${one(", model: a")}\n      - { id: 2, name: c, model: bb, pres: [1] }`),
      ['pipelines[0].modules[2].model: must be a model of the scenario; was "bb"; did you mean b?'],
    ],
    [
      "a module named for no model",
      scenario(`${one("")}\n      - { id: 2, name: c, pres: [1] }`),
      ['pipelines[0].modules[2].name: must be a model of the scenario; was "c"'],
    ],
    [
      "an SLO below the least",
      scenario(GOOD.replace("slo_ms: 100", "slo_ms: 11")),
      ["pipelines[0].slo_ms: of p must be at least the 12 ms", "was 11"],
    ],
    [
      "probabilities that do not sum up",
      scenario(
        modules(
          "{ id: 0, name: a, subs: [1, 2], branch: [0.5, 0.4] }",
          "{ id: 1, name: b, pres: [0] }",
          "{ id: 2, name: c, model: b, pres: [0] }",
        ),
      ),
      ["modules[0].branch: must sum up to 1; was 0.9"],
    ],
    [
      "a probability too few",
      scenario(
        modules(
          "{ id: 0, name: a, subs: [1, 2, 3], branch: [0.5, 0.5] }",
          "{ id: 1, name: b, pres: [0] }",
          "{ id: 2, name: c, model: b, pres: [0] }",
          "{ id: 3, name: d, model: b, pres: [0] }",
        ),
      ),
      ["modules[0].branch: must have a probability for each of the subs (3); has 2"],
    ],
    [
      "a branch whose order is not written",
      scenario(
        modules(
          "{ id: 0, name: a, branch: [0.5, 0.5] }",
          "{ id: 1, name: b, pres: [0] }",
          "{ id: 2, name: c, model: b, pres: [0] }",
        ),
      ),
      ["modules[0].subs: is required beside branch"],
    ],
    [
      "more weights than counts",
      scenario(one(", fan_out: { counts: [1, 2], weights: [1] }")),
      ["modules[0].fan_out.weights: must be as many as counts (2); were 1"],
    ],
    [
      "no weight",
      scenario(one(", fan_out: { counts: [1], weights: [0] }")),
      ["modules[0].fan_out.weights: must have one above 0; were all 0"],
    ],
    ["too many parts", scenario(one(", fan_out: 1001")), ["modules[0].fan_out", "1001"]],
    [
      "a join of nothing",
      scenario(one(", join: true")),
      ["modules[0].join: of module 0 (a) must bring the parts of one fan_out before it together"],
    ],
    [
      "options that the budget's rule does not look at",
      scenario(`${GOOD}\n    budget: { rule: overload, alpha: 0.2, lambda: 0.1 }`),
      ["pipelines[0].budget.lambda: goes only with rule forecast; overload does not look at it"],
    ],
    [
      "two pipelines of a name",
      scenario(`${GOOD}\n${GOOD}`),
      ['pipelines[1].name: must be unique among models and pipelines; was "p" twice'],
    ],
    [
      "a pipeline named as a model",
      scenario(GOOD.replace("name: p", "name: a")),
      ['pipelines[0].name: must be unique among models and pipelines; was "a" twice'],
    ],
    ["an unknown key of a module", scenario(one(", pre: []")), ["pipelines[0].modules[0].pre", "did you mean pres?"]],
    [
      "a budget that is none",
      scenario(GOOD.replace("slo_ms: 100", "slo_ms: 100\n    budget: halves")),
      ["pipelines[0].budget", "halves"],
    ],
    [
      "a model of no group",
      scenario(GOOD).replace("name: a, group: g", "name: a"),
      ["models[0].group: is required where there are several groups (g, h); was missing"],
    ],
    [
      "a group that is not there",
      scenario(GOOD).replace("name: a, group: g", "name: a, group: gg"),
      ['models[0].group: must be one of g, h; was "gg"; did you mean g?'],
    ],
    [
      "two groups of a name",
      scenario(GOOD).replace("name: h, acc", "name: g, acc"),
      ['groups[1].name: must be unique; was "g" twice'],
    ],
    [
      "groups beside accelerators",
      scenario(GOOD, "accelerators: 2"),
      ["groups: must not stand beside accelerators; were 2"],
    ],
    [
      "options of no policy",
      scenario(GOOD).replace("accelerators: 2 }", "accelerators: 2, policy_options: {} }"),
      ["groups[0].policy_options: goes only with a policy of the group's own"],
    ],
    [
      "a wrong option of a group's policy",
      scenario(GOOD).replace("policy: eager", "policy: timeout, policy_options: { timeout_ms: -1 }"),
      ["groups[1].policy_options.timeout_ms", "-1"],
    ],
    [
      "an SLO that is missing where requests ask for the model",
      scenario(GOOD, "", "  - { name: c, group: g, profile: { alpha_ms: 1, beta_ms: 5 } }"),
      ["models[2].slo_ms: is required"],
    ],
    [
      "a rate for some only",
      scenario(GOOD, "", "  - { name: c, group: g, profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 50, share: 1 }"),
      ["models[2].share: must be given for all models and pipelines that requests arrive for or for none"],
    ],
    ["autoscaling of several groups", scenario(GOOD, "autoscale: {}"), ["autoscale: does not go with"]],
    [
      "neither accelerators nor groups",
      "models: [{ name: a, slo_ms: 9, profile: { alpha_ms: 1, beta_ms: 1 } }]\narrivals: { process: poisson, rate_rps: 1 }\n",
      ["accelerators: is required"],
    ],
  ])("%s: refused", (_, text, says) => {
    const message = refusal(text);
    for (const words of says) expect(message).toContain(words);
  });

  it("any value in the place of groups or pipelines is accepted or refused, never another error", () => {
    const good = parseSource(scenario(GOOD), "x.yaml").value as Record<string, unknown>;
    const places = fc.constantFrom("groups", "pipelines", "modules", "module");
    fc.assert(
      fc.property(
        places,
        fc.jsonValue(),
        fc.constantFrom("pres", "subs", "fan_out", "branch", "join", "id"),
        (place, value, key) => {
          const [pipeline] = good.pipelines as [Record<string, unknown>];
          const [first, ...others] = pipeline.modules as [Record<string, unknown>];
          const changed =
            place === "groups" || place === "pipelines"
              ? { ...good, [place]: value }
              : place === "modules"
                ? { ...good, pipelines: [{ ...pipeline, modules: value }] }
                : { ...good, pipelines: [{ ...pipeline, modules: [{ ...first, [key]: value }, ...others] }] };
          try {
            loadScenarioFrom(sourceOf(changed, "bad.yaml"));
          } catch (error) {
            expect(error).toBeInstanceOf(ConfigError);
          }
        },
      ),
    );
  });
});
