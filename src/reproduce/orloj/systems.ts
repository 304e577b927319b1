/**
 * The systems that ORLOJ's tables compare, with what each is told of the times: once as published, once all alike.
 */
import type { Choice, ScenarioFields } from "../point.js";
import { BATCH_MAX } from "./workloads.js";

/** A way to run a system. */
export interface Told {
  /** What tells it from the system's other variants. */
  readonly label: string;
  readonly choice: Choice;
  /** Keys of the scenario's model: what it knows of times. Without any: its profile, that of requests of the mean time. */
  readonly model: ScenarioFields;
  /** Plans follow measured times. */
  readonly learns: boolean;
}

export interface ToldSystem {
  readonly name: string;
  /** The best of them is shown; one for those as published. */
  readonly variants: readonly Told[];
}

export type Options = Readonly<Record<string, unknown>>;
/** Default: the profile, and nothing is measured. */
export type Knowledge = Partial<Pick<Told, "model" | "learns">>;

export const told = (
  label: string,
  policy: string,
  options: Options,
  { model = {}, learns = false }: Knowledge = {},
): Told => ({ label, choice: { policy, options }, model, learns });

/** Batch sizes by additive increase, multiplicative decrease, as its paper; profiles are not read. */
export const CLIPPER: ToldSystem = { name: "Clipper", variants: [told("", "clipper", { cap: "aimd" })] };

/** On one GPU its planner has nothing to place. "Using the average execution time" (§2.3), as a profile, which it takes 1.15 times as long. */
export const NEXUS_PUBLISHED: Options = { plan: "static", profile_multiplier: 1.15 };
export const NEXUS: ToldSystem = { name: "Nexus", variants: [told("", "nexus", NEXUS_PUBLISHED)] };

/** Its constants, its batch sizes, of which those that take more than 250 ms are left out; its estimate: the largest of the last 10 times of a size. */
export const CLOCKWORK_PUBLISHED: Options = { batch_sizes: [1, 2, 4, 8, 16], estimate: "last-10", exec_max_ms: 250 };
export const CLOCKWORK: ToldSystem = {
  name: "Clockwork",
  variants: [told("", "clockwork", CLOCKWORK_PUBLISHED, { learns: true })],
};

/** Requests of each app whose times are known beforehand: ORLOJ "learns from historical data" (§3.1), as many as make a histogram. */
const PROFILED = 1000;
const knowsTimes: Knowledge = { model: { profiled: PROFILED }, learns: true };

export const orlojWith = (options: Options, label = ""): Told => told(label, "distribution", options, knowsTimes);
/** Of Clockwork's sizes, on which it is built. */
export const ORLOJ: ToldSystem = { name: "ORLOJ", variants: [orlojWith({})] };
export const PLUS: ToldSystem = {
  name: "distribution+",
  variants: [told("", "distribution+", {}, knowsTimes)],
};

/**
 * Equal information: they are told the true distribution of each app, as far as a system can use it that knows one time for each
 * size. Either one queue for all, planned at the mean; or each app registered as a session of its own, planned at a quantile of
 * its times. There is nothing left to learn.
 */
const PLANNINGS = [
  { label: "one queue, mean", planning: { sessions: false, quantile: "mean" } },
  ...[0.5, 0.9, 0.99].map((quantile) => ({
    label: `sessions, p${quantile * 100}`,
    planning: { sessions: true, quantile },
  })),
];

const fair = (name: string, policy: string, options: Readonly<Record<string, Options>>): ToldSystem => ({
  name,
  variants: Object.entries(options).flatMap(([label, each]) =>
    PLANNINGS.map((given) =>
      told([given.label, label].filter((part) => part !== "").join(", "), policy, each, {
        model: { planning: given.planning },
      }),
    ),
  ),
});

/** What Clockwork is without its constants. */
export const CLOCKWORK_FREE: Options = {
  schedule_ahead_ms: 0,
  slo_margin_ms: 0,
  action_window_ms: 0,
  control_delay_ms: 0,
};

/** As in the paper. */
export const PUBLISHED: readonly ToldSystem[] = [CLIPPER, NEXUS, CLOCKWORK, ORLOJ];
/** Each with the rules that it offers; Clipper takes no profile that it could be told more by. */
export const FAIR: readonly ToldSystem[] = [
  fair("Nexus, fair", "nexus", {
    "window drop": { plan: "static", drop: "window" },
    "earliest drop": { plan: "static", drop: "earliest" },
  }),
  fair("Clockwork, times 0", "clockwork", { "": CLOCKWORK_FREE }),
  fair("Symphony", "deferred", { "": {} }),
  fair("auto", "auto", { "": {} }),
  fair("Eager", "eager", { "infeasible drop": { drop: "infeasible" }, "window drop": { drop: "window" } }),
];
/** Algorithm 1 takes "the set of batch sizes supported by the model": the others may use any. */
export const ORLOJ_FAIR: ToldSystem = {
  name: "ORLOJ, fair",
  variants: [
    orlojWith({}, "sizes 1, 2, 4, ..."),
    orlojWith({ batch_sizes: Array.from({ length: BATCH_MAX }, (_, index) => index + 1) }, "any size"),
  ],
};
/** The live default, told of apps as `distribution+` is. */
export const AUTO: ToldSystem = { name: "auto, by app", variants: [told("", "auto", {}, knowsTimes)] };
/** The same if it knew of each request what it takes: what it would finish, and not what it can. Its own settings, and those that are best then. */
export const PLUS_KNOWING: ToldSystem = {
  name: "distribution+, times known",
  variants: [
    told("", "distribution+", { lines: 24 }),
    told("price 1.9, loss 0.5", "distribution+", { lines: 24, price: 1.9, loss_weight: 0.5 }),
  ],
};
/** What works with distributions. */
export const OURS: readonly ToldSystem[] = [ORLOJ_FAIR, PLUS, AUTO];
export const ALL: readonly ToldSystem[] = [...PUBLISHED, ...FAIR, ...OURS];
