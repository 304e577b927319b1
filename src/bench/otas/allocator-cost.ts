/** What does a plan cost? 100 batches of 9 gammas, and what queues are like. */

import { mean, median } from "../../measure/statistics.js";
import type { AllocationProblem, Allocator } from "../../policies/elastic/allocation/allocation.js";
import { Frontier } from "../../policies/elastic/allocation/frontier.js";
import { TokenAdaptation } from "../../policies/elastic/allocation/token-adaptation.js";
import { stream } from "../../sim/random.js";
import type { BenchResult } from "../bench-result.js";
import { digestOf } from "../digest.js";
import { NINE_GAMMAS } from "./elastic-profile.js";
import { randomQueue } from "./random-queue.js";

const COUNTS = [10, 30, 100];
const ROOMS = [0.3, 0.6, 0.9, 1.2];
const PLANS = 400;
const STATES_MAX = [10_000, 100_000];

/** @param size Relative to 400 plans of each. */
export function allocatorCosts(size: number): BenchResult[] {
  const plans = Math.max(8, Math.round(PLANS * size));
  const gammas = NINE_GAMMAS.length;
  return COUNTS.flatMap((count) => {
    const queues = Array.from({ length: plans }, (_, each) =>
      randomQueue(stream(each, `otas/cost/${count}`), count, ROOMS[each % ROOMS.length]!),
    );
    const otas = new TokenAdaptation(count, gammas);
    return [
      costOf(`otas-algorithm2-${count}`, queues, otas, "Algorithm 2"),
      ...STATES_MAX.map((statesMax) => {
        const frontier = new Frontier(count, gammas, statesMax);
        return costOf(`otas-frontier-${count}-${statesMax}`, queues, frontier, describe(frontier, queues, otas));
      }),
    ];
  });
}

function costOf(name: string, queues: readonly AllocationProblem[], allocator: Allocator, detail: string): BenchResult {
  const { count, gammas } = queues[0]!;
  const chosen = new Int32Array(count);
  const earned = queues.map((problem) => allocator.allocate(problem, 0, chosen));
  const times = queues.map((problem) => {
    const startNs = process.hrtime.bigint();
    allocator.allocate(problem, 0, chosen);
    return Number(process.hrtime.bigint() - startNs) / 1e6;
  });
  const p90 = [...times].sort((a, b) => a - b)[Math.floor(0.9 * times.length)]!;
  return {
    name,
    value: median(times),
    unit: "ms a plan",
    detail: `${count} batches of ${gammas} gammas, p90 ${p90.toFixed(3)} ms; ${detail}`,
    digest: digestOf(earned.map((each) => each.toFixed(6))),
    figures: { p90_ms: p90 },
  };
}

/** How far plans are from the best at most, and how much more than Algorithm 2's they earn. */
function describe(frontier: Frontier, queues: readonly AllocationProblem[], otas: Allocator): string {
  const chosen = new Int32Array(queues[0]!.count);
  const plans = queues.map((problem) => {
    const utility = frontier.allocate(problem, 0, chosen);
    const { bound, states } = frontier;
    return { gap: bound / utility - 1, states, above: utility / otas.allocate(problem, 0, chosen) - 1 };
  });
  const percent = (share: number): string => `${(100 * share).toFixed(3)} %`;
  return (
    `frontier: ${percent(mean(plans.map(({ gap }) => (gap === 0 ? 1 : 0))))} proved best, within ` +
    `${percent(mean(plans.map(({ gap }) => gap)))} in the mean, ${percent(Math.max(...plans.map(({ gap }) => gap)))} at most; ` +
    `${percent(mean(plans.map(({ above }) => above)))} above Algorithm 2; ${Math.round(mean(plans.map(({ states }) => states)))} states`
  );
}
