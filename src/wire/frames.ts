/**
 * Length-prefixed binary frames between processes: a header (small, described by worker-protocol.ts) and a payload
 * of raw tensor bytes that is never copied on the way out.
 *
 * Layout, little-endian: u16 magic "RB", u8 version, u8 type, u32 header length, u32 payload length, u32 check of
 * the twelve bytes before; then header and payload. The check is there so that a stream that lost its place is
 * noticed at the next frame and not after gigabytes of nonsense.
 */
import { ServingError } from "./serving-error.js";

const MAGIC = 0x4252;
const VERSION = 1;
export const PREFIX_BYTES = 16;
/** Largest header: names and shapes of a batch; far above any real one. */
export const HEADER_BYTES_MAX = 4 * 1024 * 1024;
/** Largest payload unless an option says otherwise: a batch of large images is tens of megabytes. */
export const PAYLOAD_BYTES_MAX = 512 * 1024 * 1024;
/** Parts smaller than this are copied into one buffer: below it a copy is cheaper than one more vector of a write. */
const COALESCE_BYTES = 2048;

export interface Frame {
  readonly type: number;
  readonly header: Buffer;
  readonly payload: Buffer;
}

export interface FrameLimits {
  readonly headerBytesMax: number;
  readonly payloadBytesMax: number;
}
export const FRAME_LIMITS: FrameLimits = { headerBytesMax: HEADER_BYTES_MAX, payloadBytesMax: PAYLOAD_BYTES_MAX };

const EMPTY = Buffer.alloc(0);

