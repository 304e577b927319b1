import type { RecordReader, RecordWriter } from "../channel.js";

/** A ring without end: a replay may run one actor far ahead of another. */
export class ReplayRing implements RecordReader, RecordWriter {
  cells: Float64Array;
  readonly free = Number.POSITIVE_INFINITY;
  private readonly width: number;
  private head = 0;
  private tail = 0;
  private shown = 0;

  constructor(width: number) {
    this.width = width;
    this.cells = new Float64Array(64 * width);
  }

  load(numbers: readonly number[]): void {
    this.cells = Float64Array.from(numbers);
    this.tail = numbers.length / this.width;
    this.shown = this.tail;
  }

  get available(): number {
    return this.shown - this.head;
  }

  offsetAt(index: number): number {
    return (this.head + index) * this.width;
  }

  release(count: number): void {
    this.head += count;
  }

  claim(): number {
    const offset = this.tail * this.width;
    if (offset === this.cells.length) {
      const grown = new Float64Array(this.cells.length * 2);
      grown.set(this.cells);
      this.cells = grown;
    }
    this.tail++;
    return offset;
  }

  show(): boolean {
    const isNew = this.shown < this.tail;
    this.shown = this.tail;
    return isNew;
  }
}
