/**
 * Undoes the Content-Encoding of a body, off the main thread and piece by piece: each piece is taken from the door's
 * account and counted against the limit as it comes out, so that a body that grows a thousandfold is refused when it has
 * grown to a limit, not after.
 */
import zlib from "node:zlib";
import { ServingError } from "../../wire/serving-error.js";
import type { Place } from "../requests/admission.js";
import { type BodyDone, GrowingBody, tooLarge } from "./request-body.js";

/** As many as Node's thread pool has threads: more would only hold more memory while they wait. */
const RUNNING_MAX = 4;
const PIECE_BYTES = 64 * 1024;

export class Inflations {
  private running = 0;
  /** In the order they came. */
  private readonly waiting = new Set<() => void>();

  /** Calls `done` once with the plain body, or with the refusal; nothing once the place has ended. */
  undo(body: Buffer, encoding: string, bytesMax: number, place: Place, done: BodyDone): void {
    const kind = encoding.trim().toLowerCase();
    if (kind === "identity" || kind === "") {
      done(null, body);
      return;
    }
    const create =
      kind === "gzip" || kind === "x-gzip" ? zlib.createGunzip : kind === "deflate" ? zlib.createInflate : null;
    if (create === null) {
      const text = `Content-Encoding must be gzip, deflate or identity, got '${encoding}'`;
      done(new ServingError("unsupported-encoding", text, { reason: "unsupported-encoding" }), null);
      return;
    }
    const start = (): void => {
      this.running++;
      const stream = create({ chunkSize: PIECE_BYTES });
      const plain = new GrowingBody(kind === "deflate" ? null : gzipLength(body, bytesMax));
      let isOver = false;
      const end = (): boolean => {
        if (isOver) return false;
        isOver = true;
        this.running--;
        stream.destroy();
        this.next();
        return true;
      };
      const fail = (error: ServingError): void => {
        if (end()) done(error, null);
      };
      place.onEnd(end);
      stream.on("data", (piece: Buffer) => {
        if (isOver) return;
        try {
          if (plain.size + piece.byteLength > bytesMax) throw tooLarge(bytesMax, "more after decompression");
          place.grow(piece.byteLength);
        } catch (error) {
          fail(ServingError.from(error));
          return;
        }
        plain.add(piece);
      });
      stream.on("error", (error) =>
        fail(
          new ServingError(
            "invalid-argument",
            `the request body must be valid ${kind} data as its Content-Encoding says: ${error.message}`,
          ),
        ),
      );
      stream.on("end", () => {
        if (!end()) return;
        place.hold(-body.byteLength);
        done(null, plain.whole());
      });
      stream.end(body);
    };
    if (this.running < RUNNING_MAX) {
      start();
      return;
    }
    this.waiting.add(start);
    place.onEnd(() => this.waiting.delete(start));
  }

  private next(): void {
    for (const start of this.waiting) {
      if (this.running >= RUNNING_MAX) return;
      this.waiting.delete(start);
      start();
    }
  }
}

/** The length that a gzip body says it has (RFC 1952, ISIZE): a hint for the allocation, believed up to the limit. */
function gzipLength(body: Buffer, bytesMax: number): number | null {
  if (body.byteLength < 18) return null;
  const length = body.readUInt32LE(body.byteLength - 4);
  return length > 0 && length <= bytesMax ? length : null;
}
