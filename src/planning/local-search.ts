/** Moves and swaps between two sub-clusters at a time, until none helps. */
import type { Placement } from "./placement.js";
import { exceeds, type Uniform } from "./problem.js";

/** Relative gain below this is rounding. */
const GAIN_MIN = 1e-12;
/** Changes tried per pair of sub-clusters; of larger pairs, members are drawn. */
const TRIES_MAX = 40_000;
/** Changes applied to one pair before the next: a bound on a loop that ends by itself. */
const CHANGES_MAX = 10_000;

/** Exchanges of two models for two drawn for one pair of sub-clusters. */
const EXCHANGES_TRIED = 2000;

/** True once the time for searching is over; asked between pairs of sub-clusters. */
export type IsOver = () => boolean;
export const NEVER: IsOver = () => false;

interface Change {
  /** Model that goes from the first sub-cluster to the second; -1: none. */
  forth: number;
  /** Model that goes the other way; -1: none. */
  back: number;
  gain: number;
}

/**
 * Descends to a placement that no move and no swap between two sub-clusters improves, by energy.
 *
 * Deterministic but for `random`, which is drawn only where a pair is too large to try every swap.
 */
export function descend(placement: Placement, random: Uniform, isOver: IsOver = NEVER): void {
  const { clusters } = placement.problem;
  // Versions only grow, so their sum tells whether either of a pair has changed since the pair was tried.
  const tried = new Int32Array(clusters * clusters).fill(-1);
  let isChanged = true;
  while (isChanged) {
    isChanged = false;
    for (let a = 0; a < clusters; a++) {
      for (let b = a + 1; b < clusters; b++) {
        if (tried[a * clusters + b] === placement.version[a]! + placement.version[b]!) continue;
        if (isOver()) return;
        if (descendPair(placement, a, b, random)) isChanged = true;
        tried[a * clusters + b] = placement.version[a]! + placement.version[b]!;
      }
    }
  }
}

function descendPair(placement: Placement, a: number, b: number, random: Uniform): boolean {
  for (let changes = 0; changes < CHANGES_MAX; changes++) {
    const before = placement.energy[a]! + placement.energy[b]!;
    const change: Change = { forth: -1, back: -1, gain: GAIN_MIN * Math.max(1e-6, before) };
    bestByEnergy(placement, a, b, before, change, random);
    if (change.forth < 0 && change.back < 0) return changes > 0;
    if (change.forth >= 0) placement.place(change.forth, b);
    if (change.back >= 0) placement.place(change.back, a);
  }
  return true;
}

function bestByEnergy(placement: Placement, a: number, b: number, before: number, best: Change, random: Uniform): void {
  const [inA, inB] = drawn(placement, a, b, random);
  const consider = (forth: number, back: number): void => {
    const after = placement.energyWith(a, back, forth) + placement.energyWith(b, forth, back);
    if (before - after <= best.gain) return;
    const added = (forth < 0 ? 0 : placement.moveCost(forth, b)) + (back < 0 ? 0 : placement.moveCost(back, a));
    if (!placement.affords(added)) return;
    best.forth = forth;
    best.back = back;
    best.gain = before - after;
  };
  for (const i of inA) consider(i, -1);
  for (const k of inB) consider(-1, k);
  for (const i of inA) for (const k of inB) consider(i, k);
}

/** The members of both; a random part of them if their product is too large. */
function drawn(
  placement: Placement,
  a: number,
  b: number,
  random: Uniform,
): readonly [readonly number[], readonly number[]] {
  const inA = placement.members[a]!;
  const inB = placement.members[b]!;
  if (inA.length * inB.length <= TRIES_MAX) return [inA, inB];
  const side = Math.floor(Math.sqrt(TRIES_MAX));
  const sizeA = Math.min(inA.length, Math.max(side, Math.floor(TRIES_MAX / inB.length)));
  const sizeB = Math.min(inB.length, Math.floor(TRIES_MAX / sizeA));
  return [windowOf(inA, sizeA, random), windowOf(inB, sizeB, random)];
}

function windowOf(list: readonly number[], size: number, random: Uniform): readonly number[] {
  if (size >= list.length) return list;
  const first = Math.floor(random() * list.length);
  return Array.from({ length: size }, (_, n) => list[(first + n) % list.length]!);
}

/**
 * Spends the disruption bound better: takes one move back, so that another, which was too dear beside it, can be made.
 * Without it the first moves that help use up the bound and stay for good.
 *
 * @returns true if the energy fell.
 */
