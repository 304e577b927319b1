/** What an app's requests take doubles at 60 s: plans follow within one window of what is remembered, and no reset of it is felt. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { expandScenario } from "../../src/config/scenario/expand-scenario.js";
import { parseScenario } from "../../src/config/scenario/scenario.js";
import { simulate } from "../../src/sim/simulate.js";

const DRIFT = readFileSync(new URL("../../scenarios/apps/drift.yaml", import.meta.url), "utf8");
const DOUBLES_AT_S = 60;
/** Default of window_s. */
const WINDOW_S = 60;
const SEEDS = [1, 2, 3, 4, 5, 6];
const BIN_S = 20;
const BINS = 240 / BIN_S;

/** Finish rate by time of arrival, over the seeds. */
function finishRates(text: string, policy: string): number[] {
  const scenario = expandScenario(parseScenario(text));
  const arrived = new Float64Array(BINS);
  const finished = new Float64Array(BINS);
  for (const seed of SEEDS) {
    const binOf = new Map<number, number>();
    simulate(scenario, {
      policy,
      seed,
      onEvent: (event) => {
        if (event.event === "arrived") binOf.set(event.request, Math.floor(event.at_us / 1e6 / BIN_S));
        if (event.event !== "ended") return;
        const bin = binOf.get(event.request)!;
        binOf.delete(event.request);
        arrived[bin]! += 1;
        if (event.outcome === "finished") finished[bin]! += 1;
      },
    });
  }
  return Array.from(finished, (count, bin) => count / arrived[bin]!);
}

test.each(["distribution+", "auto"])(
  "%s: within 3 points of a run that was always so, from one window after the change on",
  (policy) => {
    const drift = finishRates(DRIFT, policy);
    const steady = finishRates(DRIFT.replace(`at_s: ${DOUBLES_AT_S}`, "at_s: 0"), policy);
    const changed = DOUBLES_AT_S / BIN_S;
    const followed = (DOUBLES_AT_S + WINDOW_S) / BIN_S;
    expect(Math.min(...drift.slice(0, changed))).toBeGreaterThan(0.98);
    // It is felt, or there would be nothing to follow.
    expect(drift[changed]!).toBeLessThan(steady[changed]! - 0.03);
    for (let bin = followed; bin < BINS; bin++) expect(drift[bin]!).toBeGreaterThan(steady[bin]! - 0.03);
    // Every half window the older half of what is known is gone.
    for (let bin = changed + 1; bin < BINS; bin++) expect(steady[bin]!).toBeGreaterThan(steady[bin - 1]! - 0.03);
  },
);
