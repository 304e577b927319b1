/**
 * The scenario file: what arrives, what serves it, under which policy. Unknown keys are errors.
 *
 * Descriptions are the reference documentation (docs/configuration.md) and the published JSON Schema; rules between
 * fields, which a schema cannot say, are in scenario-rules.ts.
 */
import { z } from "zod";
import { POLICY_NAMES } from "../../policies/registry.js";
import { autoscaleKeys } from "../autoscale.js";
import { profilerKeys } from "../profiler.js";
import { workersField } from "../worker-rule.js";
import { apps, batchTime, planning, profiled } from "./apps/app-schema.js";
import { llm, tokens } from "./llm/llm-schema.js";
import { nameSchema } from "./name.js";
import { pipelines } from "./pipelines/pipeline-schema.js";
import { BATCH_SIZE_MAX, DURATION_S_MAX, MS_MAX, profile } from "./profile-schema.js";
import { tasks } from "./tasks/task-schema.js";
import { ZOO_NAMES } from "./zoo.js";

export { BATCH_SIZE_MAX } from "./profile-schema.js";

export const MODELS_MAX = 10_000;
export const ACCELERATORS_MAX = 65_536;
const US_MAX = 60_000_000;
const RATE_RPS_MAX = 1e8;
const MEMORY_MB_MAX = 1e9;
const COST_MAX = 1e12;
export const CLUSTERS_MAX = 1024;
const STEPS_MAX = 100_000;
const GROUPS_MAX = 256;

const scale = z
  .number()
  .gt(0)
  .max(1000)
  .default(1)
  .describe("Execution time relative to the profile: 1 = as profiled, 5 = five times slower.");

const acceleratorCount = z.int().min(1).max(ACCELERATORS_MAX);

const accelerators = z
  .union([
    acceleratorCount,
    z.strictObject({ count: acceleratorCount.describe("Number of equal accelerators.") }),
    z
      .array(
        z.strictObject({
          kind: nameSchema.default("emulated").describe("Label shown in reports."),
          count: acceleratorCount.default(1).describe("Number of accelerators of this kind."),
          scale,
          memory_mb: z
            .number()
            .gt(0)
            .max(MEMORY_MB_MAX)
            .optional()
            .describe("Megabytes of memory of each. Read by `rubato plan`; simulations do not bound memory."),
        }),
      )
      .min(1)
      .max(1024),
  ])
  .describe("A number of equal accelerators, or a list of kinds. Accelerators are numbered from 0 in this order.");

const network = z
  .strictObject({
    control_us: z
      .number()
      .min(0)
      .max(US_MAX)
      .default(0)
      .describe("Microseconds from the decision to dispatch until the accelerator knows (Symphony's d_ctrl)."),
    data_us_per_request: z
      .number()
      .min(0)
      .max(US_MAX)
      .default(0)
      .describe("Microseconds added per member of a batch for its input (Symphony's d_data)."),
    response_us: z
      .number()
      .min(0)
      .max(US_MAX)
      .default(0)
      .describe("Microseconds for the answer, taken off every deadline (Symphony's d_resp)."),
  })
  .describe("Delays around an execution: a batch of b starts control_us + b * data_us_per_request after its dispatch.");

const model = z.strictObject({
  name: nameSchema.describe("Unique; shown in reports and used by replays."),
  count: z
    .int()
    .min(1)
    .max(MODELS_MAX)
    .optional()
    .describe("Makes this many copies called name-1, name-2, ...; share or rate_rps is that of each copy."),
  profile,
  slo_ms: z
    .number()
    .gt(0)
    .max(MS_MAX)
    .optional()
    .describe(
      "Milliseconds from arrival to deadline. Where only modules of pipelines ask for the model: what its queue plans batches for; default: its part of the pipeline's.",
    ),
  group: nameSchema.optional().describe("The group that serves it. Required where there is more than one."),
  batch_max: z
    .int()
    .min(1)
    .max(BATCH_SIZE_MAX)
    .optional()
    .describe(
      `Largest batch. Default: the largest b with l(b) <= slo_ms, at most ${BATCH_SIZE_MAX}; of a module's model, its part of its pipeline's.`,
    ),
  share: z
    .number()
    .gt(0)
    .max(1e6)
    .optional()
    .describe("Weight in the split of the total rate; all models or none. Excludes popularity and rate_rps."),
  rate_rps: z
    .number()
    .min(0)
    .max(RATE_RPS_MAX)
    .optional()
    .describe("Requests per second of this model; all models or none. Excludes share, popularity and a total rate."),
  steps: z
    .array(
      z.strictObject({
        at_s: z.number().min(0).max(DURATION_S_MAX).describe("Seconds from the start of the run; the first is 0."),
        factor: z.number().min(0).max(1e6).describe("From then on the model's rate is this many times its own."),
      }),
    )
    .min(1)
    .max(STEPS_MAX)
    .optional()
    .describe(
      "Changes of this model's rate, in order of time: factors of its rate_rps or of its part of arrivals.rate_rps. " +
        "Excludes arrivals.steps, traces and replays.",
    ),
  apps: apps.optional(),
  batch_time: batchTime.optional(),
  profiled: profiled.optional(),
  planning: planning.optional(),
  tasks: tasks.optional(),
  tokens: tokens.optional(),
  memory_mb: z
    .number()
    .min(0)
    .max(MEMORY_MB_MAX)
    .optional()
    .describe(
      "Megabytes that the loaded model holds. Required by `rubato plan`; simulations do not bound memory. Zoo models have " +
        "4 bytes per published parameter.",
    ),
  dynamic_memory_mb: z
    .number()
    .min(0)
    .max(MEMORY_MB_MAX)
    .optional()
    .describe("Megabytes that one run of it needs beside memory_mb. Read by `rubato plan`. Default 0."),
  load_cost: z
    .union([z.number().min(0).max(COST_MAX), z.array(z.number().min(0).max(COST_MAX)).min(1).max(CLUSTERS_MAX)])
    .optional()
    .describe(
      "Cost of loading it, in the unit of plan.cost_max: anywhere, or a list of one per sub-cluster. Read by " +
        "`rubato plan`. Default 1, so that costs count moves.",
    ),
});

