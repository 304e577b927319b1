/** Options that the policies of one queue and one arbiter share: deferred, deferred+, eager, timeout. */
import type { BooleanOption, ChoiceOption, NumberOption, WordOrIntegerOption } from "../options.js";

/** Largest batch that an option may name. */
export const BATCH_SIZE_MAX = 65_536;

export const rateWindow = <D extends number>(seconds: D) =>
  ({
    type: "number",
    min: 0.05,
    max: 3600,
    default: seconds,
    meaning: "Seconds over which the arrival rate of a model is averaged to choose the target batch.",
  }) as const satisfies NumberOption;

export const target = {
  type: "word-or-integer",
  words: ["auto"],
  min: 1,
  max: 1024,
  default: "auto",
  meaning: "Batch size that head dropping protects: `auto` follows the measured rate, a number fixes it.",
} as const satisfies WordOrIntegerOption;

export const timerSlack = {
  type: "number",
  min: 0,
  max: 1_000_000,
  default: 0,
  meaning: "Microseconds by which the schedulable window opens and closes early, for timers that fire late.",
} as const satisfies NumberOption;

export const idleDispatch = (meaning: string) =>
  ({ type: "boolean", default: false, meaning }) as const satisfies BooleanOption;

export const isolation = {
  type: "boolean",
  default: false,
  meaning:
    "While this model is active, no batch of a model with twice its slack begins that would leave it without an accelerator within half of " +
    "its slack; and what is light does not wait for larger batches. The live server's own default is true.",
} as const satisfies BooleanOption;

export const givenUp = (meaning: string) =>
  ({
    type: "choice",
    of: ["infeasible", "window", "expired"],
    default: "infeasible",
    meaning,
  }) as const satisfies ChoiceOption;

/** What `auto` and other words mean to a queue. */
export const fixedTarget = (value: string | number): number | null => (typeof value === "number" ? value : null);

export const microseconds = (seconds: number): number => seconds * 1e6;
