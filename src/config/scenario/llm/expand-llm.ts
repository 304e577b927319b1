/** Groups that generate text, and their models, made plain. */
import type { FieldPath } from "../../config-error.js";
import type { IssueList } from "../../source.js";
import type { Scenario } from "../scenario-schema.js";
import type { ScenarioLlm, ScenarioTokens } from "./llm-schema.js";

/** Of a group: each has a row of its own in the scheduler's tables. */
const SLOTS_MAX = 65_536;

/** What an accelerator does in an iteration. */
export interface ExpandedLlm {
  readonly iterationUs: number;
  /** Of each sequence that generates a token. */
  readonly sequenceUs: number;
  /** Of each token of a prompt. */
  readonly prefillUs: number;
  readonly sequencesMax: number;
  /** In an iteration. */
  readonly tokensMax: number;
  /** Held by all sequences together. */
  readonly kvTokens: number;
}

/** Lengths that requests have. */
export interface ExpandedTokens {
  /** A request has ended with the first token of its answer, not with the last. */
  readonly endsFirst: boolean;
  /** Quantiles of parts 0 to 1 in equal steps; or lengths of one row after the other. */
  readonly input: Float64Array;
  readonly output: Float64Array;
  readonly areRows: boolean;
}

/** Lengths that were recorded, by row. */
export interface TokenRows {
  readonly input: Float64Array;
  readonly output: Float64Array;
}

export const expandLlm = (llm: ScenarioLlm): ExpandedLlm => ({
  iterationUs: llm.iteration_ms * 1000,
  sequenceUs: llm.sequence_ms * 1000,
  prefillUs: llm.prefill_ms * 1000,
  sequencesMax: llm.sequences_max,
  tokensMax: llm.tokens_max,
  kvTokens: llm.kv_tokens,
});

export function expandTokens(tokens: ScenarioTokens, rowsOf: (file: string) => TokenRows): ExpandedTokens {
  const endsFirst = tokens.ends === "first";
  if ("file" in tokens) return { endsFirst, areRows: true, ...rowsOf(tokens.file) };
  const quantiles = (length: typeof tokens.input): Float64Array =>
    typeof length === "number" ? Float64Array.of(length, length) : Float64Array.from(length.quantiles);
  return { endsFirst, areRows: false, input: quantiles(tokens.input), output: quantiles(tokens.output) };
}

const most = (lengths: Float64Array): number => lengths.reduce((longest, each) => Math.max(longest, each), 0);

/** Tokens of the longest request that occurs, at most. */
export function longestOf({ areRows, input, output }: ExpandedTokens): number {
  if (areRows) return most(input.map((tokens, row) => tokens + output[row]!));
  return Math.ceil(most(input)) + Math.ceil(most(output));
}

/** Rules between the fields of models with tokens and the groups that serve them. @param counts accelerators by group. */
export function checkLlm(scenario: Scenario, counts: readonly number[], issues: IssueList): void {
  const groups = scenario.groups ?? [];
  const llms = new Set(groups.filter(({ llm }) => llm !== undefined).map(({ name }) => name));
  if (llms.size > 0) checkRest(scenario, issues);
  for (const [index, group] of groups.entries())
    if (group.llm !== undefined) checkGroup(scenario, index, counts, issues);
  for (const [index, model] of (scenario.models ?? []).entries()) {
    const at = (field: string): FieldPath => ["models", index, field];
    const group = model.group ?? groups[0]?.name;
    const isLlm = group !== undefined && llms.has(group);
    if (model.tokens === undefined) {
      if (isLlm) issues.add(at("tokens"), `is required in group ${group}, which has llm; was missing`);
      continue;
    }
    if (!isLlm) issues.add(at("tokens"), `goes only with a group that has llm; was in ${group ?? "none"}`);
    if (model.batch_max !== 1)
      issues.add(
        at("batch_max"),
        `must be 1 beside tokens: iterations have no batches; was ${model.batch_max ?? "missing"}`,
      );
    for (const field of ["apps", "planning"] as const)
      if (model[field] !== undefined) issues.add(at(field), "does not go with tokens, which say what requests take");
    checkQuantiles(model.tokens, at("tokens"), issues);
  }
}

function checkRest({ learn, models_from: zoo, profiler }: Scenario, issues: IssueList): void {
  const refuse = (field: string, why: string): void =>
    issues.add([field], `does not go with groups that have llm: ${why}`);
  if (learn) refuse("learn", "their profiles say nothing of times; was true");
  if (profiler !== undefined) refuse("profiler", "nothing is run there again alone");
  if (zoo !== undefined) refuse("models_from", "its models have no tokens");
}

function checkGroup({ faults, groups }: Scenario, index: number, counts: readonly number[], issues: IssueList): void {
  const { llm, workers } = groups![index]!;
  const at = (...fields: string[]): FieldPath => ["groups", index, ...fields];
  if (llm!.tokens_max < llm!.sequences_max)
    issues.add(
      at("llm", "tokens_max"),
      `must be at least sequences_max (${llm!.sequences_max}); was ${llm!.tokens_max}`,
    );
  const slots = counts[index]! * llm!.sequences_max;
  if (slots > SLOTS_MAX)
    issues.add(
      at("llm", "sequences_max"),
      `must be at most ${SLOTS_MAX} over all ${counts[index]} accelerators; was ${slots}`,
    );
  if (workers !== undefined) issues.add(at("workers"), "does not go with llm: its accelerators stay");
  const first = counts.slice(0, index).reduce((all, count) => all + count, 0);
  const end = first + counts[index]!;
  for (const [fault, { accelerator }] of faults.entries())
    if (accelerator >= first && accelerator < end)
      issues.add(
        ["faults", fault, "accelerator"],
        `must not be in a group with llm ([${first}, ${end})); was ${accelerator}`,
      );
}

function checkQuantiles(tokens: ScenarioTokens, path: FieldPath, issues: IssueList): void {
  if ("file" in tokens) return;
  for (const field of ["input", "output"] as const) {
    const length = tokens[field];
    if (typeof length === "number") continue;
    const { quantiles } = length;
    for (let part = 1; part < quantiles.length; part++)
      if (quantiles[part]! < quantiles[part - 1]!)
        issues.add(
          [...path, field, "quantiles", part],
          `must be at least the one before it (${quantiles[part - 1]}); was ${quantiles[part]}`,
        );
  }
}
