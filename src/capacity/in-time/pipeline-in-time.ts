/** How many requests of one pipeline any scheduler can finish in time: of each of its modules, what its workers can do at all. */
import { type ExpandedScenario, groupsOf } from "../../config/scenario/expand-scenario.js";
import { invariant } from "../../core/invariant.js";
import { createArrivals } from "../../sim/arrivals.js";
import { Pipeline } from "../../system/pipeline.js";

/** A simulated clock is of whole µs. */
const ROUNDING_US = 2;

/**
 * The most jobs of one length that a machine ends in time, each from its release on and at most so much after it. Deadlines
 * are in the order of releases and all lengths equal: that order is best, and who would be late is the one that is given up.
 */
export function mostOfOneLength(releaseAt: ArrayLike<number>, lengthUs: number, withinUs: number): number {
  let freeAt = Number.NEGATIVE_INFINITY;
  let count = 0;
  for (let job = 0; job < releaseAt.length; job++) {
    const endAt = Math.max(freeAt, releaseAt[job]!) + lengthUs;
    if (endAt > releaseAt[job]! + withinUs) continue;
    freeAt = endAt;
    count++;
  }
  return count;
}

/**
 * An upper bound on the part of the counted requests that finish in time.
 *
 * In a module a request takes a share of a batch's time, at least the least l(b) / b of the batches that fit between what must come before and
 * after, l(1) of the modules along the longest way. All workers of a module together are one machine that many times as fast, which may be
 * interrupted: more than the workers are. The module in which fewest end in time bounds.
 *
 * @throws InvariantError on a scenario that is not one pipeline without ways of which one is taken, parts and network delays.
 */
export function pipelineBound(scenario: ExpandedScenario, seed: number): number {
  const { pipelines, models, accelerators, network, warmupUs, durationUs } = scenario;
  const [line] = pipelines ?? [];
  invariant(line !== undefined && pipelines!.length === 1, "one pipeline");
  invariant(
    line.modules.every(({ parts, ways }) => parts === undefined && ways === undefined),
    "every request goes through every module once",
  );
  invariant(network.controlUs + network.dataUsPerRequest + network.responseUs === 0, "no network delays");
  const arrivalAt: number[] = [];
  for (const arrivals = createArrivals(scenario, seed); arrivals.at < durationUs; arrivals.advance())
    if (arrivals.at >= warmupUs) arrivalAt.push(arrivals.at);
  if (arrivalAt.length === 0) return 1;

  const pipeline = new Pipeline(line.modules);
  const leastUs = (module: number): number => models[line.modules[module]!.model]!.execUs[1]!;
  const [beforeUs, afterUs] = [pipeline.longest("pres", leastUs), pipeline.longest("subs", leastUs)];
  const counts = line.modules.map(({ model }, module) => {
    const { execUs, group = 0 } = models[model]!;
    const withinUs = line.sloUs - beforeUs[module]! - afterUs[module]! + ROUNDING_US;
    const { first, count } = groupsOf(scenario)[group]!;
    const speed = accelerators.slice(first, first + count).reduce((sum, { scale }) => sum + 1 / scale, 0);
    let shareUs = Number.POSITIVE_INFINITY;
    for (let size = 1; size < execUs.length && execUs[size]! <= withinUs; size++)
      shareUs = Math.min(shareUs, execUs[size]! / size);
    return mostOfOneLength(arrivalAt, shareUs / speed, withinUs);
  });
  return Math.min(...counts) / arrivalAt.length;
}
