/** Queues of batches as Algorithm 1 leaves them: 1 to 64 requests, each batch of one query type of Table II. */
import type { AllocationProblem } from "../../policies/elastic/allocation/allocation.js";
import { BATCH_MAX } from "../../reproduce/otas/vision-transformer.js";
import type { Uniform } from "../../sim/random.js";
import { ElasticProfile, NINE_GAMMAS, QUERY_TYPES } from "./elastic-profile.js";

const PROFILE = new ElasticProfile(NINE_GAMMAS);

/**
 * @param room time until the last deadline at most, relative to what all batches take at gamma 0: 0.3 is tight, 1.5 loose. Deadlines are
 *   uniform within it.
 */
export function randomQueue(random: Uniform, count: number, room: number): AllocationProblem {
  const gammas = NINE_GAMMAS.length;
  const timeUs = new Float64Array(count * gammas);
  const utility = new Float64Array(count * gammas);
  let plainUs = 0;
  for (let batch = 0; batch < count; batch++) {
    const size = 1 + Math.floor(random() * BATCH_MAX);
    const type = QUERY_TYPES[Math.floor(random() * QUERY_TYPES.length)]!;
    plainUs += PROFILE.timeUs(NINE_GAMMAS.indexOf(0), size);
    for (let gamma = 0; gamma < gammas; gamma++) {
      timeUs[batch * gammas + gamma] = PROFILE.timeUs(gamma, size);
      utility[batch * gammas + gamma] = size * type.utility * PROFILE.accuracy[type.task * gammas + gamma]!;
    }
  }
  const dueAt = Float64Array.from({ length: count }, () => Math.ceil(random() * room * plainUs)).sort();
  return { count, gammas, dueAt, timeUs, utility };
}
