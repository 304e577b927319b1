/** What lies ahead, by hand and against trials: requests that a flow leads through the same graph. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FINISHED } from "../../core/outcome.js";
import { Board } from "../board.js";
import { Flow, type FlowDriver, type Part } from "../flow.js";
import { columnOf, MODULE_COLUMNS, PART_QUANTILES, RUN_QUANTILES, WAIT_QUANTILES } from "../module-states.js";
import { type ModuleSpec, Pipeline } from "../pipeline.js";
import { seededUniform } from "../seeded-uniform.js";
import { Ahead, type AheadOptions } from "./ahead.js";
import { WAY_NUMBERS } from "./way-counts.js";

interface Said {
  readonly delayUs?: number;
  readonly execUs: number;
  /** Quantiles of waits and executions over execUs, in equal steps. Default: no wait; as long as the mean. */
  readonly waits?: readonly number[];
  readonly runs?: readonly number[];
  /** As WayCounts says them. */
  readonly ways?: readonly number[];
  /** Numbers of parts, each as often: as many as quantiles, or one for all. */
  readonly parts?: readonly number[];
}

/** Linear between values that stand in equal steps. */
function between(values: readonly number[], part: number): number {
  const place = part * (values.length - 1);
  const step = Math.min(values.length - 2, Math.floor(place));
  return values.length === 1 ? values[0]! : values[step]! + (place - step) * (values[step + 1]! - values[step]!);
}

const steps = (count: number, values: readonly number[]): number[] =>
  Array.from({ length: count }, (_, index) => between(values, index / (count - 1)));

/** @returns the estimate when all modules have said this. */
function told(
  pipeline: Pipeline,
  said: readonly (Said | null)[],
  options: Partial<AheadOptions> & { readonly lambda?: number },
): Ahead {
  const ahead = new Ahead(pipeline, new Float64Array(said.length).fill(1000), {
    executions: "mean",
    ways: "longest",
    joins: "one",
    lambda: 0.1,
    seed: 1,
    ...options,
  });
  const board = new Board(said.length, MODULE_COLUMNS, 1);
  const row = board.blank();
  for (const [module, each] of said.entries()) {
    if (each === null) {
      ahead.told(module, null);
      continue;
    }
    const values = new Float64Array(MODULE_COLUMNS.length);
    values[columnOf("delay_us")] = each.delayUs ?? 0;
    values[columnOf("exec_us")] = each.execUs;
    values.set(steps(WAIT_QUANTILES, each.waits ?? [0]), columnOf("wait_0"));
    values.set(steps(RUN_QUANTILES, each.runs ?? [1]), columnOf("run_0"));
    values.fill(-1, columnOf("way_0"), columnOf("way_0") + WAY_NUMBERS);
    values.set(each.ways ?? [], columnOf("way_0"));
    const { parts = [-1] } = each;
    values.set(
      Array.from({ length: PART_QUANTILES }, (_, index) => parts[index % parts.length]!),
      columnOf("parts_0"),
    );
    board.publish(module, values, 0);
    board.read(module, 0, row);
    ahead.told(module, row);
  }
  ahead.reckon();
  return ahead;
}

const module = (id: number, pres: number[], subs: number[], more: Partial<ModuleSpec> = {}): ModuleSpec => ({
  id,
  name: `m${id}`,
  pres,
  subs,
  ...more,
});
const chain = (length: number): Pipeline =>
  new Pipeline(
    Array.from({ length }, (_, id) => module(id, id === 0 ? [] : [id - 1], id === length - 1 ? [] : [id + 1])),
  );
const MS = 1000;

