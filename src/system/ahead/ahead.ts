/** What lies ahead of a request, sampled: executions with their distributions, ways as often as they are taken, joins that wait for the slowest part. */
import type { BoardRow } from "../board.js";
import { columnOf, PART_QUANTILES, RUN_QUANTILES, WAIT_QUANTILES } from "../module-states.js";
import type { Pipeline } from "../pipeline.js";
import { quantile, quantilesAt } from "../quantiles.js";
import { evenDraws } from "./even-draws.js";
import { CLASSES_MAX, DEFAULT_CLASS } from "./request-classes.js";
import { SAMPLES, Samples, Slowest } from "./samples.js";
import { select } from "./select.js";
import { waysTold } from "./way-counts.js";

export const EXECUTIONS = ["mean", "distribution"] as const;
export const WAYS = ["longest", "learnt"] as const;
export const JOINS = ["one", "slowest"] as const;

export interface AheadOptions {
  /** mean: a module takes its mean execution time, and lambda is of waits alone; distribution: one of those that it took, and lambda is of all. */
  readonly executions: (typeof EXECUTIONS)[number];
  /** longest: a request takes the way that takes longest; learnt: one of those that its class took, as often. */
  readonly ways: (typeof WAYS)[number];
  /** one: a fan-out takes as long as one part; slowest: as long as the slowest of its parts. */
  readonly joins: (typeof JOINS)[number];
}

/** PARD has the longest way and one part. */
export const AHEAD_DEFAULTS: AheadOptions = { executions: "mean", ways: "learnt", joins: "slowest" };

/** Numbers of parts that are reckoned for: 1, 2, 4, ... */
const PART_STEPS = 11;
const DELAY_US = columnOf("delay_us");
const EXEC_US = columnOf("exec_us");
const WAIT = columnOf("wait_0");
const RUN = columnOf("run_0");
const WAY = columnOf("way_0");
const PART = columnOf("parts_0");

const DRAWN = ["wait", "run", "way", "slowest", "parts"] as const;
type Draws = Readonly<Record<(typeof DRAWN)[number], Float64Array>>;

/**
 * L_sub over samples of all that may happen to a request from here on: each has a wait and an execution in every module, a way out of every module
 * that branches, a number of parts for every fan-out that is ahead. With mean executions it is the mean of queueing and executions and
 * the lambda-quantile of waits (Eq. 3b); with their distributions the lambda-quantile of all together. Reckoned when modules publish, for each
 * class of requests and number of parts; then looked up.
 */
export class Ahead {
  private readonly pipeline: Pipeline;
  private readonly leastUs: Float64Array;
  private readonly lambda: number;
  private readonly options: AheadOptions;
  private readonly draws: readonly Draws[];
  /** By module: time in it. */
  private readonly stays: readonly Samples[];
  /** By module, until its part of a fan-out joins, or until the end: from the end of the module on, and from before it. */
  private readonly rests: readonly Samples[];
  private readonly entries: readonly Samples[];
  /** By module: ways taken by class, as ascending sums, and quantiles of the number of parts; null: not known. */
  private readonly ways: ((Float64Array | null)[] | null)[];
  private readonly parts: (Float64Array | null)[];
  /** By module: it branches, or one after it does. */
  private readonly forks: readonly boolean[];
  private readonly whole = new Samples();
  private readonly joined = new Samples();
  private readonly slowest = new Slowest();
  private readonly slowestAround = new Slowest();
  private readonly at = new Float64Array(SAMPLES);
  /** By module, class and number of parts, µs. */
  private readonly table: Float64Array;

