/** The flow driven by hand: what is handed on when, and that nothing is lost whatever fails, over graphs drawn by seed. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DROP_CANCELLED, DROP_EXPIRED, DROP_QUEUE_FULL, DROPPED, FAILED, FINISHED, LATE } from "../core/outcome.js";
import { Flow, type FlowDriver, type Part, REFUSED } from "./flow.js";
import { type ModuleSpec, Pipeline, pipelineProblems } from "./pipeline.js";

/** Modules by name; `a: ["b"]` leads from a to b. */
function graph(
  edges: Readonly<Record<string, readonly string[]>>,
  more: Readonly<Record<string, Partial<ModuleSpec>>> = {},
): ModuleSpec[] {
  const names = Object.keys(edges);
  return names.map((name, id) => ({
    id,
    name,
    subs: edges[name]!.map((sub) => names.indexOf(sub)),
    pres: names.filter((other) => edges[other]!.includes(name)).map((pre) => names.indexOf(pre)),
    ...more[name],
  }));
}

/** Parts wait or run here until the test says how they end; what is called off while it waits ends as cancelled. */
class Hand implements FlowDriver {
  readonly flow: Flow;
  readonly names: readonly string[];
  /** Parts that wait or run, in order. */
  readonly waiting: Part[] = [];
  readonly running: Part[] = [];
  /** All that was ever submitted, by name of the module, and how requests ended, by tag. */
  readonly submitted: string[] = [];
  readonly ends: { tag: number; outcome: number; reason: number; module: string | null; at: number }[] = [];
  readonly entered: number[] = [];
  /** By number: who has entered and not ended. Nothing is asked of others. */
  private readonly open = new Set<number>();
  parts: (module: string) => number = () => 1;
  lets: (module: string) => boolean = () => true;
  way: (module: string) => number = () => 0;
  /** Ends a part as it is submitted, as a full queue does; null: it waits. */
  refuse: (module: string) => boolean = () => false;

  constructor(modules: readonly ModuleSpec[], framesMax = 1000) {
    this.names = modules.map(({ name }) => name);
    this.flow = new Flow(new Pipeline(modules), this, framesMax);
  }

  nameOf(part: Part): string {
    return this.names[this.flow.moduleOf(part)]!;
  }
  submit(part: Part, at: number): void {
    const name = this.nameOf(part);
    this.submitted.push(name);
    if (this.refuse(name)) this.flow.ended(part, DROPPED, DROP_QUEUE_FULL, at);
    else this.waiting.push(part);
  }
  callOff(part: Part, at: number): void {
    const index = this.waiting.indexOf(part);
    if (index < 0) return;
    this.waiting.splice(index, 1);
    this.flow.ended(part, DROPPED, DROP_CANCELLED, at);
  }
  partsOf(request: number, module: number): number {
    this.mustBeOpen(request);
    return this.parts(this.names[module]!);
  }
  goesOn(request: number, module: number): boolean {
    this.mustBeOpen(request);
    return this.lets(this.names[module]!);
  }
  branchOf(request: number, module: number): number {
    this.mustBeOpen(request);
    return this.way(this.names[module]!);
  }
  requestEntered(request: number): void {
    this.entered.push(request);
    this.open.add(request);
  }
  requestEnded(request: number, outcome: number, reason: number, module: number, at: number): void {
    this.mustBeOpen(request);
    this.open.delete(request);
    const name = module < 0 ? null : this.names[module]!;
    this.ends.push({ tag: this.flow.tag[request]!, outcome, reason, module: name, at });
  }

  private mustBeOpen(request: number): void {
    if (!this.open.has(request)) throw new Error(`request ${request} was asked about after its end`);
  }