describe("executions", () => {
  const EVEN = [0, 1];
  test("mean: PARD's w_k, 0.312, 0.281, 0.224 and 0.100 of the sum over 4, 3, 2 and 1 modules of equal times and even waits", () => {
    const ahead = told(chain(5), Array(5).fill({ execUs: 10 * MS, delayUs: 2 * MS, waits: EVEN }), {});
    const shares = [4, 3, 2, 1].map((after, k) => (ahead.afterUs(k, 0, 1) / after - 12 * MS) / (10 * MS));
    for (const [index, golden] of [0.312, 0.281, 0.224, 0.1].entries()) expect(shares[index]!).toBeCloseTo(golden, 2);
    expect(ahead.afterUs(4, 0, 1)).toBe(0);
  });

  test("distribution: the quantile is of executions and waits together", () => {
    // A triangle over 0 to 2 executions: a tenth is below sqrt(0.2).
    const said = Array(2).fill({ execUs: 10 * MS, delayUs: 2 * MS, waits: EVEN, runs: EVEN });
    const tenth = told(chain(2), said, { executions: "distribution" }).afterUs(0, 0, 1) / MS;
    // The tenth of 2,048 draws is that of 0.1 +- 0.007, where the density is 0.045 a millisecond.
    expect(Math.abs(tenth - (2 + 4.47))).toBeLessThan(0.3);
    // Mean execution and a tenth of the wait.
    expect(told(chain(2), said, {}).afterUs(0, 0, 1) / MS).toBeCloseTo(2 + 10 + 1, 1);
    const least = told(chain(2), said, { executions: "distribution", lambda: 0 }).afterUs(0, 0, 1);
    const most = told(chain(2), said, { executions: "distribution", lambda: 1 }).afterUs(0, 0, 1);
    expect([least / MS, most / MS]).toEqual([expect.closeTo(2, 0), expect.closeTo(22, 0)]);
  });

  test("three times, as often: two modules take the shortest sum in one of nine cases", () => {
    const runs = [0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1.5, 1.5, 1.5, 1.5, 1.5];
    const of = (lambda: number): number =>
      told(chain(3), Array(3).fill({ execUs: 10 * MS, runs }), { executions: "distribution", lambda }).afterUs(0, 0, 1);
    expect(of(0.05)).toBeCloseTo(10 * MS, 6);
    expect(of(0.95)).toBeCloseTo(30 * MS, 6);
    expect(of(0.5)).toBeCloseTo(20 * MS, -3);
  });

  test("who said nothing takes its least time", () => {
    expect(told(chain(3), [null, null, null], { executions: "distribution" }).afterUs(0, 0, 1)).toBe(2 * MS);
    expect(told(chain(3), [null, null, { execUs: 5 * MS }], {}).afterUs(0, 0, 1)).toBe(6 * MS);
  });
});

describe("ways", () => {
  /** 0 leads to 1 or 2, which lead to 3. */
  const FORK = new Pipeline([
    module(0, [], [1, 2], { branches: true }),
    module(1, [0], [3]),
    module(2, [0], [3]),
    module(3, [1, 2], []),
  ]);
  const times = (ways?: readonly number[]): Said[] => [
    ways === undefined ? { execUs: MS } : { execUs: MS, ways },
    { execUs: 10 * MS },
    { execUs: 50 * MS },
    { execUs: 5 * MS },
  ];
  const learnt = { ways: "learnt" } as const;

  test("the mean over those that the class takes, in place of the longest", () => {
    expect(told(FORK, times([0.75]), {}).afterUs(0, 0, 1)).toBe(55 * MS);
    const ahead = told(FORK, times([0.75, 1, 0, 0.5]), learnt);
    const of = (kind: number): number => ahead.afterUs(0, kind, 1) / MS;
    expect([of(0), of(1), of(2), of(3)].map((ms) => Math.round(ms * 10) / 10)).toEqual([25, 15, 55, 35]);
    // After the fork there is one way.
    for (const kind of [0, 1, 2]) expect([1, 2].map((k) => ahead.afterUs(k, kind, 1))).toEqual([5 * MS, 5 * MS]);
  });

  test("with distributions the quantile of the mixture: the short way as soon as it is frequent enough", () => {
    const of = (short: number): number =>
      told(FORK, times([short]), { ...learnt, executions: "distribution", lambda: 0.2 }).afterUs(0, 0, 1);
    expect([of(0.25), of(0.15)]).toEqual([15 * MS, 55 * MS]);
  });

  test("what is not known is the longest", () => {
    expect(told(FORK, times(), learnt).afterUs(0, 0, 1)).toBe(55 * MS);
    expect(told(FORK, [null, ...times().slice(1)], learnt).afterUs(0, 0, 1)).toBe(55 * MS);
  });
});

