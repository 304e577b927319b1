/** How many requests of one pipeline a scheduler can finish in time: of each of its modules, what its workers can do at all. */
import { type ExpandedScenario, groupsOf } from "../../config/scenario/expand-scenario.js";
import type { ExpandedPipeline } from "../../config/scenario/pipelines/expand-pipelines.js";
import { invariant } from "../../core/invariant.js";
import { keepUpSize } from "../../policies/deferred/target-size.js";
import { createArrivals } from "../../sim/arrivals.js";
import { PipelineDraws } from "../../sim/pipeline-draws.js";
import { Pipeline } from "../../system/pipeline.js";

/** A simulated clock is of whole µs. */
const ROUNDING_US = 2;

/**
 * The most jobs of one length that equal machines end in time, each from its release on and at most so much after it. Deadlines
 * are in the order of releases and all lengths equal: that order is best, and who would be late is the one that is given up.
 */
export function mostOfOneLength(
  releaseAt: ArrayLike<number>,
  lengthUs: number,
  withinUs: number,
  machines = 1,
): number {
  // Jobs begin in their order, and so end: the next machine to come free is the one that began longest ago.
  const freeAt = new Float64Array(machines).fill(Number.NEGATIVE_INFINITY);
  let next = 0;
  let count = 0;
  for (let job = 0; job < releaseAt.length; job++) {
    const endAt = Math.max(freeAt[next]!, releaseAt[job]!) + lengthUs;
    if (endAt > releaseAt[job]! + withinUs) continue;
    freeAt[next] = endAt;
    next = next + 1 === machines ? 0 : next + 1;
    count++;
  }
  return count;
}

export interface PipelineBounds {
  /** Of any scheduler. */
  readonly any: number;
  /** Of any whose batches are always large enough for the pipeline's capacity. */
  readonly keepUp: number;
}

/**
 * Upper bounds on the part of the counted requests that finish in time. In each module those are counted that can end between what must come
 * before and after; the module in which fewest can bounds. Where modules branch, those who take the same modules are also bounded by themselves: of
 * each such group as many are lost as in the module that loses most of it.
 *
 * any. A request takes a share of a batch's time, at least the least l(b) / b of the batches that fit, and l(1) in all other modules. All workers
 * of a module together are one machine that many times as fast, which may be interrupted: more than the workers are.
 *
 * keepUp. Past capacity small batches serve fewer: the pipeline's capacity is that of the module that can do least in its largest batches, and to do as
 * much a module needs batches of some size, or larger ones. If all are, a request takes the time of that size in every module. A worker
 * is as many machines for one request as its largest batch holds, of which each may begin when it likes: more than a batch may. A scheduler that loses less runs smaller batches
 * at times, at the end of a burst, say: it does so with less than that capacity.
 *
 * @throws InvariantError on a scenario that is not one pipeline without parts, apps of its models and network delays.
 */
export function pipelineBounds(scenario: ExpandedScenario, seed: number): PipelineBounds {
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
  const pipeline = new Pipeline(line.modules);
  const groups = groupsByModules(scenario, line, pipeline, seed);
  const count = groups.reduce((sum, { arrivalAt }) => sum + arrivalAt.length, 0);
  if (count === 0) return { any: 1, keepUp: 1 };
  const workers = line.modules.map(({ model }) => workersOf(scenario, model));
  const partOf = (modules: readonly ModuleBound[]): number =>
    (count - lostOf(groups, pipeline, modules, line.sloUs + ROUNDING_US)) / count;
  const any = partOf(workers.map(inShares));
  const visited = workers.map((_, module) =>
    comingTo(module, groups).reduce((sum, { arrivalAt }) => sum + arrivalAt.length, 0),
  );
  const keepUp = partOf(keepingUp(workers, visited));
  return { any, keepUp: Math.min(any, keepUp) };
}

/** What runs a module. */
interface Workers {
  /** l(b) on the fastest of them. */
  readonly execUs: Float64Array;
  readonly sizeMax: number;
  readonly count: number;
  /** All of them, each by its speed relative to the fastest. */
  readonly speed: number;
}