  constructor(
    pipeline: Pipeline,
    leastUs: Float64Array,
    { lambda, seed, ...options }: AheadOptions & { readonly lambda: number; readonly seed: number },
  ) {
    const { modules } = pipeline;
    this.pipeline = pipeline;
    this.leastUs = leastUs;
    this.lambda = lambda;
    this.options = options;
    this.draws = modules.map((_, module) => {
      const drawsOf = (what: (typeof DRAWN)[number]): Float64Array =>
        evenDraws(SAMPLES, seed, module * DRAWN.length + DRAWN.indexOf(what));
      return Object.fromEntries(DRAWN.map((what) => [what, drawsOf(what)])) as unknown as Draws;
    });
    this.stays = modules.map(() => new Samples());
    this.rests = modules.map(() => new Samples());
    this.entries = modules.map(() => new Samples());
    const branches = pipeline.longest("subs", (module) => (modules[module]!.branches ? 1 : 0));
    this.forks = modules.map((module, index) => module.branches === true || branches[index]! > 0);
    this.ways = modules.map(() => null);
    this.parts = modules.map(() => null);
    this.table = new Float64Array(modules.length * CLASSES_MAX * PART_STEPS);
    for (const module of modules.keys()) this.told(module, null);
    this.reckon();
  }

  /** What the module says now; null: nothing that is known, it takes its least time. */
  told(module: number, row: BoardRow | null): void {
    this.ways[module] = this.waysOf(module, row);
    this.parts[module] = row === null || row.value(PART) < 0 ? null : quantilesAt(row, PART, PART_QUANTILES);
    const { totalUs, fixedUs } = this.stays[module]!;
    if (this.pipeline.isSoft(module)) {
      // A request can do without.
      totalUs.fill(0);
      fixedUs.fill(0);
      return;
    }
    const isFixed = this.options.executions === "mean";
    if (row === null) {
      totalUs.fill(this.leastUs[module]!);
      fixedUs.fill(isFixed ? this.leastUs[module]! : 0);
      return;
    }
    const { wait, run } = this.draws[module]!;
    const delayUs = row.value(DELAY_US);
    const execUs = row.value(EXEC_US);
    const waits = quantilesAt(row, WAIT, WAIT_QUANTILES);
    const runs = quantilesAt(row, RUN, RUN_QUANTILES);
    fixedUs.fill(isFixed ? delayUs + execUs : 0);
    for (let sample = 0; sample < SAMPLES; sample++) {
      const execution = isFixed ? 1 : quantile(runs, run[sample]!);
      totalUs[sample] = delayUs + execUs * (execution + quantile(waits, wait[sample]!));
    }
  }

  /** All modules are told. */
  reckon(): void {
    const backwards = [...this.pipeline.order].reverse();
    for (let kind = 0; kind < CLASSES_MAX; kind++) {
      const hasOwn = kind === DEFAULT_CLASS || this.isOwn(kind);
      // Where no branch is ahead all classes have the same before them.
      const isOther = (module: number): boolean => hasOwn && (kind === DEFAULT_CLASS || this.forks[module]!);
      for (const module of backwards) if (isOther(module)) this.look(module, kind);
      for (const module of backwards)
        if (isOther(module)) this.tabulate(module, kind);
        else this.copyDefault(module, kind);
    }
  }

  /** @param kind class of the request. @param parts of its fan-out that come to the module; 1: it is in none. */
  afterUs(module: number, kind: number, parts: number): number {
    const { table } = this;
    const first = (module * CLASSES_MAX + kind) * PART_STEPS;
    const step = 31 - Math.clz32(parts);
    if (step >= PART_STEPS - 1) return table[first + PART_STEPS - 1]!;
    const from = table[first + step]!;
    return from + (table[first + step + 1]! - from) * (parts / (1 << step) - 1);
  }

  /** Whether the class goes other ways than the default class does. */
  private isOwn(kind: number): boolean {
    return this.ways.some((ways) => ways?.[kind]?.some((sum, way) => sum !== ways[0]![way]));
  }

  private copyDefault(module: number, kind: number): void {
    const first = module * CLASSES_MAX * PART_STEPS;
    this.table.copyWithin(first + kind * PART_STEPS, first, first + PART_STEPS);
  }

