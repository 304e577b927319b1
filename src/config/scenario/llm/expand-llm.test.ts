/** Groups that generate text: what is understood, and each refusal names the place, the bound and the value. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it, test } from "vitest";
import { refusal as refusalOf } from "../../../../test/support/refusal.js";
import { parseSource } from "../../source.js";
import { type ExpandedScenario, groupsOf, loadScenario, loadScenarioFrom } from "../scenario.js";

const LLM = "iteration_ms: 11, sequence_ms: 0.1, prefill_ms: 0.2";
const scenario = ({
  llm = `{ ${LLM}, sequences_max: 8, tokens_max: 64, kv_tokens: 500 }`,
  tokens = "{ input: 10, output: { quantiles: [1, 90.5] } }",
  model = "batch_max: 1",
  accelerators = 2,
  more = "",
} = {}): string => `
groups: [{ name: g, accelerators: ${accelerators}, llm: ${llm} }, { name: h, accelerators: 1 }]
models:
  - { name: a, group: g, slo_ms: 100, profile: { alpha_ms: 0, beta_ms: 11 }, ${model}, tokens: ${tokens} }
  - { name: b, group: h, slo_ms: 100, profile: { alpha_ms: 1, beta_ms: 5 } }
arrivals: { process: poisson, rate_rps: 100 }
${more}`;

const load = (text: string): ExpandedScenario => loadScenarioFrom(parseSource(text, "bad.yaml"));
const refusal = (text: string): string => refusalOf(() => load(text));

describe("groups that generate text", () => {
  it("are understood in µs and whole tokens", () => {
    const expanded = load(scenario());
    expect(groupsOf(expanded).map(({ llm }) => llm)).toEqual([
      { iterationUs: 11_000, sequenceUs: 100, prefillUs: 200, sequencesMax: 8, tokensMax: 64, kvTokens: 500 },
      undefined,
    ]);
    expect(expanded.models.map(({ tokens }) => tokens)).toEqual([
      { endsFirst: false, areRows: false, input: Float64Array.of(10, 10), output: Float64Array.of(1, 90.5) },
      undefined,
    ]);
  });

  test.each([
    [
      { llm: `{ ${LLM}, sequences_max: 65, tokens_max: 64, kv_tokens: 500 }` },
      "groups[0].llm.tokens_max: must be at least sequences_max (65); was 64",
    ],
    [
      { llm: `{ ${LLM}, sequences_max: 8, tokens_max: 64, kv_tokens: 100 }` },
      "groups[0].llm.kv_tokens: must hold the longest request of its models (101 tokens); was 100",
    ],
    [
      { tokens: "{ input: 10, output: { quantiles: [5, 4] } }" },
      "models[0].tokens.output.quantiles[1]: must be at least the one before it (5); was 4",
    ],
    [{ model: "batch_max: 2" }, "models[0].batch_max: must be 1 beside tokens: iterations have no batches; was 2"],
    [
      { model: "apps: [{ name: x, time: { constant_ms: 1 } }]" },
      "models[0].apps: does not go with tokens, which say what requests take",
    ],
    [
      { more: "learn: true" },
      "learn: does not go with groups that have llm: their profiles say nothing of times; was true",
    ],
    [
      { accelerators: 10_000 },
      "groups[0].llm.sequences_max: must be at most 65536 over all 10000 accelerators; was 80000",
    ],
    [{ more: "profiler: {}" }, "profiler: does not go with groups that have llm: nothing is run there again alone"],
    [
      { more: "faults: [{ at_s: 1, kind: fail, accelerator: 1 }]" },
      "faults[0].accelerator: must not be in a group with llm ([0, 2)); was 1",
    ],
  ] as const)("%j is refused", (changes, message) => {
    expect(refusal(scenario(changes))).toContain(message);
  });

  it("and models with tokens go together", () => {
    expect(refusal(scenario().replace(", tokens: { input: 10, output: { quantiles: [1, 90.5] } }", ""))).toContain(
      "models[0].tokens: is required in group g, which has llm; was missing",
    );
    expect(refusal(scenario().replace("group: g,", "group: h,"))).toContain(
      "models[0].tokens: goes only with a group that has llm; was in h",
    );
  });
});

describe("lengths from a file", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-lengths-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const withFile = (csv: string): (() => ExpandedScenario) => {
    writeFileSync(path.join(folder, "lengths.csv"), csv);
    writeFileSync(path.join(folder, "s.yaml"), scenario({ tokens: "{ file: lengths.csv, ends: first }" }));
    return () => loadScenario(path.join(folder, "s.yaml"));
  };

  it("are taken row by row, comments passed over", () => {
    const { models } = withFile("# from somewhere\narrival_ms,input_tokens,output_tokens\n0,374,44\n9,396,100\n")();
    expect(models[0]!.tokens).toEqual({
      endsFirst: true,
      areRows: true,
      input: Float64Array.of(374, 396),
      output: Float64Array.of(44, 100),
    });
  });

  test.each([
    ["input_tokens,output_tokens\n0,1\n", 'input_tokens: must be a number in [1, 1000000]; was "0"'],
    ["input_tokens,output_tokens\n", "must have at least one request"],
    ["input_tokens,tokens\n1,1\n", "must have a column output_tokens; has input_tokens, tokens"],
    [
      "input_tokens,output_tokens\n400,101\n",
      "groups[0].llm.kv_tokens: must hold the longest request of its models (501 tokens); was 500",
    ],
  ])("%j is refused", (csv, message) => {
    expect(withFile(csv)).toThrow(message);
  });
});