export function reroute(placement: Placement, isOver: IsOver = NEVER): boolean {
  const { problem, of } = placement;
  const { current, names } = problem;
  if (current === null || problem.costMax === Number.POSITIVE_INFINITY) return false;
  let isLower = false;
  for (let i = 0; i < names.length && !isOver(); i++) {
    const home = current[i]!;
    const away = of[i]!;
    if (home < 0 || home === away) continue;
    const before = placement.energy[home]! + placement.energy[away]!;
    placement.place(i, home);
    const loss = placement.energy[home]! + placement.energy[away]! - before;
    const move = bestMove(placement);
    if (move !== null && move.gain > loss + GAIN_MIN) {
      placement.place(move.model, move.to);
      isLower = true;
    } else placement.place(i, away);
  }
  return isLower;
}

/** The move of one model that lowers the energy most within the disruption bound. */
function bestMove(placement: Placement): { readonly model: number; readonly to: number; readonly gain: number } | null {
  const { of, energy } = placement;
  let best: { model: number; to: number; gain: number } | null = null;
  for (let k = 0; k < of.length; k++) {
    const from = of[k]!;
    const left = energy[from]! - placement.energyWith(from, -1, k);
    for (let to = 0; to < energy.length; to++) {
      if (to === from) continue;
      const gain = left + energy[to]! - placement.energyWith(to, k, -1);
      if (gain <= (best?.gain ?? 0) || !placement.affords(placement.moveCost(k, to))) continue;
      best = { model: k, to, gain };
    }
  }
  return best;
}

/**
 * Lowers the objective itself: changes between the sub-clusters that stand out most and all others, as long as one
 * lowers it, or leaves it and lowers the energy. Bounds that hold go on holding.
 */
export function sharpen(placement: Placement, random: Uniform, isOver: IsOver = NEVER): void {
  const { clusters } = placement.problem;
  for (let changes = 0; changes < CHANGES_MAX; changes++) {
    let isChanged = false;
    for (const a of extremes(placement)) {
      for (let b = 0; b < clusters && !isChanged; b++) {
        if (b === a) continue;
        if (isOver()) return;
        isChanged = sharpenPair(placement, a, b, random);
      }
      if (isChanged) break;
    }
    if (!isChanged) return;
  }
}

/** The sub-clusters of most and least load and memory. */
export function extremes(placement: Placement): number[] {
  const found = new Set<number>();
  for (const values of [placement.rate, placement.memory]) {
    let low = 0;
    let high = 0;
    for (let j = 1; j < values.length; j++) {
      if (values[j]! < values[low]!) low = j;
      if (values[j]! > values[high]!) high = j;
    }
    found.add(high);
    found.add(low);
  }
  return [...found];
}

function sharpenPair(placement: Placement, a: number, b: number, random: Uniform): boolean {
  const { problem, rate, memory } = placement;
  const { rateRps, memoryMb, rateRpsMean, memoryMbMean, rateRpsScale, memoryMbScale, memoryWeight } = problem;
  const rest = restOf(placement, a, b);
  const objectiveWith = (dRate: number, dMemory: number): number => {
    const r = Math.max(
      rest.rate,
      Math.abs(rate[a]! - dRate - rateRpsMean) / rateRpsScale,
      Math.abs(rate[b]! + dRate - rateRpsMean) / rateRpsScale,
    );
    const s = Math.max(
      rest.memory,
      Math.abs(memory[a]! - dMemory - memoryMbMean) / memoryMbScale,
      Math.abs(memory[b]! + dMemory - memoryMbMean) / memoryMbScale,
    );
    return r + memoryWeight * s;
  };
  let objective = objectiveWith(0, 0);
  let energy = placement.energy[a]! + placement.energy[b]!;
  const excess = placement.excessWith(a, -1, -1) + placement.excessWith(b, -1, -1);
  const best = { forth: -1, back: -1 };
  const consider = (forth: number, back: number): void => {
    const dRate = (forth < 0 ? 0 : rateRps[forth]!) - (back < 0 ? 0 : rateRps[back]!);
    const dMemory = (forth < 0 ? 0 : memoryMb[forth]!) - (back < 0 ? 0 : memoryMb[back]!);
    const next = objectiveWith(dRate, dMemory);
    if (next > objective) return;
    const nextEnergy = placement.energyWith(a, back, forth) + placement.energyWith(b, forth, back);
    if (placement.excessWith(a, back, forth) + placement.excessWith(b, forth, back) > excess) return;
    const isLower = next < objective - GAIN_MIN;
    if (!isLower && nextEnergy > energy * (1 - 1e-9) - GAIN_MIN) return;
    const added = (forth < 0 ? 0 : placement.moveCost(forth, b)) + (back < 0 ? 0 : placement.moveCost(back, a));
    if (!placement.affords(added)) return;
    objective = next;
    energy = nextEnergy;
    best.forth = forth;
    best.back = back;
  };
  const [inA, inB] = drawn(placement, a, b, random);
  for (const i of inA) consider(i, -1);
  for (const k of inB) consider(-1, k);
  for (const i of inA) for (const k of inB) consider(i, k);
  if (best.forth < 0 && best.back < 0) return false;
  if (best.forth >= 0) placement.place(best.forth, b);
  if (best.back >= 0) placement.place(best.back, a);
  return true;
}