  /** @returns the number that the request got. */
  enter(tag: number, at = 0): number {
    const request = this.flow.enter(tag, at, at + 100, at);
    this.flow.settle(at);
    return request;
  }
  start(name: string): void {
    const index = this.waiting.findIndex((part) => this.nameOf(part) === name);
    this.running.push(...this.waiting.splice(index, 1));
  }
  /** The first part in this module, waiting or running, ends. */
  end(name: string, outcome = FINISHED, reason = 0, at = 1): void {
    const list = this.running.some((part) => this.nameOf(part) === name) ? this.running : this.waiting;
    const index = list.findIndex((part) => this.nameOf(part) === name);
    if (index < 0) throw new Error(`no part in ${name}; waiting: ${this.waiting.map((part) => this.nameOf(part))}`);
    const [part] = list.splice(index, 1);
    this.flow.ended(part!, outcome, reason, at);
    this.flow.settle(at);
  }
  get here(): string {
    return this.waiting.map((part) => this.nameOf(part)).join(" ");
  }
  get outcomes(): number[] {
    return this.ends.map(({ outcome }) => outcome);
  }
}

const CHAIN = graph({ a: ["b"], b: ["c"], c: [] });
const DIAMOND = graph({ a: ["b", "c"], b: ["d"], c: ["d"], d: [] });
const PAGES = { detect: ["crop"], crop: ["read"], read: ["join"], join: [] };
const OCR = graph(PAGES, { crop: { fansOut: true }, join: { joins: true } });

