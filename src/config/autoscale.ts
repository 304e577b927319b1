/** Keys that autoscaling has in common in a scenario and in a server's accelerator group. */
import { z } from "zod";

const DAY_S = 86_400;

/** @param accelerators most that may exist. @param maxDefault what `max` is when it is not given, for its description. */
export const autoscaleKeys = (accelerators: number, maxDefault: string) => ({
  min: z.int().min(1).max(accelerators).default(1).describe("Least number of accelerators that is advised."),
  max: z
    .int()
    .min(1)
    .max(accelerators)
    .optional()
    .describe(`Largest number of accelerators that is advised. Default: ${maxDefault}.`),
  interval_s: z.number().min(0.1).max(3600).default(10).describe("Seconds between decisions."),
  target_utilization: z
    .number()
    .min(0.05)
    .max(0.99)
    .default(0.8)
    .describe("Share of their time that accelerators should be busy."),
  bad_rate_max: z
    .number()
    .min(0)
    .max(0.5)
    .default(0.01)
    .describe("Share of requests that may be lost or late before more accelerators are asked for."),
  up_cooldown_s: z.number().min(0).max(DAY_S).default(0).describe("Least seconds between two increases."),
  down_cooldown_s: z
    .number()
    .min(0)
    .max(DAY_S)
    .default(300)
    .describe("The number falls to the largest need of this many seconds, and not sooner after its last change."),
});

interface AutoscaleKeys {
  readonly min: number;
  readonly max?: number | undefined;
  readonly interval_s: number;
  readonly target_utilization: number;
  readonly bad_rate_max: number;
  readonly up_cooldown_s: number;
  readonly down_cooldown_s: number;
}

/** The same keys for the advisor (scaling/advisor.ts), in its units. */
export interface AutoscaleOptions {
  readonly min: number;
  readonly max: number;
  readonly intervalUs: number;
  readonly targetUtilization: number;
  readonly badRateMax: number;
  readonly upCooldownUs: number;
  readonly downCooldownUs: number;
}

export function autoscaleOptions(keys: AutoscaleKeys, max: number): AutoscaleOptions {
  return {
    min: keys.min,
    max,
    intervalUs: Math.round(keys.interval_s * 1e6),
    targetUtilization: keys.target_utilization,
    badRateMax: keys.bad_rate_max,
    upCooldownUs: Math.round(keys.up_cooldown_s * 1e6),
    downCooldownUs: Math.round(keys.down_cooldown_s * 1e6),
  };
}
