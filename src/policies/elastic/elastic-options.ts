/** Options that policies of elastic models share. */
import type { IntegersOption, OptionTable } from "../options.js";

export const GAMMA_MAX = 10_000;

export const gammas = {
  type: "integers",
  min: -GAMMA_MAX,
  max: GAMMA_MAX,
  lengthMax: 64,
  meaning: "Gammas that are chosen from, of those that the model has. Default: all of them.",
} as const satisfies IntegersOption;

/** Algorithm 1 and what is given up. */
export const POOL_OPTIONS = {
  delta_ms: {
    type: "number",
    min: 0,
    max: 3_600_000,
    default: 500,
    meaning: "Milliseconds that the first request of a batch has waited at most when another joins it (OTAS's delta).",
  },
  epsilon: {
    type: "integer",
    min: 1,
    max: 65_536,
    default: 64,
    meaning: "Requests of a batch at most (epsilon); a model's own largest batch bounds it.",
  },
  eta_ms: {
    type: "number",
    min: 0,
    max: 3_600_000,
    default: 500,
    meaning: "Milliseconds by which the deadlines of a batch and of a request that joins it differ at most (eta).",
  },
  mu: {
    type: "number",
    min: 0,
    max: 1e9,
    default: 0.8,
    meaning: "By how much the utilities of a batch's first request and of one that joins it differ at most (mu).",
  },
  memory_mb: {
    type: "number",
    min: 0.001,
    max: 1e9,
    meaning:
      "Megabytes that a batch may need, by what the profile says each member does (`run_mb`; OTAS Eq. 1c). Default: no bound.",
  },
} as const satisfies OptionTable;

/** Who is evicted. */
export const evicts = <D extends "late" | "expired">(value: D) =>
  ({
    type: "choice",
    of: ["late", "expired"],
    default: value,
    meaning:
      "Who of a batch is given up before it runs: `late` whoever would end after its deadline, `expired` whoever's deadline has passed.",
  }) as const;

/** How often answers are right. */
export const accuracy = <D extends "profiled" | "recent">(value: D) =>
  ({
    type: "choice",
    of: ["profiled", "recent"],
    default: value,
    meaning:
      "How often a task's answers are right at each gamma: `profiled`, or `recent`, that times what the model's confidence has become of what it was at first. " +
      "`recent` needs a model that says how sure it is (`elastic.confidence`).",
  }) as const;