/** FNV-1a over the first twelve bytes of a prefix. */
function prefixCheck(bytes: Buffer, at: number): number {
  let hash = 0x811c9dc5;
  for (let i = at; i < at + 12; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  return hash >>> 0;
}

/**
 * The buffers to write for one frame, in order. Large parts are passed through by reference: the caller must not
 * change them until they are written.
 *
 * @throws ServingError payload-too-large, naming limit and size, when header or payload exceed the limits.
 */
export function encodeFrame(
  type: number,
  header: Uint8Array,
  parts: readonly Uint8Array[],
  limits: FrameLimits = FRAME_LIMITS,
): Uint8Array[] {
  let payloadBytes = 0;
  for (const part of parts) payloadBytes += part.byteLength;
  checkSize("header", header.byteLength, limits.headerBytesMax);
  checkSize("payload", payloadBytes, limits.payloadBytesMax);
  const prefix = Buffer.allocUnsafe(PREFIX_BYTES);
  prefix.writeUInt16LE(MAGIC, 0);
  prefix[2] = VERSION;
  prefix[3] = type;
  prefix.writeUInt32LE(header.byteLength, 4);
  prefix.writeUInt32LE(payloadBytes, 8);
  prefix.writeUInt32LE(prefixCheck(prefix, 0), 12);
  return coalesce([prefix, header, ...parts]);
}

function checkSize(what: string, size: number, limit: number): void {
  if (size > limit)
    throw new ServingError("payload-too-large", `frame ${what} must be at most ${limit} bytes; was ${size}`);
}

function coalesce(pieces: readonly Uint8Array[]): Uint8Array[] {
  const out: Uint8Array[] = [];
  let small: Uint8Array[] = [];
  const flush = (): void => {
    if (small.length === 1) out.push(small[0]!);
    else if (small.length > 1) out.push(Buffer.concat(small));
    small = [];
  };
  for (const piece of pieces) {
    if (piece.byteLength === 0) continue;
    if (piece.byteLength < COALESCE_BYTES) small.push(piece);
    else {
      flush();
      out.push(piece);
    }
  }
  flush();
  return out;
}

/**
 * Takes a byte stream apart into frames, however it was split or merged on the way.
 *
 * Nothing of a chunk is kept: whoever pushes it may use its memory again. A payload that does not lie whole in one is
 * gathered in memory of its own; `space()` hands out that memory so that a socket may read into it directly.
 */
export class FrameReader {
  private readonly prefix = Buffer.allocUnsafe(PREFIX_BYTES);
  private prefixFilled = 0;
  private header: Buffer | null = null;
  private headerFilled = 0;
  private payload: Buffer | null = null;
  private payloadFilled = 0;

  constructor(
    private readonly onFrame: (frame: Frame) => void,
    private readonly limits: FrameLimits = FRAME_LIMITS,
  ) {}

  /** True between frames: the stream may end here. */
  get idle(): boolean {
    return this.prefixFilled === 0;
  }

  /** Where the next bytes of a payload in progress belong, or null when the reader wants a chunk. */
  space(): Buffer | null {
    return this.payload === null ? null : this.payload.subarray(this.payloadFilled);
  }

  /** `count` bytes were read into the memory that `space()` gave. */
  filled(count: number): void {
    this.payloadFilled += count;
    if (this.payload !== null && this.payloadFilled === this.payload.length) this.complete(this.payload);
  }

  /** @throws ServingError when the stream is corrupt or a frame exceeds a limit; the stream is unusable from then on. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) at = this.step(chunk, at);
  }

  private step(chunk: Buffer, from: number): number {
    let at = from;
    if (this.prefixFilled < PREFIX_BYTES) {
      const count = Math.min(PREFIX_BYTES - this.prefixFilled, chunk.length - at);
      chunk.copy(this.prefix, this.prefixFilled, at, at + count);
      this.prefixFilled += count;
      at += count;
      if (this.prefixFilled === PREFIX_BYTES) this.begin();
      return at;
    }
    const header = this.header!;
    if (this.headerFilled < header.length) {
      const count = Math.min(header.length - this.headerFilled, chunk.length - at);
      chunk.copy(header, this.headerFilled, at, at + count);
      this.headerFilled += count;
      at += count;
      if (this.headerFilled === header.length && this.payloadBytes() === 0) this.complete(EMPTY);
      return at;
    }
    return this.takePayload(chunk, at);
  }

  private takePayload(chunk: Buffer, at: number): number {
    const bytes = this.payloadBytes();
    const available = chunk.length - at;
    if (this.payload === null && available >= bytes) {
      this.complete(ownCopy(chunk.subarray(at, at + bytes)));
      return at + bytes;
    }
    // Slow allocations are not part of Node's shared pool: this memory may be handed over to another thread.
    this.payload ??= Buffer.allocUnsafeSlow(bytes);
    const count = Math.min(bytes - this.payloadFilled, available);
    chunk.copy(this.payload, this.payloadFilled, at, at + count);
    this.filled(count);
    return at + count;
  }

  private payloadBytes(): number {
    return this.prefix.readUInt32LE(8);
  }

  private begin(): void {
    const prefix = this.prefix;
    if (prefix.readUInt16LE(0) !== MAGIC || prefix.readUInt32LE(12) !== prefixCheck(prefix, 0))
      throw new ServingError("internal", "frame stream is corrupt: bad prefix");
    if (prefix[2] !== VERSION)
      throw new ServingError("internal", `frame version must be ${VERSION}; was ${prefix[2]} (mixed builds?)`);
    const headerBytes = prefix.readUInt32LE(4);
    checkSize("header", headerBytes, this.limits.headerBytesMax);
    checkSize("payload", this.payloadBytes(), this.limits.payloadBytesMax);
    this.header = Buffer.allocUnsafe(headerBytes);
    this.headerFilled = 0;
    if (headerBytes === 0 && this.payloadBytes() === 0) this.complete(EMPTY);
  }

  private complete(payload: Buffer): void {
    const frame: Frame = { type: this.prefix[3]!, header: this.header!, payload };
    this.prefixFilled = 0;
    this.header = null;
    this.payload = null;
    this.payloadFilled = 0;
    this.onFrame(frame);
  }
}

function ownCopy(view: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(view.length);
  view.copy(copy);
  return copy;
}
