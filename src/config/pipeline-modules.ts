/** What modules of a pipeline say of themselves, in a scenario and in a model repository alike (PARD: name, id, pres, subs). */
import { z } from "zod";
import { BUDGET_RULES } from "../system/budget.js";
import { MODULES_MAX, type ModuleSpec } from "../system/pipeline.js";
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
      "Ids of the modules that it leads to. Default: those that name it in pres; where both are given they must agree.",
    ),
  soft: z
    .boolean()
    .default(false)
    .describe(
      "May be missing: dropped or failed, it does not end the request; what follows goes on with a default value.",
    ),
};

export const budgetField = z
  .enum(BUDGET_RULES)
  .default("share")
  .describe(
    "What the queue of a module must reach, of the request's one deadline. share: its share of the time that is left, by the " +
      "times of one request in the modules from here on, along the longest way; measured: the same by the times that parts took " +
      "in the modules in the last second or so; rest: all but the times of one request of the modules after it; whole: the deadline " +
      "itself, as if nothing followed.",
  );

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
