import { describe, expect, test } from "vitest";
import { type ModuleSpec, Pipeline, pipelineProblems } from "./pipeline.js";

type Edges = Readonly<Record<string, readonly string[]>>;

/** Modules by name in the order given, ids from 10; `a: ["b"]` leads from a to b. */
function graph(edges: Edges, more: Readonly<Record<string, Partial<ModuleSpec>>> = {}): ModuleSpec[] {
  const names = Object.keys(edges);
  const idOf = (name: string): number => 10 + names.indexOf(name);
  return names.map((name) => ({
    id: idOf(name),
    name,
    subs: edges[name]!.map(idOf),
    pres: names.filter((other) => edges[other]!.includes(name)).map(idOf),
    ...more[name],
  }));
}

const texts = (modules: readonly ModuleSpec[]): string[] =>
  pipelineProblems(modules).map(({ module, field, text }) => `${modules[module]!.name}.${field} ${text}`);

describe("a pipeline's graph", () => {
  test("chain, split and merge, fan-out and join are in order", () => {
    expect(texts(graph({ a: ["b"], b: ["c"], c: [] }))).toEqual([]);
    expect(texts(graph({ a: ["b", "c"], b: ["d"], c: ["d"], d: [] }))).toEqual([]);
    expect(texts(graph({ a: ["b"], b: ["c"], c: ["d"], d: [] }, { b: { fansOut: true }, d: { joins: true } }))).toEqual(
      [],
    );
  });

  test.each<[string, ModuleSpec[], string]>([
    [
      "a circle is shown whole",
      graph({ a: ["b"], b: ["c"], c: ["b"] }),
      "c.subs must not lead back to where they come from; was 12 (c) -> 11 (b) -> 12 (c)",
    ],
    ["itself", graph({ a: [] }, { a: { subs: [10] } }), "a.subs of module 10 (a) must not be itself; was 10"],
    [
      "an id that no module has",
      graph({ a: ["b"], b: [] }, { b: { pres: [10, 7] } }),
      "b.pres of module 11 (b) must be ids of modules (10, 11); was 7",
    ],
    [
      "only one end knows the edge",
      graph({ a: [], b: [] }, { b: { pres: [10] } }),
      "b.pres of module 11 (b) names 10 (a), whose subs must name 11; were []",
    ],
    [
      "an edge twice",
      graph({ a: ["b"], b: [] }, { a: { subs: [11, 11] } }),
      "a.subs of module 10 (a) must name each module once; was 11 twice",
    ],
    ["an id twice", graph({ a: [], b: [] }, { b: { id: 10 } }), "b.id must be unique; was 10, that of a, too"],
    [
      "a name twice",
      graph({ a: [], b: [] }, { b: { name: "a" } }),
      "a.name must be unique; was a, that of module 10, too",
    ],
    [
      "a branch of one way",
      graph({ a: ["b"], b: [] }, { a: { branches: true } }),
      "a.branch of module 10 (a) must choose among at least 2 subs; has 1",
    ],
    [
      "parts and the whole meet without a join",
      graph({ a: ["b", "c"], b: ["c"], c: [] }, { b: { fansOut: true } }),
      "c.pres of module 12 (c) must be of the same parts, or it must join; were the whole request and parts of 11 (b)",
    ],
    [
      "parts of two fan-outs meet",
      graph(
        { a: ["b", "c"], b: ["d"], c: ["d"], d: [] },
        { b: { fansOut: true }, c: { fansOut: true }, d: { joins: true } },
      ),
      "d.join of module 13 (d) must bring the parts of one fan_out before it together; its pres [11, 12] are parts of 11 (b) and parts of 12 (c)",
    ],
    [
      "a join of nothing",
      graph({ a: ["b"], b: [] }, { b: { joins: true } }),
      "b.join of module 11 (b) must bring the parts of one fan_out before it together; its pres [10] are the whole request",
    ],
    [
      "a join that fans out",
      graph({ a: ["b"], b: [] }, { a: { fansOut: true }, b: { joins: true, fansOut: true } }),
      "b.fan_out must not stand beside join in module 11 (b)",
    ],
  ])("%s: refused, both ends named", (_, modules, text) => {
    expect(texts(modules)).toEqual([text]);
  });

  test("parts of a fan-out within a fan-out join one by one", () => {
    const pipeline = new Pipeline(
      graph(
        { page: ["line"], line: ["word"], word: ["words"], words: ["lines"], lines: [] },
        { line: { fansOut: true }, word: { fansOut: true }, words: { joins: true }, lines: { joins: true } },
      ),
    );
    expect([...pipeline.scope]).toEqual([-1, 1, 2, 1, -1]);
    expect(pipeline.joinsOf.map((joins) => [...joins])).toEqual([[], [4], [3], [], []]);
  });

  test("the longest way after and before a module", () => {
    const pipeline = new Pipeline(graph({ a: ["b", "c"], b: ["d"], c: ["d"], d: [] }));
    const us = (module: number): number => [1, 10, 100, 1000][module]!;
    expect([...pipeline.longest("subs", us)]).toEqual([1100, 1000, 1000, 0]);
    expect([...pipeline.longest("pres", us)]).toEqual([0, 1, 1, 101]);
  });

  test("and of the modules that a request cannot do without", () => {
    const edges = { a: ["b", "c"], b: ["d"], c: ["d"], d: [] };
    const pipeline = new Pipeline(graph(edges, { c: { isSoft: true } }));
    const us = (module: number): number => [1, 10, 100, 1000][module]!;
    expect([...pipeline.longestNeeded("subs", us)]).toEqual([1010, 1000, 1000, 0]);
    expect([...pipeline.longestNeeded("pres", us)]).toEqual([0, 1, 1, 11]);
    expect([...pipeline.longest("subs", us)]).toEqual([1100, 1000, 1000, 0]);
  });
});
