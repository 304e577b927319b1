import type { RecordReader } from "../channel.js";
import * as is from "../messages.js";

/** A batch that a queue thread sent to an accelerator. One object stands for each in turn: it is valid during a call. */
export class DispatchedBatch {
  accelerator = 0;
  size = 0;
  /** Tags of its requests: the first `size`. */
  readonly members: Float64Array;
  execAt = 0;
  execUs = 0;
  close = 0;
  /** Moment of the decision. */
  at = 0;
  /** When it could first have gone. */
  openedAt = 0;
  variant = 0;

  /** @param sizeMax most members of a batch. */
  constructor(sizeMax: number) {
    this.members = new Float64Array(sizeMax);
  }

  /** @param index of a DISPATCH record, whose MEMBERS follow. */
  read(reader: RecordReader, index: number): void {
    const { cells } = reader;
    const from = reader.offsetAt(index);
    this.accelerator = cells[from + 2]!;
    this.size = cells[from + 4]!;
    this.execAt = cells[from + 5]!;
    this.execUs = cells[from + 6]!;
    this.close = cells[from + 7]!;
    this.at = cells[from + 8]!;
    this.openedAt = cells[from + 10]!;
    this.variant = cells[from + 11]!;
    for (let member = 0, record = index + 1; member < this.size; record++) {
      const offset = reader.offsetAt(record);
      for (let cell = 1; cell < is.OUT_WIDTH && member < this.size; cell++)
        this.members[member++] = cells[offset + cell]!;
    }
  }
}
