/**
 * Whether one more request of a pipeline is begun, where its modules share accelerators: only if it ends in time although all
 * that is begun goes first. What is refused at the entrance costs nothing; what is begun and does not end was in vain.
 *
 * Not PARD's, whose modules have accelerators of their own, so that a request waits behind its module's queue only. Here all parts of
 * all requests that were let in are work on the same accelerators, and what is begun ranks first (Budgets.headStartUs): who comes now
 * ends when that is done, the sum of what is expected of the live parts and of what they lead to. Expectations are wrong in ways that nobody
 * tells of (other models on the accelerators, cores that steps and workers share), so what they say is taken times a factor that follows who was lost.
 */
import type { Pipeline } from "../pipeline.js";
import { SeenParts } from "./seen-parts.js";

/** Part of the accelerator time that is in vain, where the factor stands still. */
const VAIN_PART = 0.02;
/**
 * The factor's growth by a request that is lost and took as long as most, or longer; it shrinks by VAIN_PART of that by one that is not. One loss
 * tells little of what admission could have done (a page may be long, a run slow), and what it adds takes fifty requests to be taken back.
 */
const STEP = 0.05;
const FACTOR_FIRST = 1;
const FACTOR_MIN = 0.7;
const FACTOR_MAX = 3;
/** Whose end was foreseen before that part of its time says nothing of the margin. */
const NEAR = 0.6;
/** Weight of the newest request in what most take. */
const NEWEST = 0.02;

export interface SharedAccelerators {
  readonly count: number;
  /** By module: accelerator time of a part, until it is measured, µs; 0: it runs elsewhere. */
  readonly partUs: Float64Array;
  /** By module that fans out: parts that a request makes in the mean. */
  readonly parts: Float64Array;
  /** What the module takes is time of accelerators: its own, where it is not on these. */
  spends(module: number): boolean;
  /** Of a batch of this size by the profile, µs; of more than a batch holds, one after the other. */
  batchUs(module: number, size: number): number;
}

interface LiveRequest {
  readonly deadline: number;
  /** When it was foreseen to end, over the time that it had. */
  readonly foreseen: number;
  /** Expected accelerator time of its live parts, and of what they lead to, µs. */
  leftUs: number;
  /** Time of any accelerators that it took, µs. */
  spentUs: number;
  /** It was not in time, and that is counted. */
  isLost: boolean;
  /** It is to show what is believed of modules that nothing came to of late. */
  isTried: boolean;
}

export class CommittedWork {
  private readonly pipeline: Pipeline;
  /** By module: those after it. */
  private readonly after: readonly (readonly number[])[];
  private shared: SharedAccelerators;
  readonly seen: SeenParts;
  /** By module: what a part alone leads to, and what all that come together lead to when they have joined, µs. */
  private readonly leadsUs: Float64Array;
  private readonly joinedUs: Float64Array;
  /** By part, while it is with its module: its part of its request's `leftUs`, and the size of the batch that it ran in. */
  private amounts = new Float64Array(64);
  private sizes = new Float64Array(64);
  private readonly live = new Map<number, LiveRequest>();
  private totalUs = 0;
  private factor = FACTOR_FIRST;
  /** Accelerator time that requests take, in the mean, µs; NaN: none has ended. */
  private usualUs = Number.NaN;

  /** @param before by module: all before it. */
  constructor(pipeline: Pipeline, before: readonly (readonly number[])[], shared: SharedAccelerators) {
    this.pipeline = pipeline;
    this.after = before.map((_, module) => before.flatMap((all, other) => (all.includes(module) ? [other] : [])));
    this.seen = new SeenParts(before.length);
    this.leadsUs = new Float64Array(before.length);
    this.joinedUs = new Float64Array(before.length);
    this.shared = shared;
    this.retime(shared);
  }

