/**
 * The partitioning problem as a mixed-integer linear programme, of all models or of a few.
 *
 * A sub-problem lets some models of some sub-clusters move among these and keeps everything else: what stays adds to the
 * constants, and what happens elsewhere bounds ΔR and ΔS from below. Its optimum is thus never worse than the placement
 * it was made from, and its objective is that of the whole.
 *
 * Columns: x of each free model on each sub-cluster (binary), then ΔR, ΔS, then D_j, the largest dynamic memory, where
 * memory is bounded. max_i d_i x_ij is linear as D_j >= d_i x_ij; |a - b| <= Δ as a - b <= Δ and b - a <= Δ. The
 * disruption bound needs no |x - x'|: a model's loads cost what its new place costs, nothing where it is (problem.ts).
 * Rates and memory are relative to their means, which keeps coefficients near 1.
 */
import type { Placement } from "./placement.js";
import { placeCost } from "./problem.js";

export interface Milp {
  readonly columns: number;
  readonly rows: number;
  readonly cost: Float64Array;
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  /** 1 for a binary column, else 0. */
  readonly integrality: Int32Array;
  readonly rowLower: Float64Array;
  readonly rowUpper: Float64Array;
  /** Compressed rows. */
  readonly starts: Int32Array;
  readonly indices: Int32Array;
  readonly values: Float64Array;
  /** The placement it was made from, as columns. */
  readonly start: Float64Array;
}

export interface SubProblem {
  readonly clusters: readonly number[];
  readonly free: readonly number[];
  readonly milp: Milp;
}

/**
 * @param clusters Sub-clusters among which models may move.
 * @param free Models of these sub-clusters that may move.
 * @param objective False: any placement within the bounds will do.
 */
export function buildMilp(
  placement: Placement,
  clusters: readonly number[],
  free: readonly number[],
  objective = true,
): SubProblem {
  const { problem, of } = placement;
  const { rateRps, memoryMb, dynamicMb, rateRpsMax, memoryMbMax } = problem;
  const { rateRpsMean, memoryMbMean, rateRpsScale, memoryMbScale } = problem;
  const isFree = new Uint8Array(of.length);
  for (const i of free) isFree[i] = 1;
  // Without a present placement sub-clusters differ by nothing but what stays in them: if nothing does, they are
  // numbered by their first model, so that each partition occurs once.
  const allFree = clusters.every((j) => placement.members[j]!.every((i) => isFree[i] === 1));
  const symmetric = problem.current === null && allFree;
  const order = symmetric ? bySize(placement, free) : [...free];
  const places = symmetric ? byFirstModel(placement, clusters, order) : [...clusters];

  const width = places.length;
  const binaries = order.length * width;
  const withDynamic = memoryMbMax < Number.POSITIVE_INFINITY && dynamicMb.some((value) => value > 0);
  const columns = binaries + 2 + (withDynamic ? width : 0);
  const [deltaRate, deltaMemory] = [binaries, binaries + 1];
  const cost = new Float64Array(columns);
  const lower = new Float64Array(columns);
  const upper = new Float64Array(columns).fill(1, 0, binaries).fill(Number.POSITIVE_INFINITY, binaries);
  const start = new Float64Array(columns);
  if (objective) {
    cost[deltaRate] = 1;
    cost[deltaMemory] = problem.memoryWeight;
  }
  const inside = new Set(places);
  for (let j = 0; j < problem.clusters; j++) {
    const rate = Math.abs(placement.rate[j]! - rateRpsMean) / rateRpsScale;
    const memory = Math.abs(placement.memory[j]! - memoryMbMean) / memoryMbScale;
    start[deltaRate] = Math.max(start[deltaRate]!, rate);
    start[deltaMemory] = Math.max(start[deltaMemory]!, memory);
    if (inside.has(j)) continue;
    lower[deltaRate] = Math.max(lower[deltaRate]!, rate);
    lower[deltaMemory] = Math.max(lower[deltaMemory]!, memory);
  }

  const rows = new Rows();
  const budget: [number, number][] = [];
  let spent = placement.cost;
  order.forEach((i, row) => {
    places.forEach((j, column) => {
      const each = placeCost(problem, i, j);
      if (each > 0) budget.push([row * width + column, each]);
    });
    spent -= placeCost(problem, i, of[i]!);
    start[row * width + places.indexOf(of[i]!)] = 1;
    rows.add(
      1,
      1,
      places.map((_, column) => [row * width + column, 1]),
    );
  });
  places.forEach((j, column) => {
    let fixedRate = placement.rate[j]!;
    let fixedMemory = placement.memory[j]!;
    let fixedDynamic = 0;
    for (const i of placement.members[j]!) {
      if (isFree[i] === 1) {
        fixedRate -= rateRps[i]!;
        fixedMemory -= memoryMb[i]!;
      } else fixedDynamic = Math.max(fixedDynamic, dynamicMb[i]!);
    }
    const rates = order.map((i, row): [number, number] => [row * width + column, rateRps[i]! / rateRpsScale]);
    const sizes = order.map((i, row): [number, number] => [row * width + column, memoryMb[i]! / memoryMbScale]);
    const aboutRate = (rateRpsMean - fixedRate) / rateRpsScale;
    const aboutMemory = (memoryMbMean - fixedMemory) / memoryMbScale;
    rows.add(Number.NEGATIVE_INFINITY, aboutRate, [...rates, [deltaRate, -1]]);
    rows.add(aboutRate, Number.POSITIVE_INFINITY, [...rates, [deltaRate, 1]]);
    rows.add(Number.NEGATIVE_INFINITY, aboutMemory, [...sizes, [deltaMemory, -1]]);
    rows.add(aboutMemory, Number.POSITIVE_INFINITY, [...sizes, [deltaMemory, 1]]);
    if (rateRpsMax < Number.POSITIVE_INFINITY) {
      rows.add(Number.NEGATIVE_INFINITY, (rateRpsMax - fixedRate) / rateRpsScale, rates);
    }
    if (memoryMbMax === Number.POSITIVE_INFINITY) return;
    const room = (memoryMbMax - fixedMemory) / memoryMbScale;
    if (!withDynamic) {
      rows.add(Number.NEGATIVE_INFINITY, room, sizes);
      return;
    }
    const dynamic = binaries + 2 + column;
    lower[dynamic] = fixedDynamic / memoryMbScale;
    start[dynamic] = lower[dynamic]!;
    rows.add(Number.NEGATIVE_INFINITY, room, [...sizes, [dynamic, 1]]);
    order.forEach((i, row) => {
      if (dynamicMb[i]! <= fixedDynamic) return;
      const need = dynamicMb[i]! / memoryMbScale;
      rows.add(Number.NEGATIVE_INFINITY, 0, [
        [row * width + column, need],
        [dynamic, -1],
      ]);
      if (of[i] === j) start[dynamic] = Math.max(start[dynamic]!, need);
    });
  });
  if (problem.costMax < Number.POSITIVE_INFINITY && budget.length > 0) {
    rows.add(Number.NEGATIVE_INFINITY, problem.costMax - spent, budget);
  }
  if (symmetric) breakSymmetry(rows, upper, order.length, width);
  return {
    clusters: places,
    free: order,
    milp: {
      columns,
      rows: rows.lower.length,
      cost,
      lower,
      upper,
      integrality: new Int32Array(columns).fill(1, 0, binaries),
      rowLower: Float64Array.from(rows.lower),
      rowUpper: Float64Array.from(rows.upper),
      starts: Int32Array.from(rows.starts),
      indices: Int32Array.from(rows.indices),
      values: Float64Array.from(rows.values),
      start,
    },
  };
}

