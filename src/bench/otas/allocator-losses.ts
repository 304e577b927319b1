/** How often and by how much do allocators lose against trying every plan, on small queues? */
import type { Allocator } from "../../policies/elastic/allocation/allocation.js";
import { Exhaustive } from "../../policies/elastic/allocation/exhaustive.js";
import { Frontier } from "../../policies/elastic/allocation/frontier.js";
import { TokenAdaptation } from "../../policies/elastic/allocation/token-adaptation.js";
import { stream } from "../../sim/random.js";
import type { BenchResult } from "../bench-result.js";
import { digestOf } from "../digest.js";
import { NINE_GAMMAS } from "./elastic-profile.js";
import { randomQueue } from "./random-queue.js";

const COUNTS = [3, 4, 5, 6, 7, 8];
/** From tight to loose. */
const ROOMS = [0.3, 0.5, 0.8, 1.2];
const QUEUES = 250;
const STATES_MAX = 10_000;
/** Sums of the same utilities in another order. */
const EQUAL = 1e-9;

/** @param size Relative to 250 queues of each number of batches and each room. */
export function allocatorLosses(size: number): BenchResult[] {
  const queues = Math.max(2, Math.round(QUEUES * size));
  return COUNTS.flatMap((count) => ROOMS.map((room) => lossesOf(count, room, queues)));
}

function lossesOf(count: number, room: number, queues: number): BenchResult {
  const exhaustive = new Exhaustive();
  const otas = new TokenAdaptation(count, NINE_GAMMAS.length);
  const frontier = new Frontier(count, NINE_GAMMAS.length, STATES_MAX);
  const random = stream(1, `otas/losses/${count}/${room}`);
  const chosen = new Int32Array(count);
  const losses: { otas: number[]; frontier: number[] } = { otas: [], frontier: [] };
  for (let queue = 0; queue < queues; queue++) {
    const problem = randomQueue(random, count, room);
    const best = exhaustive.allocate(problem, 0, chosen);
    const lossOf = (allocator: Allocator): number =>
      best === 0 ? 0 : 1 - allocator.allocate(problem, 0, chosen) / best;
    losses.otas.push(lossOf(otas));
    losses.frontier.push(lossOf(frontier));
  }
  const [lost, mean, most] = summary(losses.otas);
  const [frontierLost, frontierMean, frontierMost] = summary(losses.frontier);
  return {
    name: `otas-loss-${count}-${room}`,
    value: 100 * lost,
    unit: "% of queues in which Algorithm 2 loses",
    detail:
      `${count} batches of 9 gammas, last deadline ${room} of their time at gamma 0: loses ${percent(mean)} in the mean of all, at most ${percent(most)}; ` +
      `frontier in ${percent(frontierLost)} of queues, at most ${percent(frontierMost)}; ${queues} queues`,
    digest: digestOf([...losses.otas, ...losses.frontier].map((loss) => loss.toFixed(6))),
    figures: { lost, mean, most, frontierLost, frontierMean, frontierMost },
  };
}

/** @returns share of the queues that lose, mean and largest loss. */
function summary(losses: readonly number[]): [number, number, number] {
  const lost = losses.filter((loss) => loss > EQUAL);
  return [lost.length / losses.length, lost.reduce((sum, loss) => sum + loss, 0) / losses.length, Math.max(0, ...lost)];
}

const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