  retime(shared: SharedAccelerators): void {
    this.shared = shared;
    for (const module of this.leadsUs.keys()) {
      const scope = this.pipeline.scope[module]!;
      let leadsUs = 0;
      let joinedUs = 0;
      for (const next of this.after[module]!) {
        const parts = this.partsIn(next);
        const us = this.partUs(next, parts) * parts;
        if (scope < 0 || this.around(next).includes(scope)) leadsUs += us / Math.max(1, this.partsIn(module));
        else joinedUs += us;
      }
      this.leadsUs[module] = leadsUs;
      this.joinedUs[module] = joinedUs;
    }
  }

  /** Accelerator time of each of so many parts that come to the module together, as measured, µs; NaN: not yet, or it runs elsewhere. */
  eachUs(module: number, together: number): number {
    const { count, partUs } = this.shared;
    if (partUs[module] === 0) return Number.NaN;
    const size = Math.max(1, Math.ceil(together / count));
    return this.seen.eachUs(module, size, this.shared.batchUs(module, size));
  }

  private partUs(module: number, together: number): number {
    const us = this.eachUs(module, together);
    return Number.isNaN(us) ? this.shared.partUs[module]! : us;
  }

  /** Asked once for each request, as it comes. @param pathUs that it takes when nothing is in its way. */
  letsIn(request: number, pathUs: number, deadline: number, at: number): boolean {
    this.countLate(at);
    const foreseen = this.foreseenUs(this.dueUs(deadline), pathUs) / (deadline - at);
    // Where nobody is in its way it is tried, whatever is foreseen: what else would show that it can be in time?
    if (!(foreseen <= 1) && this.live.size > 0) return false;
    const own = { deadline, foreseen, leftUs: 0, spentUs: 0, isLost: false, isTried: false };
    this.live.set(request, own);
    if (!(foreseen <= 1)) this.tries(own, [...this.after.keys()], at);
    return true;
  }

  /** How much more time than this a request would need that comes now, to be let in: with more time more is due before it. @returns all of it, µs. */
  neededUs(pathUs: number, deadline: number, at: number): number {
    const later = [...this.live.values()].filter((other) => other.deadline > deadline);
    let dueUs = this.dueUs(deadline);
    for (const other of later.sort((a, b) => a.deadline - b.deadline)) {
      if (at + this.foreseenUs(dueUs, pathUs) < other.deadline) break;
      dueUs += other.leftUs;
    }
    return this.foreseenUs(dueUs, pathUs);
  }

  private foreseenUs(dueUs: number, pathUs: number): number {
    return (this.factor * dueUs) / this.shared.count + pathUs;
  }

  /**
   * Of what is begun, what must end by then. What has longer goes behind it: who asks for ten times the time would keep out everybody who
   * asks for the pipeline's own.
   */
  private dueUs(deadline: number): number {
    let dueUs = this.totalUs;
    for (const other of this.live.values()) if (other.deadline > deadline) dueUs -= other.leftUs;
    return Math.max(0, dueUs);
  }

  isIn(request: number): boolean {
    return this.live.has(request);
  }

  /** It is to show what its modules take: they have all the time that it has. */
  isTried(request: number): boolean {
    return this.live.get(request)!.isTried;
  }

  /** How many parts a request makes in the module is known now. @returns whether it goes on: with those that must end before it they may be too many. */
  goesOn(request: number, module: number, parts: number, at: number): boolean {
    this.seen.made(module, parts);
    const own = this.live.get(request);
    return (
      own === undefined ||
      at + this.partsUs(own, module, parts) <= own.deadline ||
      this.tries(own, [module, ...this.after[module]!], at)
    );
  }

  /** How long so many parts are expected to be, with those that must end before them; 0: the request was never asked about. */
  takesUs(request: number, module: number, parts: number): number {
    const own = this.live.get(request);
    return own === undefined ? 0 : this.partsUs(own, module, parts);
  }