/** Reads a solution: the sub-cluster of each free model, in the order of `free`. */
export function placesOf(sub: SubProblem, values: Float64Array): number[] {
  const width = sub.clusters.length;
  return sub.free.map((_, row) => {
    let best = 0;
    for (let column = 1; column < width; column++) {
      if (values[row * width + column]! > values[row * width + best]!) best = column;
    }
    return sub.clusters[best]!;
  });
}

class Rows {
  readonly lower: number[] = [];
  readonly upper: number[] = [];
  readonly starts: number[] = [0];
  readonly indices: number[] = [];
  readonly values: number[] = [];

  add(lower: number, upper: number, entries: readonly (readonly [number, number])[]): void {
    this.lower.push(lower);
    this.upper.push(upper);
    for (const [index, value] of entries) {
      if (value === 0) continue;
      this.indices.push(index);
      this.values.push(value);
    }
    this.starts.push(this.indices.length);
  }
}

/** Rows that go on past this many models cost more than the symmetry they still remove. */
const ORDERED_ROWS_PER_CLUSTER = 3;

/** Model k, counted from 0, opens no sub-cluster but the first empty one: not one above k, nor one whose predecessor is empty. */
function breakSymmetry(rows: Rows, upper: Float64Array, models: number, width: number): void {
  for (let k = 0; k < models; k++) {
    for (let j = k + 1; j < width; j++) upper[k * width + j] = 0;
  }
  for (let k = 1; k < Math.min(models, ORDERED_ROWS_PER_CLUSTER * width); k++) {
    for (let j = 1; j <= Math.min(k, width - 1); j++) {
      const entries: [number, number][] = [[k * width + j, 1]];
      for (let q = j - 1; q < k; q++) entries.push([q * width + j - 1, -1]);
      rows.add(Number.NEGATIVE_INFINITY, 0, entries);
    }
  }
}

function bySize({ problem }: Placement, free: readonly number[]): number[] {
  const { rateRps, memoryMb, rateRpsScale, memoryMbScale } = problem;
  const size = (i: number): number => rateRps[i]! / rateRpsScale + memoryMb[i]! / memoryMbScale;
  return [...free].sort((a, b) => size(b) - size(a) || a - b);
}

/** Sub-clusters in the order of their first model; empty ones last. */
function byFirstModel({ of }: Placement, clusters: readonly number[], order: readonly number[]): number[] {
  const seen = new Set<number>(order.map((i) => of[i]!));
  for (const j of clusters) seen.add(j);
  return [...seen];
}
