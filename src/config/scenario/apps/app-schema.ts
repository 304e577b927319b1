/** Apps of a model: kinds of requests whose true times differ, apart from the profile that planners believe. */
import { z } from "zod";
import { nameSchema } from "../name.js";

const MS_MAX = 3_600_000;
/** No run is longer. */
const SECONDS_MAX = 31 * 86_400;
const APPS_MAX = 1000;
const STEPS_MAX = 1000;
const ms = z.number().min(0).max(MS_MAX);
const spread = {
  mean_ms: z.number().gt(0).max(MS_MAX).describe("Mean, milliseconds."),
  sd_ms: ms.describe("Standard deviation, milliseconds."),
};
const weights = z.array(z.number().min(0).max(1e9)).min(1).max(100_000);

const time = z.union([
  z.strictObject({ constant_ms: z.number().gt(0).max(MS_MAX).describe("Every request takes as long.") }),
  z.strictObject({ normal: z.strictObject(spread).describe("Normal, cut off at 1 µs.") }),
  z.strictObject({ lognormal: z.strictObject(spread).describe("Lognormal of this mean and standard deviation.") }),
  z.strictObject({
    modes: z
      .array(
        z.strictObject({ weight: z.number().gt(0).max(1e9).default(1).describe("How often it occurs."), ...spread }),
      )
      .min(1)
      .max(100)
      .describe("One of several normal distributions for each request."),
  }),
  z.strictObject({
    histogram: z
      .strictObject({
        edges_ms: z.array(ms).min(2).max(100_001).describe("Edges of the bins, ascending."),
        weights: weights.describe(
          "How often each bin occurs: one fewer than edges. Within a bin all times are equally likely.",
        ),
      })
      .describe("Measured times, as often as they occurred."),
  }),
  z.strictObject({
    values_ms: z.array(z.number().gt(0).max(MS_MAX)).min(1).max(100_000).describe("One of these, equally likely."),
  }),
  z.strictObject({
    file: z
      .string()
      .min(1)
      .max(1024)
      .describe("CSV with a column ms: one of its values, equally likely. Found like a trace."),
  }),
]);

export const apps = z
  .array(
    z.strictObject({
      name: nameSchema.describe("Unique in the model; per_kind shows it as model/app, and replays name it."),
      share: z
        .number()
        .gt(0)
        .max(1e9)
        .default(1)
        .describe(
          "Weight among the model's requests. With a replay that has apps it says nothing of what arrives, but of what planners expect.",
        ),
      utility: z
        .number()
        .min(0)
        .max(1e9)
        .optional()
        .describe("What a request is worth that finishes. Where an app says so, reports have utility. Default 1."),
      time: time.describe("True time of a request alone, drawn by the seed: one of these distributions."),
      steps: z
        .array(
          z.strictObject({
            at_s: z.number().min(0).max(SECONDS_MAX).describe("Seconds from the start of the run; ascending."),
            factor: z
              .number()
              .gt(0)
              .max(1000)
              .describe("Requests that arrive from then on take this many times `time`."),
          }),
        )
        .min(1)
        .max(STEPS_MAX)
        .optional()
        .describe(
          "Changes of the app's true times. What `profiled` and `planning` say is known, and bounds, are of `time` itself.",
        ),
    }),
  )
  .min(1)
  .max(APPS_MAX)
  .describe("Kinds of requests with true times of their own. Absent: a batch takes what the profile says.");

export const batchTime = z
  .strictObject({
    c0_ms: ms.describe("Milliseconds that a batch costs whatever is in it."),
    c1: z.number().gt(0).max(1000).describe("Of the longest time among its members, for each member."),
  })
  .describe(
    "True time of a batch of k whose longest member alone takes l: c0_ms + c1 * k * l (ORLOJ Eq. 3). Default: l times what the profile " +
      "has for k over what it has for 1. Only with apps.",
  );

export const profiled = z
  .int()
  .min(0)
  .max(100_000)
  .describe(
    "Requests of each app of which policies know beforehand what a run alone takes, drawn by the seed apart from those that arrive; with them " +
      "batch_time, where it is given. 0: which apps there are, and no times. Default: policies are told nothing of apps. Only with apps.",
  );

export const planning = z
  .strictObject({
    sessions: z
      .boolean()
      .default(false)
      .describe(
        "true: each app has a queue of its own, as if it were a model, planned by its own times. false: one queue, by the times of all " +
          "apps, each as often as its share.",
      ),
    quantile: z
      .union([z.literal("mean"), z.number().gt(0).lt(1)])
      .default("mean")
      .describe(
        "Of the time alone: what the longest member of a planned batch takes. `mean`, or the time within which this part is.",
      ),
  })
  .describe(
    "What policies that know one time for each size are told: l(b) is the true time of a batch of b whose longest member takes this " +
      "quantile of the time alone. Absent: they are told the profile. Only with apps; not with autoscale, nor where modules of pipelines " +
      "run the model.",
  );

export type ScenarioPlanning = z.output<typeof planning>;
export type ScenarioApp = z.output<typeof apps>[number];
