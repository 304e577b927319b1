import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DROPPED, FINISHED } from "../../core/outcome.js";
import { columnOf, MODULE_COLUMNS, ModuleStates, STATE_INTERVAL_US } from "../module-states.js";
import { type ModuleSpec, Pipeline } from "../pipeline.js";
import { Budgets } from "./budget.js";
import { BUDGET_DEFAULTS, type BudgetRule, type BudgetSpec } from "./budget-spec.js";
import { Forecast } from "./forecast.js";

const chain = (length: number): Pipeline =>
  new Pipeline(
    Array.from({ length }, (_, id) => ({
      id,
      name: `m${id}`,
      pres: id === 0 ? [] : [id - 1],
      subs: id === length - 1 ? [] : [id + 1],
    })),
  );

const LEAST_US = 1000;
const EXEC_US = 10_000;

/** Parts whose waits in a batch are spread evenly over its time, that queued this long before, and one that is dropped. */
function tell(states: ModuleStates, module: number, execUs: number, delayUs = 0, parts = 200): void {
  for (let part = 0; part < parts; part++) {
    const waitUs = ((part + 0.5) / parts) * execUs;
    const queueUs = Math.min(waitUs, execUs) + delayUs;
    states.came(module, 0);
    states.ran(module, 4, 900_000);
    states.ended(module, FINISHED, 900_000 - execUs - queueUs, 900_000 - execUs, 900_000);
  }
}

const published = (states: ModuleStates, forecast: { published: Forecast["published"] }): void => {
  const at = STATE_INTERVAL_US;
  states.look(at);
  forecast.published(states.board, at);
};

describe("state planner (PARD §4.2)", () => {
  test("w_k is 0.312, 0.281, 0.224 and 0.100 of the sum over 4, 3, 2 and 1 modules of equal times and even waits", () => {
    const states = new ModuleStates(5);
    for (let module = 0; module < 5; module++) tell(states, module, EXEC_US);
    const forecast = new Forecast(chain(5), new Float64Array(5).fill(LEAST_US), { lambda: 0.1, seed: 1 });
    published(states, forecast);
    const shares = [4, 3, 2, 1].map((after, module) => forecast.afterUs[module]! / (after * EXEC_US) - 1);
    for (const [index, golden] of [0.312, 0.281, 0.224, 0.1].entries()) expect(shares[index]!).toBeCloseTo(golden, 2);
    expect(forecast.afterUs[4]).toBe(0);
  });

  test("the bounds: lambda 0 reckons with no wait, 1 with whole executions; queueing is added as it is", () => {
    const states = new ModuleStates(3);
    tell(states, 1, EXEC_US, 20_000);
    tell(states, 2, EXEC_US);
    const of = (lambda: number): number => {
      const forecast = new Forecast(chain(3), new Float64Array(3).fill(LEAST_US), { lambda, seed: 1 });
      published(states, forecast);
      return forecast.afterUs[0]!;
    };
    // Of what they waited, 20 ms and half an execution in the mean, all beyond an execution is queueing.
    expect(of(0)).toBeCloseTo(2 * EXEC_US + 20_000 + EXEC_US / 2 - EXEC_US, -2);
    expect(of(1) - of(0)).toBeCloseTo(2 * EXEC_US, 6);
    expect(of(0.1)).toBeGreaterThan(of(0));
    expect(of(0.9)).toBeGreaterThan(of(0.5));
  });

  test("over a graph it is that of the way where it is most, whatever the graph", () => {
    const graphs = fc.array(fc.array(fc.nat(30), { minLength: 1, maxLength: 3 }), { minLength: 3, maxLength: 7 });
    let branched = 0;
    fc.assert(
      fc.property(graphs, fc.array(fc.nat(40), { minLength: 7, maxLength: 7 }), (picks, times) => {
        const pres = picks.map((each, id) => (id === 0 ? [] : [...new Set(each.map((pick) => pick % id))]));
        const specs: ModuleSpec[] = pres.map((own, id) => ({
          id,
          name: `m${id}`,
          pres: own,
          subs: pres.flatMap((others, sub) => (others.includes(id) ? [sub] : [])),
        }));
        const pipeline = new Pipeline(specs);
        const states = new ModuleStates(specs.length);
        for (const module of specs.keys()) tell(states, module, 1000 * (1 + times[module]!), 0, 20);
        const all = new Forecast(pipeline, new Float64Array(specs.length), { lambda: 0.1, seed: 1 });
        published(states, all);
        for (const from of specs.keys()) {
          const ways = waysFrom(specs, from);
          if (ways.length > 1) branched++;
          const each = ways.map((way) => {
            // The way alone, as a chain behind a first module: the same draws, since modules keep their places.
            const alone = new Pipeline(
              specs.map(({ id, name }) => ({
                id,
                name,
                pres: way.indexOf(id) > 0 ? [way[way.indexOf(id) - 1]!] : [],
                subs: way.includes(id) && way.at(-1) !== id ? [way[way.indexOf(id) + 1]!] : [],
              })),
            );
            const forecast = new Forecast(alone, new Float64Array(specs.length), { lambda: 0.1, seed: 1 });
            published(states, forecast);
            return forecast.afterUs[from]!;
          });
          expect(all.afterUs[from]).toBe(Math.max(...each));
        }
      }),
      { numRuns: 12, seed: 5 },
    );
    expect(branched).toBeGreaterThan(10);
  });

  test("what is not measured refuses nobody: who says nothing, or nothing any more, takes its least time", () => {
    const states = new ModuleStates(3);
    const forecast = new Forecast(chain(3), Float64Array.of(1, 2, 3), { lambda: 0.1, seed: 1 });
    expect([...forecast.afterUs]).toEqual([5, 3, 0]);
    for (const module of [1, 2]) tell(states, module, EXEC_US, 50_000);
    published(states, forecast);
    expect(forecast.afterUs[0]).toBeGreaterThan(100_000);
    forecast.published(states.board, 10 * STATE_INTERVAL_US);
    expect([...forecast.afterUs]).toEqual([5, 3, 0]);
  });

  test("a module's row fits in 500 bytes", () => {
    const { board } = new ModuleStates(1);
    expect(board.blank().numbers.byteLength).toBeLessThan(500);
    expect(MODULE_COLUMNS.length).toBeGreaterThan(20);
  });
});

