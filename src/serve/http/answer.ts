/** Writing answers on a raw HTTP response: one head, one body, compressed when the client asked. */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import zlib from "node:zlib";
import { type EncodedAnswer, encodeError } from "../../wire/infer-answer.js";
import { ERROR_CODES, type ServingError } from "../../wire/serving-error.js";

/** A reply that fits one packet gains nothing from compression. */
const COMPRESS_BYTES_MIN = 1400;

export type Compression = "gzip" | "deflate";

/** The compression of the answer: gzip before deflate, "q=0" respected; null: none. */
export function acceptedCompression(header: string | string[] | undefined): Compression | null {
  if (header === undefined) return null;
  const text = String(header).toLowerCase();
  for (const kind of ["gzip", "deflate"] as const) {
    const match = new RegExp(`(?:^|,)\\s*${kind}\\s*(?:;\\s*q=([0-9.]+))?\\s*(?:,|$)`).exec(text);
    if (match !== null && !(match[1] !== undefined && Number(match[1]) === 0)) return kind;
  }
  return null;
}

export interface AnswerPolicy {
  /** The door is closing: the connection ends after this answer. */
  readonly isClosing: boolean;
  /** How long a client may take no byte of its answer before it is cut off. */
  readonly writeTimeoutMs: number;
}

/** Sends a 200 with the inference answer. Does nothing when the client has gone. */
export function sendAnswer(
  response: ServerResponse,
  answer: EncodedAnswer,
  compression: Compression | null,
  policy: AnswerPolicy,
): void {
  if (compression === null || answer.byteLength < COMPRESS_BYTES_MIN) {
    writeAnswer(response, answer, answer.pieces, answer.byteLength, null, policy);
    return;
  }
  const deflate = compression === "gzip" ? zlib.gzip : zlib.deflate;
  const whole = answer.pieces.length === 1 ? answer.pieces[0]! : Buffer.concat(answer.pieces, answer.byteLength);
  deflate(whole, { level: 1 }, (error, compressed) => {
    // Out of memory is the one way this fails; the plain body is then as good an answer as any.
    if (error === null) writeAnswer(response, answer, [compressed], compressed.byteLength, compression, policy);
    else writeAnswer(response, answer, [whole], whole.byteLength, null, policy);
  });
}

function writeAnswer(
  response: ServerResponse,
  answer: EncodedAnswer,
  pieces: readonly Uint8Array[],
  byteLength: number,
  encoding: Compression | null,
  policy: AnswerPolicy,
): void {
  if (response.destroyed || response.headersSent) return;
  const head: OutgoingHttpHeaders =
    answer.headerLength === null
      ? { "content-type": "application/json", "content-length": byteLength }
      : {
          "content-type": "application/octet-stream",
          "content-length": byteLength,
          "inference-header-content-length": answer.headerLength,
        };
  if (encoding !== null) head["content-encoding"] = encoding;
  if (policy.isClosing) head.connection = "close";
  response.writeHead(200, head);
  // Written in one turn, the pieces leave together (the response is corked until the next tick).
  for (let i = 0; i < pieces.length - 1; i++) response.write(pieces[i]!);
  response.end(pieces.at(-1)!);
  watchSlowReader(response, policy);
}

/** Sends an error with its status, JSON body and, where it has one, Retry-After. */
export function sendError(response: ServerResponse, error: ServingError, policy: AnswerPolicy): void {
  if (response.destroyed || response.headersSent) return;
  const body = encodeError(error);
  const head: OutgoingHttpHeaders = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  };
  if (error.details.retryAfterS !== undefined)
    head["retry-after"] = String(Math.max(1, Math.ceil(error.details.retryAfterS)));
  if (policy.isClosing) head.connection = "close";
  response.writeHead(ERROR_CODES[error.code].http, head);
  response.end(body);
  watchSlowReader(response, policy);
}

/** Bytes the socket did not take at once are held for a client that may never read: bounded in time, too. */
function watchSlowReader(response: ServerResponse, policy: AnswerPolicy): void {
  const { socket } = response;
  if (socket !== null && socket.writableLength > 0) socket.setTimeout(policy.writeTimeoutMs);
}