describe("joins", () => {
  /** 1 makes parts, which go through 2; 3 joins them. */
  const PAGES = new Pipeline([
    module(0, [], [1]),
    module(1, [0], [2], { fansOut: true }),
    module(2, [1], [3]),
    module(3, [2], [4], { joins: true }),
    module(4, [3], []),
  ]);
  /** The mean and from one half of it to three halves. */
  const said = (parts: readonly number[]): Said[] => [
    { execUs: MS },
    { execUs: 10 * MS, parts },
    { execUs: 20 * MS, runs: [0.5, 1.5] },
    { execUs: 3 * MS },
    { execUs: 2 * MS },
  ];
  const slowest = { joins: "slowest", executions: "distribution" } as const;

  test("of parts that are there, the order statistic of as many as there are", () => {
    const ahead = told(PAGES, said([4]), { ...slowest, lambda: 0.1 });
    // What follows on 1: 10 + 20 u ms for each part, then 5.
    for (const parts of [1, 2, 4, 16]) {
      const expected = 10 + 20 * 0.1 ** (1 / parts) + 5;
      expect(Math.abs(ahead.afterUs(1, 0, parts) / MS - expected)).toBeLessThan(0.1);
    }
    // Between powers of two a line; the last part of the way has no time that differs.
    expect(ahead.afterUs(1, 0, 3)).toBeCloseTo((ahead.afterUs(1, 0, 2) + ahead.afterUs(1, 0, 4)) / 2, 6);
    expect([ahead.afterUs(2, 0, 9), ahead.afterUs(3, 0, 1)]).toEqual([5 * MS, 2 * MS]);
    expect(ahead.afterUs(1, 0, 5000)).toBe(ahead.afterUs(1, 0, 1024));
    const one = told(PAGES, said([4]), { executions: "distribution" });
    expect(one.afterUs(1, 0, 16)).toBe(one.afterUs(1, 0, 1));
  });

  test("of parts that are still to be made, over the numbers that requests made lately; none takes no time", () => {
    const of = (parts: readonly number[], lambda: number): number =>
      told(PAGES, said(parts), { ...slowest, lambda }).afterUs(0, 0, 1) / MS;
    expect(Math.abs(of([4], 0.1) - (20 + 20 * 0.1 ** (1 / 4) + 5))).toBeLessThan(0.1);
    expect(of([0], 0.1)).toBe(5);
    // Of seven requests three have no parts, four have one each.
    const some = [0, 0, 0, 1, 1, 1, 1];
    expect(of(some, 0.4)).toBe(5);
    expect(Math.abs(of(some, 3 / 7 + 2 / 7) - (20 + 20 * 0.5 + 5))).toBeLessThan(0.2);
    expect(of([-1], 0.1)).toBeCloseTo(of([1], 0.1), 6);
  });

  test("with mean executions only waits are waited for: of 3 the longest, then as ever", () => {
    const waits = said([3]).map((each) => ({ ...each, waits: [0, 1] }));
    const ahead = told(PAGES, [...waits.slice(0, 3), { execUs: 3 * MS }, { execUs: 2 * MS }], { joins: "slowest" });
    expect(
      Math.abs(ahead.afterUs(1, 0, 3) / MS - (20 + (20 * (0.1 ** (1 / 2) + 0.1 ** (1 / 4))) / 2 + 5)),
    ).toBeLessThan(0.1);
  });
});

