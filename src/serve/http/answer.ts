/** Writing answers on a raw HTTP response: one head, one body, compressed when the client asked. */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import zlib from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type EncodedAnswer, encodeError } from "../../wire/infer/infer-answer.js";
import { ERROR_CODES, type ServingError } from "../../wire/serving-error.js";
import type { Place } from "../requests/admission.js";

/** A reply that fits one packet gains nothing from compression. */
const COMPRESS_BYTES_MIN = 1400;

export type Compression = "gzip" | "deflate";

/** The compression of the answer: gzip before deflate, "q=0" respected; null: none. */
export function acceptedCompression(header: string | string[] | undefined): Compression | null {
  if (header === undefined) return null;
  let found: Compression | null = null;
  for (const coding of String(header).toLowerCase().split(",")) {
    const [name, ...parameters] = coding.split(";").map((part) => part.trim());
    if (name !== "gzip" && name !== "deflate") continue;
    const weight = parameters.find((parameter) => parameter.startsWith("q="));
    if (weight !== undefined && !(Number(weight.slice(2)) > 0)) continue;
    if (name === "gzip") return name;
    found = name;
  }
  return found;
}

export interface AnswerPolicy {
  /** The door is closing: the connection ends after this answer. */
  readonly isClosing: boolean;
}

/**
 * Sends a 200 with the inference answer. Does nothing when the client has gone.
 *
 * @param place holds the answer's bytes; those of its compressed copy are added.
 */
export function sendAnswer(
  response: ServerResponse,
  answer: EncodedAnswer,
  compression: Compression | null,
  place: Place,
  policy: AnswerPolicy,
): void {
  if (compression === null || answer.byteLength < COMPRESS_BYTES_MIN) {
    writeAnswer(response, answer, answer.pieces, answer.byteLength, null, policy);
    return;
  }
  const deflate = compression === "gzip" ? zlib.gzip : zlib.deflate;
  place.hold(answer.byteLength);
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
  writeBody(response, pieces);
}

/**
 * What is handed to the socket at once. The next follows when it was taken, so that a client which takes nothing is seen
 * (connections.ts) also in the middle of 64 MiB, which are one write else.
 */
const WRITE_BYTES = 64 * 1024;

function writeBody(response: ServerResponse, pieces: readonly Uint8Array[]): void {
  let index = 0;
  let offset = 0;
  const write = (): void => {
    if (response.destroyed) return;
    let left = WRITE_BYTES;
    for (;;) {
      const piece = pieces[index]!;
      const part = piece.subarray(offset, offset + left);
      left -= part.byteLength;
      offset += part.byteLength;
      if (offset === piece.byteLength) {
        index++;
        offset = 0;
      }
      if (index === pieces.length) {
        response.end(part);
        return;
      }
      // Written in one turn, small pieces leave together (the response is corked until the next tick).
      if (left > 0) response.write(part);
      else {
        response.write(part, (error) => {
          if (!error) write();
        });
        return;
      }
    }
  };
  write();
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
}

/** Sends a text of the framework's routes, compressed where the client takes that. */
export function compressed(request: FastifyRequest, reply: FastifyReply, text: string): FastifyReply {
  const compression = acceptedCompression(request.raw.headers["accept-encoding"]);
  reply.header("vary", "accept-encoding");
  if (compression === null || text.length < COMPRESS_BYTES_MIN) return reply.send(text);
  (compression === "gzip" ? zlib.gzip : zlib.deflate)(text, { level: 1 }, (error, bytes) => {
    if (error === null) reply.header("content-encoding", compression).send(bytes);
    else reply.send(text);
  });
  return reply;
}
