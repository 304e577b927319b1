/**
 * Reads a request body into one buffer, up to a limit, and undoes its Content-Encoding.
 *
 * With an announced length the buffer is allocated once and filled, so that a body is copied once from the socket.
 * A body past the limit is refused at once; what the client still sends is read and thrown away by the HTTP server.
 */
import type { IncomingMessage } from "node:http";
import zlib from "node:zlib";
import { ServingError } from "../../wire/serving-error.js";

type Done = (error: ServingError | null, body: Buffer | null) => void;

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
 * Calls `done` once with the whole body, or with the refusal. A client that goes away midway calls nothing:
 * the response's "close" event tells.
 *
 * @param onGrowth called with each piece's size when the length was not announced; may throw to refuse.
 */
export function readBody(
  request: IncomingMessage,
  length: number | null,
  bytesMax: number,
  onGrowth: (bytes: number) => void,
  done: Done,
): void {
  if (length === 0) {
    request.resume();
    done(null, Buffer.alloc(0));
    return;
  }
  let size = 0;
  let isDone = false;
  // Its own ArrayBuffer, so that a large body can be handed to another thread without a copy. A small one that arrives
  // in one piece is used as it is.
  let whole: Buffer | null = null;
  const pieces: Buffer[] = [];
  const onData = (piece: Buffer): void => {
    size += piece.byteLength;
    if (length === null) {
      try {
        if (size > bytesMax) throw tooLarge(bytesMax, `${size} or more`);
        onGrowth(piece.byteLength);
      } catch (error) {
        request.off("data", onData);
        request.off("end", onEnd);
        request.resume();
        done(ServingError.from(error), null);
        return;
      }
      pieces.push(piece);
    } else if (whole !== null) {
      piece.copy(whole, size - piece.byteLength);
    } else if (size === length) {
      whole = piece;
    } else {
      whole = Buffer.allocUnsafeSlow(length);
      piece.copy(whole, 0);
    }
    // All of it: the "end" that follows says nothing new and comes ticks later.
    if (size === length) onEnd();
  };
  const onEnd = (): void => {
    if (isDone) return;
    isDone = true;
    done(null, whole ?? joinPieces(pieces, size));
  };
  request.on("data", onData);
  request.once("end", onEnd);
}

function joinPieces(pieces: readonly Buffer[], size: number): Buffer {
  const whole = Buffer.allocUnsafeSlow(size);
  let offset = 0;
  for (const piece of pieces) {
    piece.copy(whole, offset);
    offset += piece.byteLength;
  }
  return whole;
}

/** Undoes gzip or deflate (zlib-wrapped) off the main thread; the limit holds for the decompressed body too. */
export function decompress(body: Buffer, encoding: string | undefined, bytesMax: number, done: Done): void {
  const kind = encoding?.trim().toLowerCase() ?? "identity";
  if (kind === "identity" || kind === "") {
    done(null, body);
    return;
  }
  const inflate = kind === "gzip" || kind === "x-gzip" ? zlib.gunzip : kind === "deflate" ? zlib.inflate : null;
  if (inflate === null) {
    done(
      new ServingError(
        "unsupported-encoding",
        `Content-Encoding must be gzip, deflate or identity, got '${encoding}'`,
        {
          reason: "unsupported-encoding",
        },
      ),
      null,
    );
    return;
  }
  inflate(body, { maxOutputLength: bytesMax }, (error, result) => {
    if (error === null) done(null, result);
    else if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
      done(tooLarge(bytesMax, "more after decompression"), null);
    else
      done(
        new ServingError(
          "invalid-argument",
          `the request body must be valid ${kind} data as its Content-Encoding says: ${error.message}`,
        ),
        null,
      );
  });
}
