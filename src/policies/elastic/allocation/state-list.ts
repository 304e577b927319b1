/** Ways to have decided the batches so far, by clock; utility ascends with it. */
export class StateList {
  length = 0;
  /** When the accelerator is free, µs. */
  readonly clock: Float64Array;
  /** What has been earned. */
  readonly earned: Float64Array;
  /** What can be earned at most in all. */
  readonly bound: Float64Array;
  /** Number of the way that this one extends; after it is kept, its own. */
  readonly way: Int32Array;
  readonly gamma: Int32Array;
  private readonly bounds: Float64Array;

  constructor(lengthMax: number) {
    this.clock = new Float64Array(lengthMax);
    this.earned = new Float64Array(lengthMax);
    this.bound = new Float64Array(lengthMax);
    this.way = new Int32Array(lengthMax);
    this.gamma = new Int32Array(lengthMax);
    this.bounds = new Float64Array(lengthMax);
  }

  /** A way that is free no earlier than those before it; without effect if it has not earned more. */
  push(clock: number, earned: number, bound: number, way: number, gamma: number): void {
    const at = this.length;
    if (at > 0 && earned <= this.earned[at - 1]!) return;
    this.clock[at] = clock;
    this.earned[at] = earned;
    this.bound[at] = bound;
    this.way[at] = way;
    this.gamma[at] = gamma;
    this.length = at + 1;
  }

  /** A way of another list, under the same condition. */
  append(other: StateList, at: number): void {
    this.push(other.clock[at]!, other.earned[at]!, other.bound[at]!, other.way[at]!, other.gamma[at]!);
  }

  /** Leaves the `width` ways of the highest bounds. @returns the highest bound of the others, 0 where there are none. */
  narrow(width: number): number {
    const { length } = this;
    if (length <= width) return 0;
    const sorted = this.bounds.subarray(0, length);
    sorted.set(this.bound.subarray(0, length));
    sorted.sort();
    const least = sorted[length - width]!;
    let equals = width;
    for (let at = length - width; at < length; at++) if (sorted[at]! > least) equals--;
    this.length = 0;
    for (let at = 0; at < length; at++) {
      if (this.bound[at]! < least || (this.bound[at]! === least && equals-- <= 0)) continue;
      this.append(this, at);
    }
    return sorted[length - width - 1]!;
  }
}
