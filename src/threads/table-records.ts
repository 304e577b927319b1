import { ProfiledLatency } from "../core/latency/latency.js";

/** Numbers that follow a record in TABLE records, while they come. */
export class ArrivingTable {
  readonly numbers: Float64Array;
  /** Doubles per record of the ring that they come through. */
  private readonly width: number;
  private filled = 0;

  constructor(count: number, width: number) {
    this.numbers = new Float64Array(count);
    this.width = width;
  }

  /** @returns whether all numbers are there now. */
  take(cells: Float64Array, from: number): boolean {
    for (let cell = 1; cell < this.width && this.filled < this.numbers.length; cell++)
      this.numbers[this.filled++] = cells[from + cell]!;
    return this.filled === this.numbers.length;
  }
}

/** @param us l(1), l(2), ... in µs. */
export function latencyOf(us: Float64Array): ProfiledLatency {
  const execUs = new Float64Array(us.length + 2);
  execUs.set(us, 1);
  execUs[us.length + 1] = Number.POSITIVE_INFINITY;
  return new ProfiledLatency(execUs);
}
