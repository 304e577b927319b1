/** What modules of a pipeline say of themselves, in a scenario and in a model repository alike (PARD: name, id, pres, subs). */
import { z } from "zod";
import { EXECUTIONS, JOINS, WAYS } from "../system/ahead/ahead.js";
import {
  BUDGET_DEFAULTS,
  BUDGET_RULES,
  type BudgetRule,
  type BudgetSpec,
  ESTIMATES,
} from "../system/budget/budget-spec.js";
import { MODULES_MAX, type ModuleSpec } from "../system/pipeline.js";
import { DEFAULT_BUDGETS, defaultBudget } from "./default-budget.js";
import { nameSchema } from "./scenario/name.js";

const id = z.int().min(0).max(1_000_000);

export const moduleFields = {
  id: id.describe("Unique in the pipeline; what pres and subs name."),
  name: nameSchema.describe("Unique in the pipeline; shown in reports, metrics and errors."),
  pres: z
    .array(id)
    .max(MODULES_MAX)
    .default([])
    .describe("Ids of the modules that lead to it; none: requests begin here."),
  subs: z
    .array(id)
    .max(MODULES_MAX)
    .optional()
    .describe(
      "Ids of the modules that it leads to. Default: those that name it in pres; where both are given they must agree. Required beside branch, which goes by their order.",
    ),
  soft: z
    .boolean()
    .default(false)
    .describe(
      "May be missing: dropped or failed, it does not end the request; what follows goes on with a default value.",
    ),
};

const rule = z.enum(BUDGET_RULES).describe("As without options: see budget.");

export const budgetField = z
  .union([
    rule,
    z.strictObject({
      rule,
      lambda: z
        .number()
        .min(0)
        .max(1)
        .default(BUDGET_DEFAULTS.lambda)
        .describe(
          "forecast: part of requests whose waits in batches of later modules are at most what is reckoned with. 0: no wait; 1: whole executions.",
        ),
      executions: z
        .enum(EXECUTIONS)
        .default(BUDGET_DEFAULTS.executions)
        .describe(
          "forecast: mean: a later module takes its mean execution time; distribution: lambda is of executions and waits together, as both were.",
        ),
      ways: z
        .enum(WAYS)
        .default(BUDGET_DEFAULTS.ways)
        .describe(
          "forecast, where a module branches: longest: a request takes the way that takes longest; learnt: each of those that are still before it, as " +
            "often as requests of its app took them within window_s.",
        ),
      joins: z
        .enum(JOINS)
        .default(BUDGET_DEFAULTS.joins)
        .describe(
          "forecast, where requests make parts: one: all take as long as one; slowest: as long as the slowest of as many as there are, or, before " +
            "they are made, as there were within window_s.",
        ),
      window_s: z
        .int()
        .min(1)
        .max(60)
        .default(BUDGET_DEFAULTS.windowS)
        .describe("forecast, durations, worst, overload: seconds over which modules measure, the last weighing most."),
      estimates: z
        .enum(ESTIMATES)
        .default(BUDGET_DEFAULTS.estimates)
        .describe(
          "forecast: what a module with batches of one (a step, a service elsewhere, text that is generated) is taken to need. profiles: in its own queue its profile. recent: what its " +
            "parts needed lately, or, where it is known by their lengths alone, that; nobody there waits for a batch. foreseen: as recent, and lengths of answers are known beforehand (in the simulator).",
        ),
      alpha: z
        .number()
        .gt(0)
        .max(1)
        .default(BUDGET_DEFAULTS.alpha)
        .describe("overload: part of what comes that is refused while a module is overloaded."),
      threshold_ms: z
        .number()
        .min(0)
        .max(3_600_000)
        .default(BUDGET_DEFAULTS.thresholdUs / 1000)
        .describe("overload: mean queueing delay from which on a module is overloaded."),
    }),
  ])
  .optional()
  .describe(
    `What the queue of a module must reach, of the request's one deadline: a rule, or a rule with its options. Default: ${DEFAULT_BUDGETS}. share: its share of the time ` +
      "that is left, by the times of one request in the modules from here on, along the longest way; measured: the same by the times that " +
      "parts took in the modules in the last second or so; staggered: all but " +
      "what the modules after it take in planned batches while all their accelerators run such, or its share where that is more, and where modules share accelerators a request is let in only if it ends behind all that is begun; rest: all but the times of one request of the modules after it; whole: the deadline " +
      "itself, as if nothing followed; forecast: all but what the modules after it are expected to take, by what they say of their queues, batches " +
      "and waits (PARD); durations: all but their executions; split: a fixed part of the SLO, by planned times; worst: the same by the longest times " +
      "lately; overload: the deadline, with a part refused at and before a module whose queueing is too long.",
  );

