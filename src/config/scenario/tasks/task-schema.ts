/** Tasks of an elastic model: kinds of requests that share its times and differ in what is promised, earned and answered right. */
import { z } from "zod";
import { nameSchema } from "../name.js";
import { DURATION_S_MAX, MS_MAX, VARIANTS_MAX } from "../profile-schema.js";

const TASKS_MAX = 1000;
const CHANGES_MAX = 1000;

const accuracy = z.array(z.number().min(0).max(1)).min(1).max(VARIANTS_MAX);

export const tasks = z
  .array(
    z.strictObject({
      name: nameSchema.describe("Unique in the model; per_kind shows it as model/task, and replays name it as app."),
      share: z
        .number()
        .gt(0)
        .max(1e9)
        .default(1)
        .describe("Weight among the model's requests. With a replay that names them it says nothing of what arrives."),
      utility: z
        .number()
        .min(0)
        .max(1e9)
        .default(1)
        .describe("What a request earns that is answered right and in time."),
      slo_ms: z
        .number()
        .gt(0)
        .max(MS_MAX)
        .optional()
        .describe("Milliseconds from arrival to deadline. Default: the model's."),
      accuracy: accuracy.describe(
        "How often an answer is right: one number for each entry of profile.by_gamma, in its order. What policies are told.",
      ),
      accuracy_changes: z
        .array(
          z.strictObject({
            at_s: z.number().gt(0).max(DURATION_S_MAX).describe("Seconds from the start of the run."),
            accuracy: accuracy.describe("Of requests that arrive from then on, as above. Policies are not told."),
          }),
        )
        .min(1)
        .max(CHANGES_MAX)
        .optional()
        .describe("The task becomes harder or easier, in order of time. Default: never."),
    }),
  )
  .min(1)
  .max(TASKS_MAX)
  .describe(
    "Kinds of requests of an elastic model. Whether a request is answered right at each gamma is drawn by the seed and its number, so that it is the " +
      "same under every policy; so is how sure the model is, whose mean is the accuracy. Only with profile.by_gamma.",
  );

export type ScenarioTask = z.output<typeof tasks>[number];