describe("modules' states over a window", () => {
  const read = (states: ModuleStates, column: Parameters<typeof columnOf>[0]): number => {
    const row = states.board.blank();
    states.board.read(0, 0, row);
    return row.value(columnOf(column));
  };

  test("queueing is what is beyond one execution, and that of who was dropped; the last interval weighs most", () => {
    const states = new ModuleStates(1, { window: 2 });
    const part = (second: number, queueUs: number): void => {
      const endAt = second * STATE_INTERVAL_US + 500_000;
      states.came(0, second * STATE_INTERVAL_US);
      states.ran(0, 1, endAt);
      states.ended(0, FINISHED, endAt - 1000 - queueUs, endAt - 1000, endAt);
    };
    part(0, 4000);
    states.came(0, 600_000);
    states.ended(0, DROPPED, 600_000, -1, 609_000);
    states.look(STATE_INTERVAL_US);
    expect([read(states, "delay_us"), read(states, "exec_us"), read(states, "worst_us")]).toEqual([6000, 1000, 5000]);
    expect(read(states, "input_per_s")).toBe(2);
    part(1, 500);
    states.look(2 * STATE_INTERVAL_US);
    // Weights 2 and 1: (1 * (3000 + 9000) + 2 * 0) / (1 * 2 + 2 * 1).
    expect(read(states, "delay_us")).toBe(3000);
    part(2, 0);
    states.look(3 * STATE_INTERVAL_US);
    expect([read(states, "delay_us"), read(states, "worst_us")]).toEqual([0, 1500]);
    expect([read(states, "wait_0"), read(states, "wait_16")]).toEqual([0, expect.closeTo(0.5, 1)]);
  });
});