  private waysOf(module: number, row: BoardRow | null): (Float64Array | null)[] | null {
    const { modules, subs } = this.pipeline;
    if (row === null || this.options.ways === "longest" || !modules[module]!.branches) return null;
    const told = (place: number): number => row.value(WAY + place);
    return Array.from({ length: CLASSES_MAX }, (_, kind) => waysTold(told, subs[module]!.length, kind));
  }

  /** All that follows on the module was looked at. */
  private look(module: number, kind: number): void {
    const { pipeline, entries } = this;
    const rest = this.rests[module]!;
    // Where parts join is looked at where they were made.
    const nexts = pipeline.subs[module]!.map((sub) =>
      pipeline.gathersIn[sub] === pipeline.scope[module] ? entries[sub]! : null,
    );
    const sums = this.ways[module]?.[kind] ?? null;
    rest.clear();
    if (sums === null) for (const next of nexts) if (next !== null) rest.longer(next);
    if (sums !== null) {
      const { way: draws } = this.draws[module]!;
      for (let sample = 0; sample < SAMPLES; sample++)
        rest.take(sample, nexts[sums.findIndex((sum) => draws[sample]! < sum)] ?? null);
    }
    const entry = entries[module]!;
    entry.copy(this.stays[module]!);
    entry.add(rest);
    if (pipeline.modules[module]!.fansOut) this.gather(module, entry);
  }

  /** From what one part takes to what all take until they have come together, and what follows. How many there are is not known yet. */
  private gather(opener: number, samples: Samples): void {
    if (this.options.joins === "slowest") {
      this.slowestAround.of(samples);
      this.slowestAround.take(this.learntAt(opener), samples);
    }
    this.join(opener, samples);
  }

  /** The parts have come together; what follows. */
  private join(opener: number, samples: Samples): void {
    this.joined.clear();
    for (const join of this.pipeline.joinsOf[opener]!) this.joined.longer(this.entries[join]!);
    samples.add(this.joined);
  }

  /** Where among those of one part the time of the slowest is, with as many as requests made lately; one, where that is not known. */
  private learntAt(opener: number): Float64Array {
    const { at } = this;
    const { parts, slowest } = this.draws[opener]!;
    const counts = this.parts[opener] ?? null;
    for (let sample = 0; sample < SAMPLES; sample++) {
      const count = counts === null ? 1 : counts[Math.floor(parts[sample]! * PART_QUANTILES)]!;
      at[sample] = count === 0 ? -1 : slowest[sample]! ** (1 / count);
    }
    return at;
  }

  private tabulate(module: number, kind: number): void {
    const { table, whole, pipeline } = this;
    const first = (module * CLASSES_MAX + kind) * PART_STEPS;
    const opener = pipeline.scope[module]!;
    const rest = this.rests[module]!;
    if (opener < 0 || this.options.joins === "one") {
      whole.copy(rest);
      if (opener >= 0) this.join(opener, whole);
      table.fill(this.reckonedUs(opener), first, first + PART_STEPS);
      return;
    }
    this.slowest.of(rest);
    const at = this.draws[opener]!.slowest.slice();
    for (let step = 0; step < PART_STEPS; step++) {
      this.slowest.take(at, whole);
      this.join(opener, whole);
      table[first + step] = this.reckonedUs(opener);
      for (let sample = 0; sample < SAMPLES; sample++) at[sample] = Math.sqrt(at[sample]!);
    }
  }

  /** Of `whole`, from when the parts of this fan-out have come together on. @param opener -1: there are none. */
  private reckonedUs(opener: number): number {
    const { gathersIn } = this.pipeline;
    const { totalUs, fixedUs } = this.whole;
    for (let around = opener; around >= 0 && gathersIn[around]! >= 0; around = gathersIn[around]!)
      this.gather(gathersIn[around]!, this.whole);
    let sumUs = 0;
    for (let sample = 0; sample < SAMPLES; sample++) {
      sumUs += fixedUs[sample]!;
      totalUs[sample]! -= fixedUs[sample]!;
    }
    return sumUs / SAMPLES + select(totalUs, Math.min(SAMPLES - 1, Math.floor(this.lambda * SAMPLES)));
  }
}
