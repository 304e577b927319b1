/** A run of §V as a scenario file. */
import type { ScenarioFields } from "../point.js";
import { tasks } from "./query-types.js";
import { BATCH_MAX, byGamma, FIGURE_4B, type Machine } from "./vision-transformer.js";

/** @param rates requests/s, by second. */
export const scenarioOf = (name: string, rates: readonly number[], machine: Machine = FIGURE_4B): ScenarioFields => ({
  name: `otas-${name}`,
  duration_s: rates.length,
  accelerators: 1,
  models: [
    {
      name: "vit-base",
      slo_ms: 1000,
      batch_max: BATCH_MAX,
      profile: { by_gamma: byGamma(machine) },
      tasks: tasks(),
    },
  ],
  arrivals: { process: "poisson", steps: rates.map((rate_rps, at_s) => ({ at_s, rate_rps })) },
});