/** Rules that an option says something of; of the others, all. */
const RULES_OF: Readonly<Record<string, readonly BudgetRule[]>> = {
  lambda: ["forecast"],
  executions: ["forecast"],
  ways: ["forecast"],
  joins: ["forecast"],
  estimates: ["forecast"],
  alpha: ["overload"],
  threshold_ms: ["overload"],
};

/** Options beside a rule that they say nothing of. @param written as the file has it, before defaults. */
export function idleOptions(written: unknown): { readonly key: string; readonly text: string }[] {
  if (written === null || typeof written !== "object") return [];
  const { rule: own, ...options } = written as { rule?: BudgetRule } & Record<string, unknown>;
  return Object.keys(options).flatMap((key) => {
    const rules = RULES_OF[key];
    return own === undefined || rules === undefined || rules.includes(own)
      ? []
      : { key, text: `goes only with rule ${rules.join(", ")}; ${own} does not look at it` };
  });
}

/** As a file writes it, defaults filled in. */
export type WrittenBudget = NonNullable<z.output<typeof budgetField>>;

/** @param policies of the groups that the pipeline's modules run on: what it has that names none. See defaultBudget. */
export function budgetSpec(written: WrittenBudget | undefined, policies: Iterable<string | null>): BudgetSpec {
  if (written === undefined) return { ...BUDGET_DEFAULTS, rule: defaultBudget(policies) };
  if (typeof written === "string") return { ...BUDGET_DEFAULTS, rule: written };
  const { window_s: windowS, threshold_ms: thresholdMs, ...rest } = written;
  return { ...rest, windowS, thresholdUs: Math.round(thresholdMs * 1000) };
}

/** The shortest that a file would say: the rule, with the options that are not its defaults. */
export function writtenBudget({ rule, ...spec }: BudgetSpec): string | Readonly<Record<string, unknown>> {
  const { windowS, thresholdUs, ...rest } = spec;
  const options = Object.entries({ ...rest, window_s: windowS, threshold_ms: thresholdUs / 1000 });
  const { windowS: window_s, thresholdUs: defaultUs, ...defaults } = BUDGET_DEFAULTS;
  const usual: Readonly<Record<string, unknown>> = { ...defaults, window_s, threshold_ms: defaultUs / 1000 };
  const own = options.filter(([key, value]) => value !== usual[key]);
  return own.length === 0 ? rule : { rule, ...Object.fromEntries(own) };
}

interface WrittenModule extends Omit<z.output<z.ZodObject<typeof moduleFields>>, "subs"> {
  readonly subs?: number[] | undefined;
  readonly fan_out?: unknown;
  readonly join?: boolean;
  readonly branch?: unknown;
}

/** Subs that are not written follow from the others' pres. */
export function moduleSpecs(modules: readonly WrittenModule[]): ModuleSpec[] {
  return modules.map(({ id, name, pres, subs, soft, fan_out: fanOut, join, branch }) => ({
    id,
    name,
    pres,
    subs: subs ?? modules.filter((other) => other.pres.includes(id)).map((other) => other.id),
    isSoft: soft,
    fansOut: fanOut !== undefined,
    joins: join ?? false,
    branches: branch !== undefined,
  }));
}
