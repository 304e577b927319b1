import { fstatSync, readSync } from "node:fs";
import { ServingError } from "../../wire/serving-error.js";

const WINDOW_BYTES = 64 * 1024;
const NAME_BYTES_MAX = 64 * 1024;

export interface Span {
  readonly from: number;
  readonly to: number;
}
export interface Field {
  readonly number: number;
  /** Of a varint; 0 otherwise. */
  readonly value: number;
  /** Content of a length-delimited field; empty otherwise. */
  readonly span: Span;
}

/** Protobuf over a file through a moving window: what is skipped is not read. */
export class ProtoFile {
  readonly size: number;
  private readonly window = Buffer.allocUnsafe(WINDOW_BYTES);
  private windowAt = 0;
  private windowBytes = 0;

  constructor(
    private readonly fd: number,
    private readonly file: string,
  ) {
    this.size = fstatSync(fd).size;
  }

  each(span: Span, visit: (field: Field) => void): void {
    let at = span.from;
    while (at < span.to) {
      const [key, keyEnd] = this.varint(at, span.to);
      const number = Math.floor(key / 8);
      if (number === 0) this.fail(at, "is not a protobuf: field number 0");
      switch (key % 8) {
        case 0: {
          const [value, end] = this.varint(keyEnd, span.to);
          visit({ number, value, span: { from: keyEnd, to: keyEnd } });
          at = end;
          break;
        }
        case 1:
          at = this.skip(keyEnd, 8, span.to);
          break;
        case 2: {
          const [length, from] = this.varint(keyEnd, span.to);
          at = this.skip(from, length, span.to);
          visit({ number, value: 0, span: { from, to: at } });
          break;
        }
        case 5:
          at = this.skip(keyEnd, 4, span.to);
          break;
        default:
          this.fail(at, `is not a protobuf: wire type ${key % 8}`);
      }
    }
  }

  /** A repeated varint field, packed or not. */
  numbers(field: Field): number[] {
    if (field.span.to === field.span.from) return [field.value];
    const values: number[] = [];
    for (let at = field.span.from; at < field.span.to; ) {
      const [value, end] = this.varint(at, field.span.to);
      values.push(value);
      at = end;
    }
    return values;
  }

  text(span: Span): string {
    const length = span.to - span.from;
    if (length > NAME_BYTES_MAX) this.fail(span.from, `has a name of ${length} bytes; at most ${NAME_BYTES_MAX}`);
    const bytes = Buffer.alloc(length);
    for (let i = 0; i < length; i++) bytes[i] = this.byte(span.from + i);
    return bytes.toString("utf8");
  }

  fail(at: number, problem: string): never {
    throw new ServingError("invalid-argument", `${this.file} ${problem} (at byte ${at} of ${this.size})`);
  }

  private skip(from: number, length: number, end: number): number {
    if (from + length > end) this.fail(from, `ends early: a field of ${length} bytes goes beyond byte ${end}`);
    return from + length;
  }

  /** Values beyond 2^53 lose their low bits; none that matters here is. */
  private varint(from: number, end: number): [number, number] {
    let value = 0;
    let scale = 1;
    for (let at = from; at < end && at < from + 10; at++) {
      const byte = this.byte(at);
      value += (byte & 0x7f) * scale;
      scale *= 128;
      // Ten bytes are a negative number in two's complement, too large to be summed as it is.
      if (byte < 0x80) return [at - from < 9 ? value : this.negative(from), at + 1];
    }
    return this.fail(from, "is not a protobuf: a number does not end");
  }

  private negative(from: number): number {
    let bits = 0n;
    for (let i = 9; i >= 0; i--) bits = (bits << 7n) | BigInt(this.byte(from + i) & 0x7f);
    return Number(BigInt.asIntN(64, bits));
  }

  private byte(at: number): number {
    if (at < this.windowAt || at >= this.windowAt + this.windowBytes) {
      this.windowAt = at;
      this.windowBytes = readSync(this.fd, this.window, 0, WINDOW_BYTES, at);
      if (this.windowBytes === 0) this.fail(at, "ends early");
    }
    return this.window[at - this.windowAt]!;
  }
}
