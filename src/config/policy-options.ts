/** What each policy may be told, as schemas made from the options that the policy itself declares. */
import { z } from "zod";
import { assertNever } from "../core/invariant.js";
import type { ServedModel } from "../policies/descriptor.js";
import type { Option } from "../policies/options.js";
import { POLICY_NAMES, policyNamed } from "../policies/registry.js";
import { type FieldPath, nearest } from "./config-error.js";
import { IssueList, sourceOf } from "./source.js";
import { validateAt } from "./validate.js";

function bounded<S extends z.ZodNumber>(schema: S, { min, max }: { readonly min: number; readonly max: number }): S {
  return schema.min(min).max(max);
}

function schemaOf(option: Option): z.ZodType {
  switch (option.type) {
    case "boolean":
      return z.boolean().default(option.default);
    case "number":
    case "integer": {
      const schema = bounded(option.type === "integer" ? z.int() : z.number(), option);
      return option.default === undefined ? schema.optional() : schema.default(option.default);
    }
    case "choice":
      return z.enum(option.of).default(option.default);
    case "word-or-integer":
      return z
        .union([...option.words.map((word) => z.literal(word)), bounded(z.int(), option)])
        .default(option.default);
    case "integers":
      return z.array(bounded(z.int(), option)).min(1).max(option.lengthMax).optional();
    default:
      return assertNever(option);
  }
}

/** By policy. */
export const policyOptionSchemas: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  POLICY_NAMES.map((name) => {
    const { options, summary } = policyNamed(name);
    const shape = Object.entries(options).map(([key, option]) => [key, schemaOf(option).describe(option.meaning)]);
    return [name, z.strictObject(Object.fromEntries(shape)).describe(summary)];
  }),
);

export type PolicyOptions = Readonly<Record<string, unknown>>;

/**
 * Holds options against their policy's schema; violations go to `issues` at `base`. Defaults are filled in.
 * @param models that the policy is to serve, where they are known.
 */
export function validatePolicyOptions(
  policy: string,
  options: unknown,
  base: FieldPath,
  issues: IssueList,
  models: readonly ServedModel[] = [],
): PolicyOptions {
  const value = validateAt(policyOptionSchemas[policy]!, options, base, issues) as PolicyOptions | null;
  if (value === null) return {};
  const { exclusive, problems } = policyNamed(policy);
  for (const [key, other] of exclusive)
    if (value[key] !== undefined && value[other] !== undefined)
      issues.add([...base, other], `must not stand beside ${key}; were ${value[other]} and ${value[key]}`);
  for (const { at, text } of problems(value, models)) issues.add([...base, ...at], text);
  return value;
}

/** Options given on the command line over those of a scenario; one of two exclusive options replaces the other. */
export function mergePolicyOptions(inherited: PolicyOptions, given: PolicyOptions): PolicyOptions {
  const merged: Record<string, unknown> = { ...inherited };
  for (const [key, other] of POLICY_NAMES.flatMap((name) => policyNamed(name).exclusive)) {
    if (given[key] !== undefined) delete merged[other];
    if (given[other] !== undefined) delete merged[key];
  }
  return { ...merged, ...given };
}

/** For names and options that come from a command line. @throws ConfigError naming `origin`. */
export function resolvePolicy(
  name: string,
  options: PolicyOptions,
  origin: string,
): { policy: string; policyOptions: PolicyOptions } {
  const issues = new IssueList(sourceOf(null, origin));
  if (!POLICY_NAMES.includes(name)) {
    const near = nearest(name, POLICY_NAMES);
    const hint = near === null ? "" : `; did you mean ${near}?`;
    issues.add(["policy"], `must be one of ${POLICY_NAMES.join(", ")}; was ${JSON.stringify(name)}${hint}`);
    issues.throwIfAny();
  }
  const policyOptions = validatePolicyOptions(name, options, ["policy_options"], issues);
  issues.throwIfAny();
  return { policy: name, policyOptions };
}
