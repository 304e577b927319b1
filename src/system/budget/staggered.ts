/**
 * The budget rule staggered: what a module keeps for those behind it is what they take when they are full, as profiles say. Where modules share
 * accelerators, in turn or side by side, later ones go first, and a request is let in only if it can end behind all that is begun (CommittedWork).
 */
import type { Board } from "../board.js";
import type { Flow, Part } from "../flow.js";
import { columnOf, PART_QUANTILES } from "../module-states.js";
import type { Pipeline } from "../pipeline.js";
import { CommittedWork, type SharedAccelerators } from "./committed-work.js";
import { type ModuleTimes, timeOfAllUs } from "./module-times.js";
import type { PartDue } from "./part-due.js";
import { type PartFrames, PartWork } from "./part-work.js";

/** The first quantile that is published, the last, and the middle one. */
const LEAST_PARTS = columnOf("parts_0");
const MOST_PARTS = LEAST_PARTS + PART_QUANTILES - 1;
const MEDIAN_PARTS = LEAST_PARTS + (PART_QUANTILES - 1) / 2;

export class Staggered {
  private readonly pipeline: Pipeline;
  private times: ModuleTimes;
  /** Of one alone, by module. */
  private readonly leastUs: Float64Array;
  private readonly sloUs: (module: number) => number;
  /** By module, itself and all after it; and of parts that come together. */
  private ownUs: Float64Array;
  private restUs: Float64Array;
  private readonly reserved: PartWork;
  /** What modules take that have their accelerators for themselves, as measured. */
  private readonly expected: PartWork;
  /** By module: those before it; of them those on its accelerators. */
  private readonly before: readonly (readonly number[])[];
  private earlier: readonly (readonly number[])[];
  private readonly headStarts: Float64Array;
  /** By module: its accelerators began a run of a module before it while the request was elsewhere; 0: it comes straight from one of those. */
  private readonly interludeUs: Float64Array;
  /** By module that fans out: parts that a request made of late, in the mean. */
  private readonly parts: Float64Array;
  /** The longest run of one alone on the accelerators that modules share, µs. */
  private longestUs = 0;
  /** Null: no two modules share accelerators. */
  committed: CommittedWork | null = null;

  /** @param leastUs of one alone, by module; kept up to date by whoever calls `retime`. @param sloUs of a module, from which its planned batch follows. */
  constructor(pipeline: Pipeline, times: ModuleTimes, leastUs: Float64Array, sloUs: (module: number) => number) {
    this.pipeline = pipeline;
    this.times = times;
    this.leastUs = leastUs;
    this.sloUs = sloUs;
    this.ownUs = leastUs;
    this.restUs = leastUs;
    this.reserved = new PartWork(pipeline, (module, count, beside) =>
      this.earlier[module]!.length > 0 && this.times.togetherUs !== undefined
        ? this.interludeUs[module]! + this.times.togetherUs(module, count, beside, this.eachUs(module, count))
        : timeOfAllUs(this.times, module, count, this.ownUs[module]!),
    );
    this.expected = new PartWork(pipeline, (module, count) =>
      this.times.togetherUs === undefined
        ? this.leastUs[module]!
        : this.times.togetherUs(module, count, 0, this.eachUs(module, count)),
    );
    this.before = before(pipeline);
    this.earlier = pipeline.modules.map(() => []);
    this.headStarts = new Float64Array(pipeline.modules.length);
    this.interludeUs = new Float64Array(pipeline.modules.length);
    this.parts = new Float64Array(pipeline.modules.length).fill(1);
    this.reserve();
  }

  /** Modules take other times by themselves. */
  retime(times: ModuleTimes): void {
    this.times = times;
    this.reserve();
  }

  /** How many parts fan-outs make of late, and what parts take. @param shares is told of parts, too. */
  learn(states: Board, at: number, shares: PartWork): void {
    const row = states.blank();
    for (const [module, { fansOut }] of this.pipeline.modules.entries()) {
      if (states.read(module, at, row) !== "fresh") continue;
      if (fansOut !== true || row.value(MOST_PARTS) < 0) continue;
      const most = Math.max(1, Math.round(row.value(MOST_PARTS)));
      const median = Math.round(row.value(MEDIAN_PARTS));
      let sum = 0;
      for (let column = LEAST_PARTS; column <= MOST_PARTS; column++) sum += row.value(column);
      this.parts[module] = this.committed?.seen.partsMade(module) ?? sum / PART_QUANTILES;
      const usual = this.committed === null ? most : Math.max(1, Math.round(this.parts[module]!));
      for (const work of [shares, this.reserved, this.expected]) work.makes(module, usual, median);
    }
    this.reserve();
  }

  /** What is kept for the modules after this one, µs. @param frames null: no other part comes with it. */
  afterUs(module: number, frame: number, frames: PartFrames | null): number {
    if (frames === null || this.pipeline.scope[module]! < 0) return this.restUs[module]!;
    return this.reserved.of(module, frame, frames).afterUs;
  }

  /** What the first module of these accelerators kept for itself and all after it, µs; see Budgets. A soft one goes behind what others cannot do without. */
  headStartUs(module: number): number {
    return this.pipeline.isSoft(module) ? 0 : this.headStarts[module]!;
  }