const plan = z
  .strictObject({
    clusters: z
      .int()
      .min(1)
      .max(CLUSTERS_MAX)
      .optional()
      .describe("Number of sub-clusters. `--clusters` overrides it."),
    rate_rps_max: z
      .number()
      .gt(0)
      .max(RATE_RPS_MAX)
      .optional()
      .describe("Requests per second that one sub-cluster may take (R_max). Default: no bound."),
    memory_mb_max: z
      .number()
      .gt(0)
      .max(MEMORY_MB_MAX)
      .optional()
      .describe(
        "Megabytes that the models of one sub-cluster may need on each accelerator: all memory_mb and the largest " +
          "dynamic_memory_mb (S_max). Default: the least accelerators[].memory_mb, else no bound.",
      ),
    memory_weight: z
      .number()
      .min(0)
      .max(1e6)
      .default(1)
      .describe("What a percent of uneven memory is worth, a percent of uneven load being worth 1."),
    cost_max: z
      .number()
      .min(0)
      .max(COST_MAX)
      .optional()
      .describe(
        "Bound on the load_cost of all models that are not where `--current` has them (C_max). A move counts once, as " +
          "the load at its new place. Default: no bound.",
      ),
  })
  .describe("How `rubato plan` parts the cluster into sub-clusters (Symphony Appendix A). Simulations do not read it.");

const autoscale = z
  .strictObject({
    dry_run: z
      .boolean()
      .default(true)
      .describe("true: the advice is reported and nothing follows it; false: accelerators start and leave as advised."),
    ...autoscaleKeys(ACCELERATORS_MAX, `the number of accelerators; with dry_run ${ACCELERATORS_MAX}`),
    initial: z
      .int()
      .min(1)
      .max(ACCELERATORS_MAX)
      .optional()
      .describe("Accelerators at the start, those of the lowest numbers. Only without dry_run. Default: max."),
    startup_s: z
      .number()
      .min(0)
      .max(3600)
      .default(30)
      .describe("Seconds from the decision until a new accelerator takes batches. Only without dry_run."),
  })
  .describe(
    "Advice on the number of accelerators from lost requests, idle time and queued work (Symphony §3.5), and following " +
      "it: those of the highest numbers leave, ending the batches they hold. docs/autoscaling.md explains the rules.",
  );

const policyName = z.enum(POLICY_NAMES);
const policyOptions = z.record(z.string(), z.unknown());

const groups = z
  .array(
    z.strictObject({
      name: nameSchema.describe("Unique; what models[].group names."),
      accelerators,
      workers: workersField.optional(),
      llm: llm.optional(),
      network: network.optional(),
      policy: policyName.optional().describe("Default: the scenario's, with its options. `--policy` overrides it."),
      policy_options: policyOptions.optional().describe("Options of the group's own policy."),
    }),
  )
  .min(1)
  .max(GROUPS_MAX)
  .describe(
    "Several groups of accelerators in place of `accelerators`, each with a scheduler of its own. Accelerators are numbered from 0 " +
      "through all groups in order. A group has the scenario's network unless it has its own.",
  );

const modelsFrom = z
  .strictObject({
    zoo: z.enum(ZOO_NAMES).describe("Symphony Appendix C: Table 3 (1080ti, 35 models) or Table 4 (a100, 37 models)."),
    select: z
      .union([z.enum(["all", "strong", "weak"]), z.array(z.string().max(128)).min(1).max(100)])
      .default("all")
      .describe("All models, those whose beta/alpha is above 2 (strong) or not (weak), or a list of names."),
  })
  .describe("Models of a published zoo, placed before those of `models`.");

