/** What a load is a part of: the capacity of a worker that knows every time. */
import { BATCH_MAX, type Workload } from "./workloads.js";

/** Parts of a bin whose middle stands for them. */
const SLICES = 4;

/**
 * Requests per second of a worker who knows what every request takes and always finds others that take as long: each is run in the
 * batch of those like it that costs it least and still ends within the SLO. A batch of k like l takes c0 + c1 k l (Eq. 3), so
 * the mean over requests of the least (c0 + c1 k l) / k over k <= BATCH_MAX with c0 + c1 k l <= SLO, inverted.
 *
 * Reading: more than a scheduler that meets requests as they come reaches, since it waits for nobody and mixes nothing; less
 * than a bound, since a request may be given up for others. Who is late even alone is given up and takes no time.
 *
 * The paper says that "the incoming rate matches the system load", with no number: hence parts of this.
 */
export function clairvoyantRps({ apps, c0Ms, c1 }: Workload, sloMs: number): number {
  const leastMs = (aloneMs: number): number => {
    let least = Number.POSITIVE_INFINITY;
    for (let size = 1; size <= BATCH_MAX; size++) {
      const batchMs = c0Ms + c1 * size * aloneMs;
      if (batchMs <= sloMs) least = Math.min(least, batchMs / size);
    }
    return least === Number.POSITIVE_INFINITY ? 0 : least;
  };
  let totalMs = 0;
  let total = 0;
  for (const { share, edgesMs, weights } of apps) {
    const all = weights.reduce((sum, weight) => sum + weight, 0);
    weights.forEach((weight, bin) => {
      const [from, to] = [edgesMs[bin]!, edgesMs[bin + 1]!];
      for (let slice = 0; slice < SLICES; slice++)
        totalMs += ((share * weight) / all / SLICES) * leastMs(from + ((to - from) * (slice + 0.5)) / SLICES);
    });
    total += share;
  }
  return (1000 * total) / totalMs;
}