describe("flow", () => {
  test("a chain: one part at a time, the request ends with the last", () => {
    const hand = new Hand(CHAIN);
    hand.enter(7);
    expect(hand.here).toBe("a");
    hand.end("a");
    hand.end("b");
    expect(hand.ends).toEqual([]);
    hand.end("c", FINISHED, 0, 42);
    expect(hand.ends).toEqual([{ tag: 7, outcome: FINISHED, reason: 0, module: null, at: 42 }]);
    expect(hand.flow.live).toBe(0);
  });

  test("a chain: who is dropped, fails or is late in a module ends there, with the module's name, and goes no further", () => {
    for (const outcome of [DROPPED, FAILED, LATE]) {
      const hand = new Hand(CHAIN);
      hand.enter(1);
      hand.end("a");
      hand.end("b", outcome, 1);
      expect(hand.ends).toEqual([{ tag: 1, outcome, reason: 1, module: "b", at: 1 }]);
      expect(hand.here).toBe("");
      expect(hand.flow.live).toBe(0);
    }
  });

  test("split and merge: what merges waits for both", () => {
    const hand = new Hand(DIAMOND);
    hand.enter(1);
    hand.end("a");
    expect(hand.here).toBe("b c");
    hand.end("c");
    expect(hand.here).toBe("b");
    hand.end("b");
    expect(hand.here).toBe("d");
    hand.end("d");
    expect(hand.outcomes).toEqual([FINISHED]);
  });

  test("siblings: who waits is called off, who runs is passed over when it ends; the request ends once", () => {
    const hand = new Hand(graph({ a: ["b", "c", "d"], b: ["e"], c: ["e"], d: ["e"], e: [] }));
    hand.enter(1);
    hand.end("a");
    hand.start("c");
    hand.end("b", DROPPED, DROP_EXPIRED);
    expect(hand.here).toBe("");
    expect(hand.outcomes).toEqual([DROPPED]);
    // Its number is not given out while c runs.
    expect(hand.flow.live).toBe(1);
    const other = hand.enter(2);
    expect(other).not.toBe(hand.entered[0]);
    hand.end("a");
    hand.end("c");
    expect(hand.outcomes).toEqual([DROPPED]);
    expect(hand.flow.live).toBe(1);
    expect(hand.enter(3)).toBe(hand.entered[0]);
  });

  test("fan-out by data: n parts go on by themselves, what joins waits for all of them", () => {
    const hand = new Hand(OCR);
    hand.parts = () => 3;
    hand.enter(1);
    hand.end("detect");
    expect(hand.here).toBe("crop crop crop");
    hand.end("crop");
    expect(hand.here).toBe("crop crop read");
    hand.end("read");
    hand.end("crop");
    hand.end("crop");
    hand.end("read");
    expect(hand.here).toBe("read");
    hand.end("read");
    expect(hand.here).toBe("join");
    hand.end("join");
    expect(hand.outcomes).toEqual([FINISHED]);
    expect(hand.flow.live).toBe(0);
  });

  test("a fan-out of nothing: what joins runs at once; without a join the request is done", () => {
    const hand = new Hand(OCR);
    hand.parts = () => 0;
    hand.enter(1);
    hand.end("detect");
    expect(hand.here).toBe("join");
    hand.end("join");
    expect(hand.submitted).toEqual(["detect", "join"]);
    const open = new Hand(graph({ detect: ["crop"], crop: [] }, { crop: { fansOut: true } }));
    open.parts = () => 0;
    open.enter(1);
    open.end("detect");
    expect(open.outcomes).toEqual([FINISHED]);
  });

  test("what joins may need the whole request beside the parts", () => {
    const hand = new Hand(
      graph({ ...PAGES, detect: ["crop", "join"] }, { crop: { fansOut: true }, join: { joins: true } }),
    );
    hand.parts = () => 2;
    hand.enter(1);
    hand.end("detect");
    hand.end("crop");
    hand.end("read");
    hand.end("crop");
    expect(hand.here).toBe("read");
    hand.end("read");
    expect(hand.here).toBe("join");
  });

  test("one part of many fails: the others are called off", () => {
    const hand = new Hand(OCR);
    hand.parts = () => 4;
    hand.enter(1);
    hand.end("detect");
    hand.start("crop");
    hand.end("crop");
    expect(hand.here).toBe("crop crop crop read");
    hand.end("read", FAILED, 2);
    expect(hand.here).toBe("");
    expect(hand.ends).toEqual([{ tag: 1, outcome: FAILED, reason: 2, module: "read", at: 1 }]);
    expect(hand.flow.live).toBe(0);
  });

  test("a branch: one way is taken, the other is passed over, and what merges waits for the one", () => {
    const hand = new Hand(
      graph({ a: ["b", "c"], b: ["d"], c: ["e"], d: ["f"], e: ["f"], f: [] }, { a: { branches: true } }),
    );
    hand.way = () => 1;
    hand.enter(1);
    hand.end("a");
    hand.end("c");
    hand.end("e");
    hand.end("f");
    expect(hand.submitted).toEqual(["a", "c", "e", "f"]);
    expect(hand.outcomes).toEqual([FINISHED]);
  });

  test("a branch away from a fan-out: what joins its parts is passed over, too", () => {
    const hand = new Hand(
      graph(
        { a: ["b", "e"], b: ["c"], c: ["d"], d: ["f"], e: ["f"], f: [] },
        { a: { branches: true }, b: { fansOut: true }, d: { joins: true } },
      ),
    );
    hand.way = () => 1;
    hand.enter(1);
    hand.end("a");
    hand.end("e");
    hand.end("f");
    expect(hand.submitted).toEqual(["a", "e", "f"]);
    expect(hand.outcomes).toEqual([FINISHED]);
  });

  test("soft: what is dropped, fails or is late there is missing, and the request goes on while it has time", () => {
    const soft = graph({ a: ["b", "c"], b: ["d"], c: ["d"], d: [] }, { b: { isSoft: true } });
    for (const outcome of [DROPPED, FAILED, LATE]) {
      const hand = new Hand(soft);
      hand.enter(1);
      hand.end("a");
      hand.end("b", outcome, 0, 99);
      hand.end("c");
      hand.end("d");
      expect(hand.outcomes).toEqual([FINISHED]);
    }
    const hand = new Hand(soft);
    hand.enter(1);
    hand.end("a");
    hand.end("b", LATE, 0, 100);
    expect(hand.outcomes).toEqual([LATE]);
  });

  test("a queue that is full at once ends the request once", () => {
    const hand = new Hand(DIAMOND);
    hand.refuse = (name) => name === "b" || name === "c";
    hand.enter(1);
    hand.end("a");
    expect(hand.submitted).toEqual(["a", "b"]);
    expect(hand.ends).toEqual([{ tag: 1, outcome: DROPPED, reason: DROP_QUEUE_FULL, module: "b", at: 1 }]);
    expect(hand.flow.live).toBe(0);
  });

  test("two fan-outs behind one module, or at the entrance: what the first refuses ends the request, and the second is not asked", () => {
    const fork = graph(
      { a: ["b", "c"], b: ["d"], c: ["e"], d: [], e: [] },
      { b: { fansOut: true }, c: { fansOut: true }, d: { joins: true }, e: { joins: true } },
    );
    const sources = graph(
      { b: ["d"], c: ["e"], d: [], e: [] },
      { b: { fansOut: true }, c: { fansOut: true }, d: { joins: true }, e: { joins: true } },
    );
    for (const modules of [fork, sources]) {
      for (const refuse of [(hand: Hand) => (hand.parts = () => REFUSED), (hand: Hand) => (hand.lets = () => false)]) {
        const hand = new Hand(modules);
        refuse(hand);
        hand.enter(1);
        if (modules === fork) hand.end("a");
        expect(hand.ends.map(({ tag, module }) => [tag, module])).toEqual([[1, "b"]]);
        expect(hand.flow.live).toBe(0);
      }
    }
  });

  test("no room: a request does not enter; parts that do not fit end their request", () => {
    const hand = new Hand(OCR, 3);
    hand.parts = () => 3;
    hand.enter(1);
    hand.end("detect");
    expect(hand.ends).toEqual([{ tag: 1, outcome: DROPPED, reason: DROP_QUEUE_FULL, module: "crop", at: 1 }]);
    expect(hand.flow.live).toBe(0);
    expect([hand.enter(2), hand.enter(3), hand.enter(4)].every((request) => request >= 0)).toBe(true);
    expect(hand.enter(5)).toBe(-1);
  });

  test("abandoned by its client: its parts are called off, and it ends once", () => {
    const hand = new Hand(DIAMOND);
    const request = hand.enter(1);
    hand.end("a");
    hand.start("b");
    hand.flow.abandon(request, DROPPED, DROP_CANCELLED, 5);
    hand.flow.settle(5);
    expect(hand.here).toBe("");
    hand.flow.abandon(request, DROPPED, DROP_CANCELLED, 5);
    hand.end("b");
    expect(hand.ends).toEqual([{ tag: 1, outcome: DROPPED, reason: DROP_CANCELLED, module: null, at: 5 }]);
    expect(hand.flow.live).toBe(0);
  });

  test("the place of a part is the same whatever happened before", () => {
    const paths = (order: readonly string[]): number[] => {
      const hand = new Hand(OCR);
      hand.parts = () => 2;
      hand.enter(1);
      hand.enter(2);
      for (const name of order) hand.end(name);
      return hand.waiting.map((part) => hand.flow.pathOf(part)).sort();
    };
    expect(paths(["detect", "detect"])).toEqual(paths(["detect", "detect"]));
    expect(new Set(paths(["detect"])).size).toBe(3);
  });
});