const arrivals = z
  .strictObject({
    process: z
      .enum(["poisson", "gamma", "uniform", "trace", "replay"])
      .describe(
        "How gaps between requests are drawn. poisson: exponential; gamma: CV 1/sqrt(shape), burstier for a small shape; " +
          "uniform: equal gaps, the first request at 0; trace: gamma or Poisson gaps at the rates of a file; " +
          "replay: the very requests of a file.",
      ),
    shape: z
      .number()
      .min(0.001)
      .max(1000)
      .optional()
      .describe("Shape of gamma gaps; 1 = Poisson. Required with gamma, 1 by default with trace."),
    rate_rps: z
      .number()
      .gt(0)
      .max(RATE_RPS_MAX)
      .optional()
      .describe("Total requests per second over all models. Excludes models[].rate_rps. `--rate` overrides it."),
    steps: z
      .array(
        z.strictObject({
          at_s: z.number().min(0).max(DURATION_S_MAX).describe("Seconds from the start of the run."),
          rate_rps: z.number().min(0).max(RATE_RPS_MAX).describe("Total requests per second from then on."),
        }),
      )
      .min(1)
      .max(STEPS_MAX)
      .optional()
      .describe("Changes of the total rate, in order of time. Without rate_rps the first must be at 0."),
    trace: z
      .string()
      .min(1)
      .max(1024)
      .optional()
      .describe("CSV with columns second, requests_per_second; beside the scenario or in the data folder."),
    scale: z.number().gt(0).max(1e6).optional().describe("Multiplies the rates of the trace. Default 1."),
    replay: z
      .string()
      .min(1)
      .max(1024)
      .optional()
      .describe("CSV with columns at_us, model and optionally app; found like a trace."),
    missing: z
      .array(z.int().min(1).max(1e9))
      .min(1)
      .max(10_000)
      .optional()
      .describe("Arrivals of each model, counted from 1, that do not come (for worked examples)."),
  })
  .describe("The load.");

const popularity = z
  .union([
    z.literal("uniform"),
    z.strictObject({
      zipf: z.number().min(0).max(10).describe("Exponent s: the i-th model has weight 1/i^s, in the order given."),
    }),
  ])
  .describe("How the total rate is split over models without share. Default uniform.");

const fault = z.strictObject({
  at_s: z.number().min(0).max(DURATION_S_MAX).describe("Seconds from the start of the run."),
  kind: z
    .enum(["fail", "recover", "leave", "join", "slow"])
    .describe(
      "fail: its batch is lost and it runs nothing until it recovers; leave: it ends its batch and goes; join: it " +
        "comes (back); an accelerator whose first fault is join is absent from the start; slow: executions that start " +
        "from now on take factor times as long.",
    ),
  accelerator: z
    .int()
    .min(0)
    .max(ACCELERATORS_MAX - 1)
    .describe("Number of the accelerator, from 0."),
  factor: z
    .number()
    .min(0.001)
    .max(1e6)
    .optional()
    .describe("Only with slow, required there; replaces an earlier factor, 1 = healthy."),
  for_s: z
    .number()
    .gt(0)
    .max(DURATION_S_MAX)
    .optional()
    .describe("Undone after this many seconds (fail recovers, leave joins, slow returns to 1). Default: never."),
});

export const scenarioSchema = z
  .strictObject({
    name: z.string().min(1).max(200).optional().describe("Shown in reports. Default: the file's name."),
    seed: z.int().min(0).max(4_294_967_295).default(1).describe("Seed of every random stream. `--seed` overrides it."),
    duration_s: z
      .number()
      .gt(0)
      .max(DURATION_S_MAX)
      .optional()
      .describe(
        "Seconds in which requests arrive; then the run drains. Default 60, or the length of the trace or replay.",
      ),
    warmup_s: z
      .number()
      .min(0)
      .max(DURATION_S_MAX)
      .default(0)
      .describe("Arrivals before this many seconds are simulated but not counted. Must be less than duration_s."),
    accelerators: accelerators.optional(),
    groups: groups.optional(),
    network: network.optional(),
    models: z.array(model).min(1).max(MODELS_MAX).optional().describe("The models. This or models_from is required."),
    models_from: modelsFrom.optional(),
    pipelines: pipelines.optional(),
    arrivals,
    popularity: popularity.optional(),
    faults: z.array(fault).max(100_000).default([]).describe("What goes wrong, in any order."),
    learn: z
      .boolean()
      .default(false)
      .describe(
        "Plans follow measured times, as the server's do: of models, and of accelerators that turn slow. false: planned with the " +
          "profile, so that runs are comparable; who is not told of a fault does not find out.",
      ),
    profiler: profilerKeys
      .optional()
      .describe(`${profilerKeys.description} Default: on where plans follow measured times (learn).`),
    plan: plan.optional(),
    autoscale: autoscale.optional(),
    policy: policyName
      .default("auto")
      .describe("Which policy schedules. `--policy` overrides it, and then policy_options do not apply."),
    policy_options: policyOptions
      .default({})
      .describe("Options of the policy named above; see the tables of policy options."),
  })
  .describe("One simulated system and the load on it.");

/** A scenario as written, defaults filled in. */
export type Scenario = z.output<typeof scenarioSchema>;
export type ScenarioModel = z.output<typeof model>;
export type ScenarioNetwork = z.output<typeof network>;
export type ScenarioAccelerators = z.output<typeof accelerators>;
export type ScenarioPlan = z.output<typeof plan>;
export type ScenarioAutoscale = z.output<typeof autoscale>;
export type ScenarioFault = z.output<typeof fault>;
