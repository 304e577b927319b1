/**
 * The one table of how much a single inference request may name, whichever door it comes through.
 *
 * Each is far above what models need and so low that a request within all of them is checked in a few milliseconds:
 * without them a megabyte of names costs seconds of the thread that reads, answers and dispatches everything else.
 * Bytes of tensors have their own limits: the body's, and those of the requests in flight (admission.ts).
 */
import { ServingError } from "./serving-error.js";

export const INFER_LIMITS = {
  inputs: 1024,
  outputs: 1024,
  parameters: 256,
  parameterLength: 16_384,
  nameLength: 1024,
  idLength: 1024,
  /** ONNX models stay far below. */
  rank: 32,
  /** What a 32-bit index and any body limit can hold. */
  elements: 2 ** 31 - 1,
  /** Each is looked at, however short. */
  bytesElements: 1_048_576,
  /** They are objects or numbers of 8 bytes before they are a tensor, for an element that took one byte. */
  typedElements: 16_777_216,
} as const;

/** In words, for the documents. */
export const INFER_LIMIT_MEANINGS: Readonly<Record<keyof typeof INFER_LIMITS, string>> = {
  inputs: "inputs of a request",
  outputs: "outputs that a request asks for",
  parameters: "parameters of the request, of one input, of one output",
  parameterLength: "characters of a parameter that is a string",
  nameLength: "characters of the name of a model, a version, a tensor, a parameter",
  idLength: "characters of the request's id",
  rank: "dimensions of a tensor",
  elements: "elements of a tensor",
  bytesElements: "elements of all BYTES inputs of a request together",
  typedElements: "values in all typed contents of a gRPC request; of 64 bits each counts twice, of BYTES 16 times",
};

/** Most bytes that one character (a UTF-16 code unit) takes in UTF-8. */
export const UTF8_BYTES_MAX = 3;

/** `what` reads as the subject of the sentence: "inputs", "parameters of input 'x'". */
export function tooMany(what: string, max: number, of: string, got: number | string): ServingError {
  return new ServingError("invalid-argument", `${what} must have at most ${max} ${of}, got ${got}`, {
    reason: "request-limit",
  });
}

/** @throws ServingError invalid-argument when a name or an id is too long; the text shows how it begins. */
export function checkLength(text: string, max: number, what: string): void {
  if (text.length <= max) return;
  throw tooMany(what, max, "characters", `${text.length}: ${JSON.stringify(`${text.slice(0, 40)}…`)}`);
}

/** BYTES elements of a request so far; checked before they are walked. */
export class BytesElements {
  private count = 0;

  add(datatype: string, elements: number): void {
    if (datatype !== "BYTES") return;
    this.count += elements;
    if (this.count > INFER_LIMITS.bytesElements)
      throw tooMany("BYTES inputs of the request", INFER_LIMITS.bytesElements, "elements in all", this.count);
  }
}
