/**
 * Reads a request body within the limit of bytes. Bytes are taken from the door's account as they come: what is only
 * announced holds nothing. A body past a limit is refused at once; what the client still sends is read and thrown away
 * by the HTTP server.
 */
import type { IncomingMessage } from "node:http";
import { ServingError } from "../../wire/serving-error.js";
import type { Place } from "../requests/admission.js";

export type BodyDone = (error: ServingError | null, body: Buffer | null) => void;

export function tooLarge(bytesMax: number, got: string): ServingError {
  return new ServingError("payload-too-large", `the request body must have at most ${bytesMax} bytes, got ${got}`, {
    reason: "body-too-large",
  });
}

/** The announced length, null when chunked. Node's parser has refused what is not a number. */
export function announcedLength(request: IncomingMessage): number | null {
  const header = request.headers["content-length"];
  if (header !== undefined) return Number(header);
  return request.headers["transfer-encoding"] === undefined ? 0 : null;
}

/**
 * Calls `done` once with the whole body, or with the refusal. A client that goes away midway calls nothing: its place
 * ends.
 */
export function readBody(
  request: IncomingMessage,
  length: number | null,
  bytesMax: number,
  place: Place,
  done: BodyDone,
): void {
  if (length === 0) {
    request.resume();
    done(null, Buffer.alloc(0));
    return;
  }
  const body = new GrowingBody(length);
  const finish = (error: ServingError | null): void => {
    request.off("data", onData);
    request.off("end", onEnd);
    request.resume();
    done(error, error === null ? body.whole() : null);
  };
  const onData = (piece: Buffer): void => {
    try {
      if (body.size + piece.byteLength > bytesMax) throw tooLarge(bytesMax, `${body.size + piece.byteLength} or more`);
      place.grow(piece.byteLength);
    } catch (error) {
      finish(ServingError.from(error));
      return;
    }
    body.add(piece);
    // All of it: the "end" that follows says nothing new and comes ticks later.
    if (body.size === length) finish(null);
  };
  const onEnd = (): void => finish(null);
  request.on("data", onData);
  request.once("end", onEnd);
}

/** Up to this many bytes memory is taken at an announcement's word. */
const ALLOCATE_BYTES_MIN = 1024 * 1024;

/**
 * A body that comes in pieces. Its memory is its own ArrayBuffer, so that it can be handed to another thread without a
 * copy, allocated once an eighth of what is expected is there: then nearly all is copied once, and nobody has memory for
 * bytes that never come. A small body in one piece is used as it is.
 */
export class GrowingBody {
  size = 0;
  private pieces: Buffer[] = [];
  private buffer: Buffer | null = null;

  /** @param expected bytes; null: unknown. */
  constructor(private expected: number | null) {}

  add(piece: Buffer): void {
    const from = this.size;
    this.size += piece.byteLength;
    if (this.buffer !== null && this.size <= this.buffer.byteLength) {
      piece.copy(this.buffer, from);
      return;
    }
    if (this.buffer !== null) {
      // More than expected: a compressed body that said less of itself.
      this.pieces = [this.buffer.subarray(0, from)];
      this.buffer = null;
      this.expected = null;
    }
    this.pieces.push(piece);
    const { expected } = this;
    if (expected === null || this.size >= expected || expected > Math.max(8 * this.size, ALLOCATE_BYTES_MIN)) return;
    this.buffer = Buffer.allocUnsafeSlow(expected);
    this.fill(this.buffer);
  }

  whole(): Buffer {
    if (this.buffer !== null) return this.buffer.subarray(0, this.size);
    if (this.pieces.length === 1) return this.pieces[0]!;
    const whole = Buffer.allocUnsafeSlow(this.size);
    this.fill(whole);
    return whole;
  }

  private fill(target: Buffer): void {
    let offset = 0;
    for (const piece of this.pieces) {
      piece.copy(target, offset);
      offset += piece.byteLength;
    }
    this.pieces = [];
  }
}
