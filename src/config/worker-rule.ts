/** Workers of a group that follow the rate, as a scenario writes it. */
import { z } from "zod";
import { type DurationUs, durationUs } from "../core/time.js";

const SECONDS_MAX = 3600;

export const workersField = z
  .strictObject({
    initial: z
      .int()
      .min(1)
      .optional()
      .describe("At the start, those of the lowest numbers. Default: all accelerators of the group."),
    min: z.int().min(1).default(1).describe("Fewest. At most are the accelerators of the group."),
    headroom: z.number().min(0).max(10).default(0).describe("Part of the rate that workers are there for beyond it."),
    interval_s: z
      .number()
      .min(0.1)
      .max(SECONDS_MAX)
      .default(1)
      .describe("Seconds in which arrivals are counted, and between decisions."),
    cold_start_s: z
      .number()
      .min(0)
      .max(SECONDS_MAX)
      .default(5)
      .describe("Seconds until a worker that is asked for takes batches."),
    down_after_s: z
      .number()
      .min(0.1)
      .max(SECONDS_MAX)
      .default(10)
      .describe("Seconds after which workers go that were not needed within them; they end the batch that they hold."),
  })
  .describe(
    "The number of workers follows what comes to the group's models, by what a worker can do in batches of the planned size (PARD §5.1): rate / rate of a " +
      "worker, rounded up. Default: all accelerators are there.",
  );

export interface ExpandedWorkers {
  readonly rule: { readonly headroom: number; readonly min: number; readonly max: number };
  readonly initial: number;
  readonly intervalUs: DurationUs;
  readonly coldStartUs: DurationUs;
  readonly downAfterUs: DurationUs;
}

const usOf = (seconds: number): DurationUs => durationUs(Math.round(seconds * 1e6));

/** @param count accelerators of the group. */
export function expandWorkers(written: z.output<typeof workersField>, count: number): ExpandedWorkers {
  const { headroom, min } = written;
  return {
    rule: { headroom, min, max: count },
    initial: written.initial ?? count,
    intervalUs: usOf(written.interval_s),
    coldStartUs: usOf(written.cold_start_s),
    downAfterUs: usOf(written.down_after_s),
  };
}