describe("what modules say of what lies ahead", () => {
  /** 0 leads to 1 or 2; 3 makes parts of requests, which 4 joins. */
  const PIPELINE = new Pipeline([
    { id: 0, name: "fork", pres: [], subs: [1, 2], branches: true },
    { id: 1, name: "short", pres: [0], subs: [3] },
    { id: 2, name: "long", pres: [0], subs: [3] },
    { id: 3, name: "parts", pres: [1, 2], subs: [4], fansOut: true },
    { id: 4, name: "join", pres: [3], subs: [], joins: true },
  ]);
  const EXECS = [1000, 5000, 25_000, 8000, 2000];
  const PARDS = { executions: "mean", ways: "longest", joins: "one" } as const;
  const states = (): ModuleStates => {
    const all = new ModuleStates(5, { window: 5, ways: PIPELINE.ways });
    for (const [module, execUs] of EXECS.entries()) tell(all, module, execUs);
    for (let request = 0; request < 40; request++) {
      all.took(0, request % 2, request % 8 === 0 ? 1 - (request % 2) : request % 2);
      all.made(3, request % 2 === 0 ? 0 : 16);
    }
    return all;
  };
  /** A request of the class, or a part of 16 of its. */
  const framesOf = (kind: number) => ({
    classOf: () => kind,
    aroundOf: (frame: number) => frame - 1,
    togetherOf: (frame: number) => (frame === 0 ? 1 : 16),
  });
  const budgetsWith = (options: Partial<BudgetSpec>): Budgets => {
    const budgets = new Budgets(
      PIPELINE,
      { ...BUDGET_DEFAULTS, ...PARDS, ...options, rule: "forecast" },
      { leastUs: () => LEAST_US },
    );
    published(states(), budgets);
    return budgets;
  };

  const leftFor = (budgets: Budgets, module: number, kind: number, frame = 0): number =>
    1_000_000 - budgets.dueBy(module, 0, 1_000_000, 0, frame, framesOf(kind));

  test("the state planner is told of ways by class and of numbers of parts, and a class has its own budget", () => {
    const row = states().board.blank();
    const all = states();
    all.look(STATE_INTERVAL_US);
    all.board.read(0, 0, row);
    // 20 of each class; class 0 took the short way 15 times, class 1 none but 0 of 20 times; all together 15 of 40.
    expect(row.value(columnOf("way_0"))).toBeCloseTo((15 + (5 * 15) / 40) / 25, 9);
    expect(row.value(columnOf("way_1"))).toBeCloseTo((5 * 15) / 40 / 25, 9);
    all.board.read(3, 0, row);
    expect([0, 2, 4, 6].map((index) => row.value(columnOf("parts_0") + index))).toEqual([0, 0, 16, 16]);
    expect(row.value(columnOf("run_0") + 6)).toBeCloseTo(1, 1);
    const budgets = budgetsWith({ ways: "learnt" });
    expect(leftFor(budgets, 0, 0)).toBeLessThan(leftFor(budgets, 0, 1) - 9000);
    expect(leftFor(budgets, 1, 0)).toBe(leftFor(budgets, 1, 1));
    // Without the option all have the longest way.
    const longest = budgetsWith({});
    expect([leftFor(longest, 0, 0), leftFor(longest, 0, 1)]).toEqual(Array(2).fill(leftFor(longest, 0, 0)));
    expect(leftFor(longest, 0, 0)).toBeGreaterThan(leftFor(budgets, 0, 1));
  });

  test("joins: a part is told of as many as there are; lambda 0 and 1 are without and with whole executions still", () => {
    const inner = new Pipeline([
      { id: 0, name: "parts", pres: [], subs: [1], fansOut: true },
      { id: 1, name: "each", pres: [0], subs: [2] },
      { id: 2, name: "join", pres: [1], subs: [], joins: true },
    ]);
    const of = (joins: "one" | "slowest", lambda = 0.1): number => {
      const spec = { ...BUDGET_DEFAULTS, ...PARDS, joins, lambda, rule: "forecast" } as const;
      const budgets = new Budgets(inner, spec, { leastUs: () => LEAST_US });
      const all = new ModuleStates(3);
      for (const module of [0, 1, 2]) tell(all, module, EXEC_US);
      published(all, budgets);
      return leftFor(budgets, 0, 0, 1);
    };
    // Of two even waits a tenth are up to sqrt(0.2); of the longest of 16 and one more up to 16 / 17 + 0.1.
    expect(Math.abs(of("slowest") - of("one") - (16 / 17 + 0.1 - Math.sqrt(0.2)) * EXEC_US)).toBeLessThan(300);
    expect(of("slowest", 0)).toBeGreaterThanOrEqual(2 * EXEC_US);
    expect(of("slowest", 1)).toBeLessThanOrEqual(4 * EXEC_US + 1);
    expect(of("one", 1)).toBe(4 * EXEC_US);
  });

  test("executions: three times that batches took are the quantiles of the row", () => {
    const all = new ModuleStates(1);
    for (const [runUs, parts] of [
      [4000, 60],
      [8000, 20],
      [20_000, 20],
    ] as const)
      for (let part = 0; part < parts; part++) {
        all.came(0, 0);
        all.ran(0, 1, 900_000);
        all.ended(0, FINISHED, 900_000 - runUs, 900_000 - runUs, 900_000);
      }
    all.look(STATE_INTERVAL_US);
    const row = all.board.blank();
    all.board.read(0, 0, row);
    const meanUs = 0.6 * 4000 + 0.2 * 8000 + 0.2 * 20_000;
    expect(row.value(columnOf("exec_us"))).toBeCloseTo(meanUs, 6);
    const runs = Array.from({ length: 13 }, (_, index) => row.value(columnOf("run_0") + index) * meanUs);
    // Twelfths: 0.6 of them are up to 7.2, 0.8 up to 9.6.
    for (const [index, us] of runs.entries()) {
      const expected = index <= 7 ? 4000 : index <= 9 ? 8000 : 20_000;
      expect(Math.abs(us / expected - 1)).toBeLessThan(0.045);
    }
  });
});