  private partsUs(own: LiveRequest, module: number, parts: number): number {
    let aheadUs = parts * (this.partUs(module, parts) + this.leadsUs[module]!) + this.joinedUs[module]!;
    for (const other of this.live.values()) if (other.deadline < own.deadline) aheadUs += other.leftUs;
    return aheadUs / this.shared.count;
  }

  private tries(own: LiveRequest, modules: readonly number[], at: number): boolean {
    const here = modules.filter((module) => this.shared.partUs[module]! > 0);
    if (!own.isTried && this.seen.isStale(here, at)) {
      own.isTried = true;
      this.seen.tried(here, at);
    }
    return own.isTried;
  }

  /** A part of a request that is in comes to its module. @param together parts that come with it, itself among them. */
  came(request: number, part: number, module: number, together: number): void {
    const own = this.live.get(request)!;
    if (part >= this.amounts.length) this.grow(part + 1);
    const us = this.partUs(module, together) + this.leadsUs[module]! + this.joinedUs[module]! / together;
    this.amounts[part] = us;
    this.sizes[part] = 1;
    this.totalUs += us;
    own.leftUs += us;
  }

  /** It ran in a batch of this size. */
  ran(part: number, size: number): void {
    if (part < this.sizes.length) this.sizes[part] = size;
  }

  /** It left its module, however. @param execUs of the batch that it ran in; 0: it did not run. */
  left(request: number, part: number, module: number, execUs: number, at: number): void {
    this.countLate(at);
    if (part >= this.amounts.length) return;
    const us = this.amounts[part]!;
    this.amounts[part] = 0;
    this.totalUs = Math.max(0, this.totalUs - us);
    const own = this.live.get(request);
    if (own !== undefined) own.leftUs -= us;
    if (execUs <= 0 || !this.shared.spends(module)) return;
    const size = this.sizes[part]!;
    if (own !== undefined) own.spentUs += execUs / size;
    if (this.shared.partUs[module] === 0) return;
    this.seen.ran(module, size, execUs, this.shared.batchUs(module, size), at);
  }

  /** @param isLost it was not in time, though nobody called it off and nothing failed. */
  ended(request: number, isLost: boolean): void {
    const own = this.live.get(request);
    if (own === undefined) return;
    this.live.delete(request);
    this.count(own, isLost);
  }

  /** Who is past its deadline is lost, whenever its last part ends, by what it took until then: a server has told its client by then, a simulator has not. */
  private countLate(at: number): void {
    for (const own of this.live.values()) {
      if (own.deadline >= at) return;
      this.count(own, true);
    }
  }

  private count(own: LiveRequest, isLost: boolean): void {
    if (own.isLost || own.foreseen < NEAR) return;
    own.isLost = isLost;
    this.usualUs = Number.isNaN(this.usualUs) ? own.spentUs : this.usualUs + (own.spentUs - this.usualUs) * NEWEST;
    const weight = Math.min(1, own.spentUs / Math.max(1, this.usualUs));
    const factor = this.factor * Math.exp(STEP * weight * (isLost ? 1 - VAIN_PART : -VAIN_PART));
    this.factor = Math.min(FACTOR_MAX, Math.max(FACTOR_MIN, factor));
  }

  /** Fan-outs whose parts the module runs in. */
  private around(module: number): number[] {
    const { scope, gathersIn } = this.pipeline;
    const openers: number[] = [];
    for (let opener = scope[module]!; opener >= 0; opener = gathersIn[opener]!) openers.push(opener);
    return openers;
  }

  private partsIn(module: number): number {
    return this.around(module).reduce((parts, opener) => parts * this.shared.parts[opener]!, 1);
  }

  private grow(parts: number): void {
    const length = Math.max(parts, this.amounts.length * 2);
    const [amounts, sizes] = [new Float64Array(length), new Float64Array(length)];
    amounts.set(this.amounts);
    sizes.set(this.sizes);
    this.amounts = amounts;
    this.sizes = sizes;
  }
}
