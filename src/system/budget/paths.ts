/** Ways from each module of a pipeline to an end, as many as are worth looking at. */
import type { Pipeline } from "../pipeline.js";

/** Of a module; of more, the first found count, long modules first. */
const PATHS_MAX = 64;
/** Modules on the paths of all modules together, unless one path each has more: twenty diamonds in a row have a million paths. */
export const STEPS_MAX = 1000;

/** By module: paths, of the modules after it that a request cannot do without. */
export type Paths = readonly (readonly (readonly number[])[])[];

export const stepsOf = (paths: Paths): number =>
  paths.reduce((sum, ways) => sum + ways.reduce((steps, way) => steps + way.length, 0), 0);

/** @param leastUs least time of one request, by module. */
export function pathsOf(pipeline: Pipeline, leastUs: Float64Array): Paths {
  for (let most = PATHS_MAX; ; most >>= 1) {
    const paths = firstPaths(pipeline, leastUs, most);
    if (most === 1 || stepsOf(paths) <= STEPS_MAX) return paths;
  }
}

function firstPaths(pipeline: Pipeline, leastUs: Float64Array, most: number): Paths {
  const paths: number[][][] = pipeline.modules.map(() => []);
  for (const module of [...pipeline.order].reverse()) {
    const subs = [...pipeline.subs[module]!].sort((a, b) => leastUs[b]! - leastUs[a]! || a - b);
    paths[module] = subs
      .flatMap((sub) => {
        const first = pipeline.isSoft(sub) ? [] : [sub];
        return paths[sub]!.length === 0 ? [first] : paths[sub]!.map((path) => [...first, ...path]);
      })
      .slice(0, most);
  }
  return paths;
}