describe("budgets of PARD's ablations", () => {
  const PLANNED = [4000, 12_000, 4000];
  const of = (rule: BudgetRule, options: Partial<BudgetSpec> = {}): Budgets =>
    new Budgets(
      chain(3),
      { ...BUDGET_DEFAULTS, ...options, rule },
      { leastUs: () => LEAST_US, plannedUs: (m) => PLANNED[m]! },
    );
  const told = (budgets: Budgets, module: number, execUs: number, delayUs: number): Budgets => {
    const states = new ModuleStates(3);
    tell(states, module, execUs, delayUs);
    published(states, budgets);
    return budgets;
  };

  test("split: a part of the SLO from when it came, whatever was left; never past the deadline (Clipper++)", () => {
    const budgets = of("split");
    expect(budgets.dueBy(0, 1000, 101_000, 1000)).toBe(1000 + 20_000);
    expect(budgets.dueBy(1, 5000, 101_000, 1000)).toBe(5000 + 60_000);
    expect(budgets.dueBy(2, 95_000, 101_000, 1000)).toBe(101_000);
    expect(told(of("split"), 1, 90_000, 0).dueBy(0, 0, 100_000, 0)).toBe(20_000);
  });

  test("worst: the same by the longest that parts took lately", () => {
    const budgets = told(of("worst"), 1, 10_000, 2050);
    const worstUs = 2 * 10_000 + 2050 - 25;
    expect(budgets.dueBy(1, 0, 100_000, 0)).toBe(Math.floor((100_000 * worstUs) / (worstUs + 8000)));
  });

  test("durations: the executions that follow, and no queueing", () => {
    expect(told(of("durations"), 1, 10_000, 50_000).dueBy(0, 0, 100_000, 0)).toBe(100_000 - 10_000 - LEAST_US);
    expect(of("whole").dueBy(0, 0, 100_000, 0)).toBe(100_000);
  });

  test("overload: at a module whose queueing is too long and before it, alpha of what comes is refused", () => {
    const budgets = told(of("overload", { alpha: 0.4, thresholdUs: 20_000 }), 1, 10_000, 40_000);
    const refused = (module: number): number =>
      Array.from({ length: 10 }, () => budgets.dueBy(module, 5, 100_000, 0)).filter((due) => due === 5).length;
    expect([refused(0), refused(1), refused(2)]).toEqual([4, 4, 0]);
    const calm = told(of("overload"), 1, 10_000, 10_000);
    expect(calm.dueBy(0, 5, 100_000, 0)).toBe(100_000);
  });
});