/** Graphs of modules in topological order, with fan-outs, joins, branches and soft modules where they may stand. */
const graphs = fc
  .record({
    size: fc.integer({ min: 1, max: 9 }),
    bits: fc.array(fc.nat(1 << 20), { minLength: 40, maxLength: 40 }),
  })
  .map(({ size, bits }) => {
    let next = 0;
    const chance = (percent: number): boolean => bits[next++ % bits.length]! % 100 < percent;
    const edges = Array.from({ length: size }, (_, module) =>
      Array.from({ length: size - module - 1 }, (_, step) => module + 1 + step).filter(() => chance(40)),
    );
    const spec = (module: number): ModuleSpec => ({
      id: module,
      name: `m${module}`,
      subs: edges[module]!,
      pres: edges.flatMap((subs, pre) => (subs.includes(module) ? [pre] : [])),
      isSoft: chance(20),
      fansOut: chance(25),
      joins: chance(25),
      branches: chance(25) && edges[module]!.length > 1,
    });
    let modules = edges.map((_, module) => spec(module));
    // What cannot stand where it was drawn becomes plain, or loses what leads to it from other parts.
    for (let turn = 0; turn < 50; turn++) {
      const [problem] = pipelineProblems(modules);
      if (problem === undefined) return modules;
      const { module, field } = problem;
      const cut = field === "pres" ? new Set([module]) : new Set<number>();
      modules = modules.map((each) => ({
        ...each,
        ...(each.id === module && field === "join" ? { joins: false } : {}),
        ...(each.id === module && field === "fan_out" ? { fansOut: false } : {}),
        ...(each.id === module && field === "branch" ? { branches: false } : {}),
        pres: cut.has(each.id) ? each.pres.slice(0, 1) : each.pres,
        subs: each.subs.filter((sub) => !cut.has(sub) || modules[sub]!.pres[0] === each.id),
      }));
    }
    return graph({ a: [] });
  });

