/** Writing and reading of small binary records; little-endian. */
import { ServingError } from "../serving-error.js";

export class ByteWriter {
  private buffer = Buffer.allocUnsafe(512);
  private at = 0;

  private room(count: number): number {
    const from = this.at;
    this.at += count;
    if (this.at > this.buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(this.at, this.buffer.length * 2));
      this.buffer.copy(grown, 0, 0, from);
      this.buffer = grown;
    }
    return from;
  }
  private check(value: number, max: number): void {
    if (!(Number.isInteger(value) && value >= 0 && value <= max))
      throw new ServingError(
        "invalid-argument",
        `a number in a record must be an integer in [0, ${max}]; was ${value}`,
      );
  }
  u8(value: number): this {
    this.check(value, 0xff);
    const at = this.room(1);
    this.buffer.writeUInt8(value, at);
    return this;
  }
  u16(value: number): this {
    this.check(value, 0xffff);
    const at = this.room(2);
    this.buffer.writeUInt16LE(value, at);
    return this;
  }
  u32(value: number): this {
    this.check(value, 0xffffffff);
    const at = this.room(4);
    this.buffer.writeUInt32LE(value, at);
    return this;
  }
  f64(value: number): this {
    const at = this.room(8);
    this.buffer.writeDoubleLE(value, at);
    return this;
  }
  /** UTF-8, at most 65535 bytes. */
  text(value: string): this {
    const bytes = Buffer.byteLength(value);
    this.u16(bytes);
    const at = this.room(bytes);
    this.buffer.write(value, at);
    return this;
  }
  bytes(): Buffer {
    return this.buffer.subarray(0, this.at);
  }
}

export class ByteReader {
  private at = 0;
  constructor(private readonly buffer: Buffer) {}

  private take(count: number): number {
    const from = this.at;
    if (from + count > this.buffer.length)
      throw new ServingError("internal", `record ends early: needs ${from + count} bytes, has ${this.buffer.length}`);
    this.at = from + count;
    return from;
  }
  u8(): number {
    return this.buffer.readUInt8(this.take(1));
  }
  u16(): number {
    return this.buffer.readUInt16LE(this.take(2));
  }
  u32(): number {
    return this.buffer.readUInt32LE(this.take(4));
  }
  f64(): number {
    return this.buffer.readDoubleLE(this.take(8));
  }
  text(): string {
    const bytes = this.u16();
    const at = this.take(bytes);
    return this.buffer.toString("utf8", at, at + bytes);
  }
  /** Every byte must have been read: a longer record is from another version or corrupt. */
  end(): void {
    if (this.at !== this.buffer.length)
      throw new ServingError("internal", `record has ${this.buffer.length - this.at} bytes too many`);
  }
}
