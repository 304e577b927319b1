/** Groups and pipelines of a scenario: several schedulers, and requests that go from one to the next. */
import { z } from "zod";
import { MODULES_MAX } from "../../../system/pipeline.js";
import { PIPELINES_MAX } from "../../../system/system.js";
import { budgetField, moduleFields } from "../../pipeline-modules.js";
import { nameSchema } from "../name.js";

/** Parts that one request may make in one module. */
export const PARTS_MAX = 1000;

/** Classes of requests of one pipeline. */
const APPS_MAX = 1000;
const probabilities = z.array(z.number().min(0).max(1)).min(2).max(MODULES_MAX);

const moduleSchema = z.strictObject({
  ...moduleFields,
  model: nameSchema.optional().describe("The model of `models` that it runs. Default: the one of its name."),
  fan_out: z
    .union([
      z.int().min(0).max(PARTS_MAX),
      z.strictObject({
        counts: z
          .array(z.int().min(0).max(PARTS_MAX))
          .min(1)
          .max(1024)
          .describe("Numbers of parts that occur; 0: a request may make none."),
        weights: z
          .array(z.number().min(0).max(1e9))
          .min(1)
          .max(1024)
          .optional()
          .describe("How often each occurs. Default: equally."),
      }),
    ])
    .optional()
    .describe(
      "A request makes this many parts here, drawn by the seed; each goes on by itself until a module with join.",
    ),
  join: z
    .boolean()
    .default(false)
    .describe(
      "Waits for all parts of the fan_out before it and is one request again; where there are no parts it runs all the same.",
    ),
  branch: z
    .union([
      probabilities,
      z
        .record(nameSchema, probabilities)
        .describe("Of requests of each app of the pipeline, by its name; all of them must be there."),
    ])
    .optional()
    .describe(
      "A request takes one of the subs, in their order with these probabilities (their sum is 1). Default: all subs.",
    ),
});

export const pipelineSchema = z.strictObject({
  name: nameSchema.describe("Unique among pipelines and models; requests arrive for it, and per_model shows it."),
  slo_ms: z
    .number()
    .gt(0)
    .max(3_600_000)
    .describe("Milliseconds from arrival to the one deadline of the whole request."),
  share: z.number().gt(0).max(1e6).optional().describe("As models[].share."),
  rate_rps: z.number().min(0).max(1e8).optional().describe("As models[].rate_rps."),
  budget: budgetField,
  apps: z
    .array(
      z.strictObject({
        name: nameSchema.describe("Unique in the pipeline."),
        share: z.number().gt(0).max(1e9).default(1).describe("Weight among the pipeline's requests."),
      }),
    )
    .min(1)
    .max(APPS_MAX)
    .optional()
    .describe("Classes of the pipeline's requests, drawn by the seed; they may take ways with other probabilities."),
  modules: z
    .array(moduleSchema)
    .min(1)
    .max(MODULES_MAX)
    .describe("The graph: a vertex each, with the ids of what leads to it and of what it leads to."),
});

export const pipelines = z
  .array(pipelineSchema)
  .min(1)
  .max(PIPELINES_MAX)
  .describe(
    "Requests that go through several models and have one deadline. docs/pipelines.md explains them by example.",
  );

export type ScenarioPipeline = z.output<typeof pipelineSchema>;
export type ScenarioModule = z.output<typeof moduleSchema>;
