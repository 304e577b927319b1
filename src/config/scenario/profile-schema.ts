/** What a batch takes: by its size, and where the model is elastic by how much work each member gets. */
import { z } from "zod";
import { nameSchema } from "./name.js";

export const BATCH_SIZE_MAX = 1024;
export const MS_MAX = 3_600_000;
export const DURATION_S_MAX = 31 * 86_400;
/** As far as BatchTable.variant and plans by all of them make sense. */
export const VARIANTS_MAX = 64;
const GAMMA_MAX = 10_000;

const linear = {
  alpha_ms: z.number().min(0).max(MS_MAX).describe("Milliseconds that each request adds to a batch."),
  beta_ms: z.number().min(0).max(MS_MAX).describe("Milliseconds that a batch costs whatever its size."),
};
const table = {
  table_ms: z
    .array(z.number().gt(0).max(MS_MAX))
    .min(1)
    .max(BATCH_SIZE_MAX)
    .describe("Measured milliseconds of a batch of 1, 2, 3, ...; never decreasing. Its length bounds batch_max."),
};

const variant = {
  gamma: z
    .int()
    .min(-GAMMA_MAX)
    .max(GAMMA_MAX)
    .describe("Tokens added (> 0) or removed (< 0) in each layer. One entry without `model` has 0."),
  model: nameSchema
    .optional()
    .describe("Another model of a family (INFaaS: a smaller or larger one). Default: the model itself."),
  load_ms: z
    .number()
    .min(0)
    .max(MS_MAX)
    .default(0)
    .describe("Milliseconds that an accelerator is blocked for which held another model of the family before."),
  run_mb: z
    .number()
    .min(0)
    .max(1e9)
    .default(0)
    .describe(
      "Megabytes that each member of a batch needs while it runs (OTAS Eq. 1c). Read by policies that bound them.",
    ),
};

const elastic = z.strictObject({
  by_gamma: z
    .array(z.union([z.strictObject({ ...variant, ...linear }), z.strictObject({ ...variant, ...table })]))
    .min(1)
    .max(VARIANTS_MAX)
    .describe(
      "Times of an elastic model: l(b) for each number of tokens added or removed. Policies that do not choose run it with 0.",
    ),
});

export const profile = z
  .union([z.strictObject(linear), z.strictObject(table), elastic])
  .describe(
    "Execution time l(b) of a batch of b: alpha_ms * b + beta_ms, or a measured table; of an elastic model by_gamma, with tasks.",
  );

export type ScenarioProfile = z.output<typeof profile>;
export type ScenarioVariant = z.output<typeof elastic>["by_gamma"][number];
/** What says how long a batch of one way of running the model takes. */
export type TimedBySize = Exclude<ScenarioProfile, { readonly by_gamma: unknown }> | ScenarioVariant;