describe("conservation over graphs, failures and calls off drawn by seed", () => {
  test("each request ends exactly once, nothing outlives its number, and all numbers come back", () => {
    let fannedOut = 0;
    let endedBadly = 0;
    fc.assert(
      fc.property(graphs, fc.array(fc.nat(1 << 30), { minLength: 60, maxLength: 300 }), (modules, dice) => {
        let next = 0;
        const roll = (sides: number): number => dice[next++ % dice.length]! % sides;
        const hand = new Hand(modules, 60);
        const width = modules.length;
        hand.parts = () => (roll(10) === 0 ? REFUSED : roll(4));
        hand.lets = () => roll(10) > 0;
        hand.way = (name) =>
          roll(20) === 0 ? REFUSED : roll(modules.find((module) => module.name === name)!.subs.length);
        hand.refuse = () => roll(20) === 0;
        /** Requests that have entered and not ended, by number. */
        const open = new Map<number, number>();
        let tags = 0;
        let refused = 0;
        const check = (): void => {
          // Parts with the driver belong to requests whose numbers are not free.
          for (const part of [...hand.waiting, ...hand.running])
            if (Math.floor(part / width) >= 60) throw new Error(`part ${part} is of no frame`);
          // Who has ended waits nowhere: what is left of it runs.
          for (const part of hand.waiting) {
            const tag = hand.flow.tag[hand.flow.requestOf(part)]!;
            if (!open.has(tag)) throw new Error(`part of request ${tag} waits though it has ended`);
          }
        };
        const noteEnds = (): void => {
          for (const { tag } of hand.ends.splice(0)) {
            if (!open.delete(tag)) throw new Error(`request ${tag} ended twice, or never entered`);
          }
        };
        for (let step = 0; step < dice.length; step++) {
          const what = roll(10);
          if (what < 3) {
            const tag = tags++;
            open.set(tag, step);
            if (hand.enter(tag, step) < 0) {
              open.delete(tag);
              refused++;
            }
          } else if (what < 5 && hand.waiting.length > 0) {
            hand.running.push(...hand.waiting.splice(roll(hand.waiting.length), 1));
          } else if (what === 5 && hand.waiting.length > 0) {
            const request = hand.flow.requestOf(hand.waiting[0]!);
            hand.flow.abandon(request, DROPPED, DROP_CANCELLED, step);
            hand.flow.settle(step);
          } else {
            const list = hand.running.length > 0 ? hand.running : hand.waiting;
            if (list.length > 0) {
              const [part] = list.splice(roll(list.length), 1);
              const outcome = [FINISHED, FINISHED, FINISHED, FINISHED, LATE, DROPPED, FAILED][roll(7)]!;
              if (outcome !== FINISHED) endedBadly++;
              hand.flow.ended(part!, outcome, 0, step);
              hand.flow.settle(step);
            }
          }
          noteEnds();
          check();
        }
        while (hand.waiting.length + hand.running.length > 0) {
          const part = (hand.running.pop() ?? hand.waiting.pop())!;
          hand.flow.ended(part, FINISHED, 0, dice.length);
          hand.flow.settle(dice.length);
          noteEnds();
          check();
        }
        noteEnds();
        expect([...open.keys()]).toEqual([]);
        expect(hand.flow.live).toBe(0);
        expect(hand.entered.length).toBe(tags - refused);
        // All numbers are free again: as many requests enter as there is room for.
        hand.refuse = () => false;
        hand.parts = () => 0;
        hand.lets = () => true;
        if (modules.some((module) => module.pres.length === 0 && !module.fansOut)) {
          for (let number = 0; number < 60; number++) expect(hand.enter(-1 - number)).toBeGreaterThanOrEqual(0);
          expect(hand.enter(-100)).toBe(-1);
        }
        if (modules.some(({ fansOut }) => fansOut)) fannedOut++;
      }),
      { numRuns: 300 },
    );
    expect(fannedOut).toBeGreaterThan(30);
    expect(endedBadly).toBeGreaterThan(1000);
  });

  test("a request that nothing fails runs every module that its ways lead to, once for each part", () => {
    fc.assert(
      fc.property(graphs, fc.nat(1000), (modules, seed) => {
        const hand = new Hand(modules, 100_000);
        const countOf = (name: string): number => (seed + Number(name.slice(1))) % 3;
        hand.parts = countOf;
        hand.way = (name) =>
          (seed + Number(name.slice(1)) * 7) % modules.find((module) => module.name === name)!.subs.length;
        hand.enter(1);
        while (hand.waiting.length > 0) {
          const part = hand.waiting.splice((seed * 31) % hand.waiting.length, 1)[0]!;
          hand.flow.ended(part, FINISHED, 0, 1);
          hand.flow.settle(1);
        }
        expect(hand.outcomes).toEqual([FINISHED]);
        const ran = new Map<string, number>();
        for (const name of hand.submitted) ran.set(name, (ran.get(name) ?? 0) + 1);
        expect(Object.fromEntries(ran)).toEqual(expectedRuns(modules, countOf, hand.way));
      }),
      { numRuns: 500 },
    );
  });
});

