/** Which ways requests of each class took out of a module that branches, over a sliding window, as few numbers. */
import { CLASSES_MAX, DEFAULT_CLASS } from "./request-classes.js";

/** Numbers that a module says of its ways: of each class the part that took each way but the last. */
export const WAY_NUMBERS = 7;
/** A class begins as so many requests that go as all do. */
const PRIOR_REQUESTS = 5;
/** Nothing is known. */
const UNKNOWN = -1;

/** Of a module with so many ways: classes that are told apart; 0: it has no ways, or too many of them. */
export const classesWith = (ways: number): number =>
  ways < 2 ? 0 : Math.min(CLASSES_MAX, Math.floor(WAY_NUMBERS / (ways - 1)));

export class WayCounts {
  private readonly ways: readonly number[];
  private readonly window: number;
  /** By module: by interval, class and way. */
  private readonly counts: readonly Float64Array[];
  /** Over the window, by class and way. */
  private readonly sums = new Float64Array(CLASSES_MAX * (WAY_NUMBERS + 1));

  /** @param ways of each module that branches, by module; 0: it does not. @param window intervals. */
  constructor(ways: readonly number[], window: number) {
    this.ways = ways;
    this.window = window;
    this.counts = ways.map((count) => new Float64Array(window * classesWith(count) * count));
  }

  /** A request of the class went on by this way. @param slot interval of the window. */
  took(slot: number, module: number, kind: number, way: number): void {
    const ways = this.ways[module] ?? 0;
    const classes = classesWith(ways);
    if (classes === 0) return;
    this.counts[module]![(slot * classes + (kind < classes ? kind : DEFAULT_CLASS)) * ways + way]!++;
  }

  clear(slot: number): void {
    for (const [module, counts] of this.counts.entries()) {
      const length = counts.length / this.window;
      this.counts[module]!.fill(0, slot * length, (slot + 1) * length);
    }
  }

  /**
   * Of each class: parts that took each way, the newest interval counting most; of a class that is rare, nearly those of all classes together.
   * @param slot the newest interval. @param into from `first` on.
   */
  tell(module: number, slot: number, into: Float64Array, first: number): void {
    const { sums, window } = this;
    into.fill(UNKNOWN, first, first + WAY_NUMBERS);
    const ways = this.ways[module] ?? 0;
    const classes = classesWith(ways);
    const counts = this.counts[module];
    if (classes === 0 || counts === undefined) return;
    const cells = classes * ways;
    sums.fill(0);
    for (let age = 0; age < window; age++) {
      const from = ((slot - age + window) % window) * cells;
      for (let cell = 0; cell < cells; cell++) sums[cell]! += (window - age) * counts[from + cell]!;
    }
    let all = 0;
    for (let cell = 0; cell < cells; cell++) all += sums[cell]!;
    if (all === 0) return;
    // A request of the newest interval counts `window` times, and so do those of the prior.
    const prior = PRIOR_REQUESTS * window;
    for (let kind = 0; kind < classes; kind++) {
      let own = 0;
      for (let way = 0; way < ways; way++) own += sums[kind * ways + way]!;
      for (let way = 0; way < ways - 1; way++) {
        let ofAll = 0;
        for (let other = 0; other < classes; other++) ofAll += sums[other * ways + way]!;
        into[first + kind * (ways - 1) + way] = (sums[kind * ways + way]! + (prior * ofAll) / all) / (own + prior);
      }
    }
  }
}

/**
 * What `tell` told, as ascending sums, the last being 1.
 * @param value of the numbers, by place. @returns null: nothing is known.
 */
export function waysTold(value: (place: number) => number, ways: number, kind: number): Float64Array | null {
  const classes = classesWith(ways);
  if (classes === 0 || value(0) === UNKNOWN) return null;
  const first = (kind < classes ? kind : DEFAULT_CLASS) * (ways - 1);
  const sums = new Float64Array(ways).fill(1);
  let sum = 0;
  for (let way = 0; way < ways - 1; way++) {
    sum += value(first + way);
    sums[way] = sum;
  }
  return sums;
}