function waysFrom(specs: readonly ModuleSpec[], from: number): number[][] {
  const { subs } = specs[from]!;
  return subs.length === 0 ? [[from]] : subs.flatMap((sub) => waysFrom(specs, sub).map((way) => [from, ...way]));
}

describe("modules with batches of one, of which profiles tell little (PARD §7)", () => {
  const DEADLINE = 10_000_000;
  /** What a part takes alone by its lengths; the answer of 7 is not known before it is there. */
  const lengthsUs = (module: number, frame: number, foresees: boolean): number =>
    module === 1 ? (frame === 7 ? (foresees ? 40_000 : 0) : 20_000) : 0;
  /** The middle one of three has batches of one: parts waited 30 ms there and took 60 ms, of 30 ms by their lengths. */
  const dueBy = (
    estimates: BudgetSpec["estimates"],
    module: number,
    frame: number,
    executions: BudgetSpec["executions"] = "mean",
  ): number => {
    const spec = { ...BUDGET_DEFAULTS, rule: "forecast", lambda: 0, estimates, executions } as const;
    const budgets = new Budgets(chain(3), spec, {
      leastUs: () => LEAST_US,
      isSingle: (each) => each === 1,
      lengthsUs,
    });
    const states = new ModuleStates(3, { hasBatches: (each) => budgets.hasBatches(each) });
    states.came(1, 0);
    states.ran(1, 1, 900_000);
    states.ended(1, FINISHED, 810_000, 840_000, 900_000, 30_000);
    published(states, budgets);
    return budgets.dueBy(module, 0, DEADLINE, 0, frame);
  };

  test("recent: what parts took lately comes off what its queue must reach, but the least, which the queue knows; their whole wait is queueing", () => {
    expect(dueBy("recent", 1, 7)).toBe(DEADLINE - LEAST_US - (60_000 - LEAST_US));
    expect(dueBy("recent", 0, 7)).toBe(DEADLINE - LEAST_US - (30_000 + 60_000));
    expect(dueBy("profiles", 1, 7)).toBe(DEADLINE - LEAST_US);
    // A wait in a batch of 30 of 60 ms, and no queueing before: with lambda 0 none of it counts.
    expect(dueBy("profiles", 0, 7)).toBe(DEADLINE - LEAST_US - 60_000);
  });

  test("the same for the module's own where what is ahead is sampled", () => {
    expect(dueBy("recent", 1, 7, "distribution")).toBe(DEADLINE - LEAST_US - (60_000 - LEAST_US));
  });

  test("lengths that are known count, so many times as long as such took lately; foreseen: also those of answers", () => {
    expect(dueBy("recent", 1, 0)).toBe(DEADLINE - LEAST_US - (2 * 20_000 - LEAST_US));
    expect(dueBy("foreseen", 1, 7)).toBe(DEADLINE - LEAST_US - (2 * 40_000 - LEAST_US));
  });

  test("before anything is known: by the lengths alone, or by nothing but the least", () => {
    const spec = { ...BUDGET_DEFAULTS, rule: "forecast", estimates: "recent" } as const;
    const budgets = new Budgets(chain(3), spec, { leastUs: () => LEAST_US, isSingle: (each) => each === 1, lengthsUs });
    expect(budgets.dueBy(1, 0, DEADLINE, 0, 0)).toBe(DEADLINE - LEAST_US - (20_000 - LEAST_US));
    expect(budgets.dueBy(1, 0, DEADLINE, 0, 7)).toBe(DEADLINE - LEAST_US);
  });
});