/**
 * How often each module runs, worked out over the graph in order and not part by part: the ways taken are the same in all
 * parts, so a module runs in all parts of its scope or in none.
 */
function expectedRuns(
  modules: readonly ModuleSpec[],
  parts: (module: string) => number,
  way: (module: string) => number,
): Record<string, number> {
  const { order, pres, scope, gathersIn } = new Pipeline(modules);
  /** Parts of a scope, and whether a module is led to. */
  const partsIn = (of: number): number => (of < 0 ? 1 : parts(modules[of]!.name) * partsIn(gathersIn[of]!));
  const isLedTo = new Map<number, boolean>();
  const runs: Record<string, number> = {};
  for (const module of order) {
    const ledTo =
      pres[module]!.length === 0 ||
      pres[module]!.some((pre) => {
        const { branches, subs } = modules[pre]!;
        if (!isLedTo.get(pre)!) return false;
        // Whatever ways its parts take: a fan-out that was led to leads to what joins it.
        if (modules[module]!.joins && scope[pre] !== gathersIn[module]) return true;
        return !branches || subs[way(modules[pre]!.name)] === modules[module]!.id;
      });
    const opener = modules[module]!.joins
      ? pres[module]!.map((pre) => scope[pre]!).find((of) => of !== gathersIn[module])
      : undefined;
    isLedTo.set(module, ledTo || (opener !== undefined && isLedTo.get(opener) === true));
    const count = isLedTo.get(module) ? partsIn(scope[module]!) : 0;
    if (count > 0) runs[modules[module]!.name] = count;
  }
  return runs;
}