  /** Where modules share accelerators: whether the part's request is let in; of one that is, until when the part can be of use. */
  tell(due: PartDue, part: Part, flow: Flow, at: number): void {
    const { committed } = this;
    if (committed === null) return;
    const [module, frame, request] = [flow.moduleOf(part), flow.frameOf(part), flow.requestOf(part)];
    const deadline = flow.deadline[request]!;
    const { ownUs, afterUs } = this.expected.of(module, frame, flow);
    if (!committed.isIn(request) && !committed.letsIn(request, ownUs + afterUs, deadline, at)) {
      due.dueBy = at;
      return;
    }
    committed.came(request, part, module, Math.max(1, flow.togetherOf(frame)));
    if (committed.isTried(request)) {
      due.dueBy = deadline;
      return;
    }
    due.dueBy = this.forWhoIsIn(due.dueBy, ownUs, afterUs, deadline, at);
  }

  /** What the queue of a part must reach whose request is let in, with this deadline. @param dueBy by what is kept for later modules. */
  dueWith(dueBy: number, module: number, frame: number, flow: Flow, deadline: number, at: number): number {
    if (this.committed === null) return dueBy;
    const { ownUs, afterUs } = this.expected.of(module, frame, flow);
    return this.forWhoIsIn(dueBy, ownUs, afterUs, deadline, at);
  }

  /** Who can no longer leave later modules what they may take is given up only when they cannot do it at all. */
  private forWhoIsIn(dueBy: number, ownUs: number, afterUs: number, deadline: number, at: number): number {
    return dueBy < at + ownUs + this.longestUs ? Math.max(dueBy, Math.floor(deadline - afterUs)) : dueBy;
  }

  private reserve(): void {
    const { times, leastUs } = this;
    this.ownUs = leastUs.map((us, module) =>
      times.staggeredUs === undefined || times.isSingle?.(module) === true
        ? us
        : times.staggeredUs(module, this.sloUs(module)),
    );
    if (times.groupOf !== undefined) this.lookBefore(times.groupOf);
    const shared = this.sharedAccelerators();
    if (shared !== null) {
      this.longestUs = Math.max(...shared.partUs);
      if (this.committed === null) this.committed = new CommittedWork(this.pipeline, this.before, shared);
      else this.committed.retime(shared);
    }
    this.reserved.forget();
    this.expected.forget();
    this.restUs = this.reserved.along("subs");
    for (const [module, earlier] of this.earlier.entries())
      this.headStarts[module] = mostOf(earlier, (each) => this.ownUs[each]! + this.restUs[each]!);
  }

  /** Which modules before it each has on its accelerators, and what of them may be under way when a request comes from elsewhere. */
  private lookBefore(groupOf: (module: number) => number): void {
    const { pipeline, leastUs, interludeUs } = this;
    this.earlier = this.before.map((all, module) => all.filter((each) => groupOf(each) === groupOf(module)));
    for (const [module, earlier] of this.earlier.entries()) {
      const isElsewhere = pipeline.pres[module]!.some((pre) => groupOf(pre) !== groupOf(module));
      interludeUs[module] = isElsewhere ? mostOf(earlier, (each) => leastUs[each]!) : 0;
    }
  }

  /** Of the groups in which several modules are, the one with most to do; null: there is none. */
  private sharedAccelerators(): SharedAccelerators | null {
    const { leastUs, parts, times } = this;
    const { groupOf } = times;
    if (groupOf === undefined) return null;
    // What a request can do without is not promised to it.
    const workIn = (group: number): Float64Array =>
      leastUs.map((us, module) => (groupOf(module) === group && !this.pipeline.isSoft(module) ? us : 0));
    const groups = Array.from(leastUs, (_, module) => groupOf(module));
    let [most, found] = [0, -1];
    for (const [module, group] of groups.entries()) {
      // Steps are no accelerators.
      if (group < 0 || groups.indexOf(group) === groups.lastIndexOf(group)) continue;
      const us = workIn(group).reduce((sum, each) => sum + each, 0);
      if (us > most) [most, found] = [us, module];
    }
    if (found < 0) return null;
    const count = times.acceleratorsOf?.(found) ?? 1;
    const spends = (module: number): boolean => groups[module]! >= 0;
    return { count, partUs: workIn(groups[found]!), parts, spends, batchUs: this.batchTimes(count) };
  }

  /** Times of batches by the profiles, each asked for once: of as many requests for each of these accelerators. */
  private batchTimes(count: number): SharedAccelerators["batchUs"] {
    const { leastUs, times } = this;
    const known: number[][] = Array.from(leastUs, () => []);
    return (module, size) => {
      const sizes = known[module]!;
      sizes[size] ??= times.togetherUs?.(module, size * count, 0, Number.NaN) ?? size * leastUs[module]!;
      return sizes[size]!;
    };
  }

  /** Accelerator time of a part, as measured, µs; NaN: not yet, or not there. */
  private eachUs(module: number, together: number): number {
    return this.committed?.eachUs(module, together) ?? Number.NaN;
  }
}

const mostOf = (modules: readonly number[], us: (module: number) => number): number =>
  modules.reduce((most, module) => Math.max(most, us(module)), 0);

/** By module: all before it. */
function before({ modules, order, pres }: Pipeline): number[][] {
  const sets = modules.map(() => new Set<number>());
  for (const module of order)
    for (const pre of pres[module]!) for (const each of [...sets[pre]!, pre]) sets[module]!.add(each);
  return sets.map((set) => [...set]);
}
