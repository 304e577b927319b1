/** Bytes before each message: whether it is compressed, and its length. */
const PREFIX_BYTES = 5;
/** What is announced is not believed before this part of it has come. */
const BELIEVED = 1 / 8;

/**
 * Whole messages out of the pieces of a stream, in place of grpc-js's own decoder: that keeps the pieces and joins them when
 * the last has come, which for 64 MiB holds up everybody for 50 ms. Here a piece is copied when it comes.
 */
export class MessageGatherer {
  private readonly prefix = Buffer.alloc(PREFIX_BYTES);
  private prefixBytes = 0;
  /** Of the message that is coming, its prefix counted. */
  private totalBytes = 0;
  private arrivedBytes = 0;
  /** Until so much is there that the announced size is believed. */
  private readonly pieces: Buffer[] = [];
  private message: Buffer | null = null;
  private readonly bytesMax: number;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** @returns the messages that are whole now, each with its prefix. @throws Error in grpc-js's words when one is too large. */
  write(data: Buffer): Buffer[] {
    const whole: Buffer[] = [];
    for (let at = 0; at < data.byteLength; ) {
      at += this.prefixBytes < PREFIX_BYTES ? this.readPrefix(data, at) : this.readMessage(data, at);
      if (this.prefixBytes < PREFIX_BYTES || this.arrivedBytes < this.totalBytes) continue;
      whole.push(this.joined());
      this.message = null;
      this.prefixBytes = 0;
    }
    return whole;
  }

  private readPrefix(data: Buffer, at: number): number {
    const taken = data.copy(this.prefix, this.prefixBytes, at, at + PREFIX_BYTES - this.prefixBytes);
    this.prefixBytes += taken;
    if (this.prefixBytes < PREFIX_BYTES) return taken;
    const bytes = this.prefix.readUInt32BE(1);
    if (bytes > this.bytesMax) throw new Error(`Received message larger than max (${bytes} vs ${this.bytesMax})`);
    this.totalBytes = PREFIX_BYTES + bytes;
    this.arrivedBytes = PREFIX_BYTES;
    this.pieces.push(Buffer.from(this.prefix));
    return taken;
  }

  private readMessage(data: Buffer, at: number): number {
    const piece = data.subarray(at, at + this.totalBytes - this.arrivedBytes);
    if (this.message !== null) piece.copy(this.message, this.arrivedBytes);
    else this.pieces.push(piece);
    this.arrivedBytes += piece.byteLength;
    if (this.message === null && this.arrivedBytes >= BELIEVED * this.totalBytes) this.message = this.joined();
    return piece.byteLength;
  }

  /** What has come, in a buffer of the message's size. */
  private joined(): Buffer {
    if (this.message !== null) return this.message;
    const message = Buffer.allocUnsafeSlow(this.totalBytes);
    let at = 0;
    for (const piece of this.pieces) at += piece.copy(message, at);
    this.pieces.length = 0;
    return message;
  }
}