function workersOf(scenario: ExpandedScenario, model: number): Workers {
  const { execUs, group = 0 } = scenario.models[model]!;
  const { first, count } = groupsOf(scenario)[group]!;
  const scales = scenario.accelerators.slice(first, first + count).map(({ scale }) => scale);
  const fastest = Math.min(...scales);
  return {
    execUs: execUs.map((us) => us * fastest),
    sizeMax: execUs.length - 2,
    count,
    speed: scales.reduce((sum, scale) => sum + fastest / scale, 0),
  };
}

/** What is counted on of a module. */
interface ModuleBound {
  /** Least time of a request in it. */
  readonly leastUs: number;
  /** How many of those that come can end within so much time. */
  most(releaseAt: Float64Array, withinUs: number): number;
}

const inShares = ({ execUs, sizeMax, speed }: Workers): ModuleBound => ({
  leastUs: execUs[1]!,
  most(releaseAt, withinUs) {
    let shareUs = Number.POSITIVE_INFINITY;
    for (let size = 1; size <= sizeMax && execUs[size]! <= withinUs; size++)
      shareUs = Math.min(shareUs, execUs[size]! / size);
    return mostOfOneLength(releaseAt, shareUs / speed, withinUs);
  },
});

/** @param visited by module: how many requests come to it. */
function keepingUp(workers: readonly Workers[], visited: readonly number[]): ModuleBound[] {
  const busiestUs = Math.max(
    ...workers.map(({ execUs, sizeMax, speed }, module) => (visited[module]! * execUs[sizeMax]!) / sizeMax / speed),
  );
  return workers.map(({ execUs, sizeMax, count, speed }, module) => {
    const size = keepUpSize(execUs, sizeMax, (busiestUs * speed) / visited[module]!);
    const leastUs = execUs[size]!;
    return { leastUs, most: (releaseAt, withinUs) => mostOfOneLength(releaseAt, leastUs, withinUs, count * sizeMax) };
  });
}

/** Requests that go through the same modules. */
interface Group {
  /** By module; 0: they pass it over. */
  readonly visits: Uint8Array;
  readonly arrivalAt: number[];
}

/** The requests that count, apart by the modules that they go through. */
function groupsByModules(
  scenario: ExpandedScenario,
  line: ExpandedPipeline,
  pipeline: Pipeline,
  seed: number,
): Group[] {
  const { warmupUs, durationUs } = scenario;
  const draws = new PipelineDraws(line, seed);
  const groups = new Map<string, Group>();
  let number = 0;
  for (const arrivals = createArrivals(scenario, seed); arrivals.at < durationUs; arrivals.advance(), number++) {
    if (arrivals.at < warmupUs) continue;
    const visits = visitsOf(pipeline, (module) =>
      line.modules[module]!.ways === undefined ? -1 : draws.wayOf(module, number, 0),
    );
    const name = visits.join("");
    const group = groups.get(name) ?? { visits, arrivalAt: [] };
    groups.set(name, group);
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

const comingTo = (module: number, groups: readonly Group[]): Group[] =>
  groups.filter(({ visits }) => visits[module] === 1);

/** How many requests are lost at the least. */
function lostOf(groups: readonly Group[], pipeline: Pipeline, modules: readonly ModuleBound[], sloUs: number): number {
  const times = new Map(
    groups.map((group) => {
      const leastUs = (module: number): number => group.visits[module]! * modules[module]!.leastUs;
      return [group, { before: pipeline.longest("pres", leastUs), after: pipeline.longest("subs", leastUs) }];
    }),
  );
  const lostIn = (module: number, some: readonly Group[]): number => {
    const coming = comingTo(module, some);
    if (coming.length === 0) return 0;
    const releaseAt = Float64Array.from(coming.flatMap(({ arrivalAt }) => arrivalAt)).sort();
    const leastOf = (side: "before" | "after"): number =>
      Math.min(...coming.map((group) => times.get(group)![side][module]!));
    return releaseAt.length - modules[module]!.most(releaseAt, sloUs - leastOf("before") - leastOf("after"));
  };
  const mostLostOf = (some: readonly Group[]): number => Math.max(...modules.map((_, module) => lostIn(module, some)));
  const lostApart = groups.reduce((sum, group) => sum + mostLostOf([group]), 0);
  return Math.max(mostLostOf(groups), lostApart);
}
