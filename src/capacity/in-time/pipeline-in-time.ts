/** How many requests of one pipeline any scheduler can finish in time: of each of its modules, what its workers can do at all. */
import { type ExpandedScenario, groupsOf } from "../../config/scenario/expand-scenario.js";
import type { ExpandedPipeline } from "../../config/scenario/pipelines/expand-pipelines.js";
import { invariant } from "../../core/invariant.js";
import { createArrivals } from "../../sim/arrivals.js";
import { PipelineDraws } from "../../sim/pipeline-draws.js";
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
 * interrupted: more than the workers are. The module in which fewest end in time bounds. Where modules branch, those who take the same modules
 * are also bounded by themselves: of each such group as many are lost as in the module that loses most of it.
 *
 * @throws InvariantError on a scenario that is not one pipeline without parts, apps of its models and network delays.
 */
export function pipelineBound(scenario: ExpandedScenario, seed: number): number {
  const { pipelines, models, network } = scenario;
  const [line] = pipelines ?? [];
  invariant(line !== undefined && pipelines!.length === 1, "one pipeline");
  invariant(
    line.modules.every(({ parts }) => parts === undefined),
    "no request goes through a module twice",
  );
  invariant(
    line.modules.every(({ model }) => models[model]!.apps === undefined),
    "batches take what profiles say",
  );
  invariant(network.controlUs + network.dataUsPerRequest + network.responseUs === 0, "no network delays");
  const groups = groupsByModules(scenario, line, seed);
  const count = groups.reduce((sum, { arrivalAt }) => sum + arrivalAt.length, 0);
  if (count === 0) return 1;
  const lostOf = (some: readonly Group[]): number =>
    Math.max(...line.modules.map((_, module) => lostIn(module, some, scenario, line)));
  const lostApart = groups.reduce((sum, group) => sum + lostOf([group]), 0);
  return (count - Math.max(lostOf(groups), lostApart)) / count;
}

/** Requests that go through the same modules. */
interface Group {
  /** By module; 0: they pass it over. */
  readonly visits: Uint8Array;
  readonly arrivalAt: number[];
  /** By module: least time of all before it and after it. */
  readonly beforeUs: Float64Array;
  readonly afterUs: Float64Array;
}

/** The requests that count, apart by the modules that they go through. */
function groupsByModules(scenario: ExpandedScenario, line: ExpandedPipeline, seed: number): Group[] {
  const { models, warmupUs, durationUs } = scenario;
  const pipeline = new Pipeline(line.modules);
  const draws = new PipelineDraws(line, seed);
  const groups = new Map<string, Group>();
  let number = 0;
  for (const arrivals = createArrivals(scenario, seed); arrivals.at < durationUs; arrivals.advance(), number++) {
    if (arrivals.at < warmupUs) continue;
    const visits = visitsOf(pipeline, (module) =>
      line.modules[module]!.ways === undefined ? -1 : draws.wayOf(module, number, 0),
    );
    const name = visits.join("");
    let group = groups.get(name);
    if (group === undefined) {
      const leastUs = (module: number): number => visits[module]! * models[line.modules[module]!.model]!.execUs[1]!;
      const [beforeUs, afterUs] = [pipeline.longest("pres", leastUs), pipeline.longest("subs", leastUs)];
      group = { visits, arrivalAt: [], beforeUs, afterUs };
      groups.set(name, group);
    }
    group.arrivalAt.push(arrivals.at);
  }
  return [...groups.values()];
}

/** @param wayOf position in the subs that a request takes; -1: it takes all. */
function visitsOf({ order, pres, subs }: Pipeline, wayOf: (module: number) => number): Uint8Array {
  const visits = new Uint8Array(order.length);
  for (const module of order) {
    if (pres[module]!.length === 0) visits[module] = 1;
    if (visits[module] === 0) continue;
    const way = wayOf(module);
    for (const [position, sub] of subs[module]!.entries()) if (way < 0 || way === position) visits[sub] = 1;
  }
  return visits;
}

/** How many of these requests are not done in time in the module, if they have it to themselves. */
function lostIn(
  module: number,
  groups: readonly Group[],
  scenario: ExpandedScenario,
  { sloUs, modules }: ExpandedPipeline,
): number {
  const coming = groups.filter(({ visits }) => visits[module] === 1);
  if (coming.length === 0) return 0;
  const { execUs, group = 0 } = scenario.models[modules[module]!.model]!;
  const leastOf = (us: (each: Group) => Float64Array): number => Math.min(...coming.map((each) => us(each)[module]!));
  const withinUs = sloUs - leastOf(({ beforeUs }) => beforeUs) - leastOf(({ afterUs }) => afterUs) + ROUNDING_US;
  const { first, count } = groupsOf(scenario)[group]!;
  const speed = scenario.accelerators.slice(first, first + count).reduce((sum, { scale }) => sum + 1 / scale, 0);
  let shareUs = Number.POSITIVE_INFINITY;
  for (let size = 1; size < execUs.length && execUs[size]! <= withinUs; size++)
    shareUs = Math.min(shareUs, execUs[size]! / size);
  const releaseAt = Float64Array.from(coming.flatMap(({ arrivalAt }) => arrivalAt)).sort();
  return releaseAt.length - mostOfOneLength(releaseAt, shareUs / speed, withinUs);
}