describe("against trials", () => {
  /** Modules one after another, beside each other, one of two, and in parts; from one first module on. */
  type Block = "module" | { readonly kind: "series" | "both" | "one" | "parts"; readonly of: readonly Block[] };
  const { block } = fc.letrec<{ block: Block }>((tie) => ({
    block: fc.oneof(
      { depthSize: "small", maxDepth: 3 },
      fc.constant<Block>("module"),
      fc.record({
        kind: fc.constantFrom("series" as const, "both" as const, "one" as const, "parts" as const),
        of: fc.tuple(tie("block"), tie("block")),
      }),
    ),
  }));

  class Graph {
    readonly specs: {
      id: number;
      name: string;
      pres: number[];
      subs: number[];
      fansOut?: boolean;
      joins?: boolean;
      branches?: boolean;
    }[] = [];
    add(pres: readonly number[], more: Partial<ModuleSpec> = {}): number {
      const id = this.specs.length;
      this.specs.push({ id, name: `m${id}`, pres: [...pres], subs: [], ...more } as (typeof this.specs)[number]);
      for (const pre of pres) this.specs[pre]!.subs.push(id);
      return id;
    }
    /** @returns its last module. */
    build(block: Block, pre: number): number {
      if (block === "module") return this.add([pre]);
      const [first, second] = block.of;
      if (block.kind === "series") return this.build(second!, this.build(first!, pre));
      if (block.kind === "parts") {
        const opener = this.add([pre], { fansOut: true });
        return this.build(second!, this.add([this.build(first!, opener)], { joins: true }));
      }
      const fork = this.add([pre], block.kind === "one" ? { branches: true } : {});
      return this.add([this.build(first!, fork), this.build(second!, fork)]);
    }
  }

  /** How long requests take from the end of the first module on, each led by a flow. */
  function trials(pipeline: Pipeline, said: readonly Said[], count: number, seed: number): number[] {
    const uniform = seededUniform(seed, 99);
    const ends: number[] = [];
    const due: { part: Part; at: number }[] = [];
    let firstAt = 0;
    const driver: FlowDriver = {
      submit(part, at) {
        const { execUs, delayUs = 0, waits = [0], runs = [1] } = said[flow.moduleOf(part)]!;
        const stayUs = delayUs + execUs * (between(waits, uniform()) + between(runs, uniform()));
        if (flow.moduleOf(part) === 0) firstAt = at + stayUs;
        due.push({ part, at: at + stayUs });
      },
      callOff: () => {},
      partsOf: (_, module) => said[module]!.parts![Math.floor(uniform() * PART_QUANTILES)]!,
      branchOf: (_, module) => (uniform() < said[module]!.ways![0]! ? 0 : 1),
      requestEntered: () => {},
      requestEnded: (_request, _outcome, _reason, _module, at) => void ends.push(at - firstAt),
    };
    const flow = new Flow(pipeline, driver, 1_000_000);
    for (let request = 0; request < count; request++) {
      flow.enter(request, 0, 1e12, 0);
      flow.settle(0);
      while (due.length > 0) {
        due.sort((a, b) => b.at - a.at);
        const { part, at } = due.pop()!;
        flow.ended(part, FINISHED, 0, at);
        flow.settle(at);
      }
    }
    return ends;
  }

  test("the quantile of what lies ahead of a request is that of requests that a flow leads through the graph", () => {
    const seen = { branches: 0, fansOut: 0, merges: 0 };
    const random = fc.record({ block, seed: fc.nat(10_000), lambda: fc.constantFrom(0.1, 0.3, 0.5) });
    fc.assert(
      fc.property(random, ({ block, seed, lambda }) => {
        const graph = new Graph();
        graph.build(block, graph.add([]));
        if (graph.specs.length > 24) return;
        const pipeline = new Pipeline(graph.specs);
        const uniform = seededUniform(seed, 0);
        const some = (count: number): number[] => Array.from({ length: count }, uniform);
        const said = graph.specs.map(
          ({ branches, fansOut }): Said => ({
            delayUs: 5000 * uniform(),
            execUs: 1000 + 20_000 * uniform(),
            waits: some(5).sort((a, b) => a - b),
            runs: some(5).sort((a, b) => a - b),
            ...(branches === true ? { ways: some(7) } : {}),
            ...(fansOut === true
              ? {
                  parts: some(PART_QUANTILES)
                    .map((each) => Math.floor(4 * each))
                    .sort(),
                }
              : {}),
          }),
        );
        seen.branches += graph.specs.some(({ branches }) => branches) ? 1 : 0;
        seen.fansOut += graph.specs.some(({ fansOut }) => fansOut) ? 1 : 0;
        seen.merges += graph.specs.some(({ pres, joins }) => pres.length > 1 && joins !== true) ? 1 : 0;
        const options = { executions: "distribution", ways: "learnt", joins: "slowest", lambda } as const;
        const aheadUs = told(pipeline, said, options).afterUs(0, 0, 1);
        const took = trials(pipeline, said, 1500, seed);
        const below = took.filter((us) => us <= aheadUs).length / took.length;
        // Where nothing may follow, as many may take no time at all.
        const under = took.filter((us) => us < aheadUs - 1).length / took.length;
        expect(below).toBeGreaterThan(lambda - 0.06);
        expect(under).toBeLessThan(lambda + 0.06);
      }),
      { numRuns: 40, seed: 17 },
    );
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(8);
  });
});
