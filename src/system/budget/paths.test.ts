import { describe, expect, test } from "vitest";
import { type ModuleSpec, Pipeline } from "../pipeline.js";
import { pathsOf, STEPS_MAX, stepsOf } from "./paths.js";

/** Modules of which two lie side by side, then one, and so on: 2^diamonds paths from the first. */
function diamonds(count: number): Pipeline {
  const modules: ModuleSpec[] = [{ id: 0, name: "m0", pres: [], subs: [] }];
  for (let diamond = 0; diamond < count; diamond++) {
    const first = modules.length - 1;
    const [one, other, last] = [first + 1, first + 2, first + 3];
    modules[first] = { ...modules[first]!, subs: [one, other] };
    modules.push({ id: one, name: `m${one}`, pres: [first], subs: [last] });
    modules.push({ id: other, name: `m${other}`, pres: [first], subs: [last] });
    modules.push({ id: last, name: `m${last}`, pres: [one, other], subs: [] });
  }
  return new Pipeline(modules);
}
const evenly = (pipeline: Pipeline): Float64Array => new Float64Array(pipeline.modules.length).fill(1000);

describe("paths to an end", () => {
  test("all of them where there are few, long modules first", () => {
    const pipeline = diamonds(2);
    const paths = pathsOf(pipeline, Float64Array.of(1, 1, 2, 1, 1, 2, 1));
    expect(paths[0]).toEqual([
      [2, 3, 5, 6],
      [2, 3, 4, 6],
      [1, 3, 5, 6],
      [1, 3, 4, 6],
    ]);
    expect(paths[6]).toEqual([]);
  });

  test("however many there are, what is looked at is bounded, and each module has one", () => {
    for (const count of [3, 6, 10, 20]) {
      const pipeline = diamonds(count);
      const paths = pathsOf(pipeline, evenly(pipeline));
      const single = paths.every((ways) => ways.length <= 1);
      expect(stepsOf(paths) <= STEPS_MAX || single).toBe(true);
      for (const [module, ways] of paths.entries()) expect(ways.length > 0).toBe(pipeline.subs[module]!.length > 0);
      expect(Math.max(...paths[0]!.map((path) => path.length))).toBe(2 * count);
    }
  });
});