/**
 * Draws exchanges of two models for two between random sub-clusters, and takes those that lower the energy. Two for two
 * reaches differences far finer than one for one, and there are too many to try them all.
 */
export function exchangePairs(placement: Placement, random: Uniform, pairs: number, isOver: IsOver = NEVER): void {
  const { clusters } = placement.problem;
  if (clusters < 2) return;
  for (let n = 0; n < pairs && !isOver(); n++) {
    const a = Math.floor(random() * clusters);
    const b = (a + 1 + Math.floor(random() * (clusters - 1))) % clusters;
    exchangeBetween(placement, a, b, random);
  }
}

function exchangeBetween(placement: Placement, a: number, b: number, random: Uniform): void {
  const { rateRps, memoryMb, rateRpsScale, memoryMbScale, memoryWeight } = placement.problem;
  const { rate, memory, members } = placement;
  const [inA, inB] = [members[a]!, members[b]!];
  if (inA.length < 2 || inB.length < 2) return;
  for (let n = 0; n < EXCHANGES_TRIED; n++) {
    const i = pick(inA, random);
    const i2 = pick(inA, random);
    const k = pick(inB, random);
    const k2 = pick(inB, random);
    if (i === i2 || k === k2) continue;
    const dRate = (rateRps[i]! + rateRps[i2]! - rateRps[k]! - rateRps[k2]!) / rateRpsScale;
    const dMemory = (memoryMb[i]! + memoryMb[i2]! - memoryMb[k]! - memoryMb[k2]!) / memoryMbScale;
    // (A - d)² + (B + d)² - A² - B² = 2d(d + B - A), for load and for memory.
    const growth =
      dRate * (dRate + (rate[b]! - rate[a]!) / rateRpsScale) +
      memoryWeight * dMemory * (dMemory + (memory[b]! - memory[a]!) / memoryMbScale);
    if (growth < -GAIN_MIN) exchange(placement, a, b, [i, i2], [k, k2]);
  }
}

/** Makes the exchange, unless it breaks a bound. */
function exchange(placement: Placement, a: number, b: number, forth: readonly number[], back: readonly number[]): void {
  const excess = placement.excessWith(a, -1, -1) + placement.excessWith(b, -1, -1);
  const { cost } = placement;
  for (const i of forth) placement.place(i, b);
  for (const k of back) placement.place(k, a);
  const after = placement.excessWith(a, -1, -1) + placement.excessWith(b, -1, -1);
  const isDear = placement.cost > cost && exceeds(placement.cost, placement.problem.costMax);
  if (after <= excess && !isDear) return;
  for (const i of forth) placement.place(i, a);
  for (const k of back) placement.place(k, b);
}

/** The largest relative deviations of all sub-clusters but two. */
function restOf({ rate, memory, problem }: Placement, a: number, b: number): { rate: number; memory: number } {
  const rest = { rate: 0, memory: 0 };
  for (let j = 0; j < rate.length; j++) {
    if (j === a || j === b) continue;
    rest.rate = Math.max(rest.rate, Math.abs(rate[j]! - problem.rateRpsMean) / problem.rateRpsScale);
    rest.memory = Math.max(rest.memory, Math.abs(memory[j]! - problem.memoryMbMean) / problem.memoryMbScale);
  }
  return rest;
}

/**
 * Swaps a few random models of three random sub-clusters: a start for another descent, near the present placement.
 * Swaps that the disruption bound does not allow are left out.
 */
export function kick(placement: Placement, random: Uniform): void {
  const { clusters } = placement.problem;
  if (clusters < 2) return;
  const first = Math.floor(random() * clusters);
  for (let n = 0; n < 3; n++) {
    const a = (first + n) % clusters;
    const b = (a + 1 + Math.floor(random() * (clusters - 1))) % clusters;
    const i = pick(placement.members[a]!, random);
    const k = pick(placement.members[b]!, random);
    const added = (i < 0 ? 0 : placement.moveCost(i, b)) + (k < 0 ? 0 : placement.moveCost(k, a));
    if (!placement.affords(added)) continue;
    if (i >= 0) placement.place(i, b);
    if (k >= 0) placement.place(k, a);
  }
}

function pick(list: readonly number[], random: Uniform): number {
  return list.length === 0 ? -1 : list[Math.floor(random() * list.length)]!;
}
