/** Elements of BYTES tensors: u32 little-endian length and that many bytes each, in row-major order. */
import { isUtf8 } from "node:buffer";
import { ServingError } from "../serving-error.js";
import { SLICE_BYTES, type Sliced } from "../sliced.js";

/** The length that stands before an element; by hand, since a DataView takes ten times as long. */
export function lengthAt(data: Uint8Array, at: number): number {
  return (data[at]! | (data[at + 1]! << 8) | (data[at + 2]! << 16) | (data[at + 3]! << 24)) >>> 0;
}

/** Views of the elements. @throws ServingError invalid-argument naming tensor, expected and found count or bytes. */
export function readBytesElements(name: string, data: Uint8Array, count: number): Uint8Array[] {
  const elements: Uint8Array[] = [];
  let at = 0;
  while (at < data.byteLength) {
    if (elements.length === count) fail(name, `must hold ${count} elements; has bytes after the last`);
    const end = at + 4 > data.byteLength ? Number.POSITIVE_INFINITY : at + 4 + lengthAt(data, at);
    if (end > data.byteLength)
      fail(name, `element ${elements.length} ends beyond the data of ${data.byteLength} bytes`);
    elements.push(data.subarray(at + 4, end));
    at = end;
  }
  if (elements.length !== count) fail(name, `must hold ${count} elements; has ${elements.length}`);
  return elements;
}

/**
 * Why a runtime that knows text only cannot carry BYTES elements, or null: onnxruntime's binding for Node decodes each
 * as UTF-8 and ends it at its first NUL. The data must have passed `checkTensorBytes`.
 */
export function* textProblem(data: Uint8Array): Sliced<string | null> {
  const { byteLength } = data;
  let sliceAt = 0;
  for (let at = 0, index = 0; at < byteLength; index++) {
    const start = at + 4;
    const end = start + lengthAt(data, at);
    // Most elements are short and ASCII; a call of the runtime's search costs more than they do.
    const near = Math.min(end, start + NEAR_BYTES);
    let from = start;
    while (from < near && data[from]! > 0 && data[from]! < 0x80) from++;
    if (from < end) sliceAt -= CALLS_AS_BYTES;
    while (from < end) {
      const to = characterEnd(data, from, end);
      const piece = data.subarray(from, to);
      const nul = piece.indexOf(0);
      if (nul >= 0)
        return `element ${index} must be text without NUL for this model's runtime; has one at byte ${from - start + nul}`;
      if (!isUtf8(piece)) return `element ${index} must be UTF-8 text for this model's runtime; is not`;
      from = to;
      if (from < end) yield;
    }
    at = end;
    if (at - sliceAt < SLICE_BYTES) continue;
    yield;
    sliceAt = at;
  }
  return null;
}

/** Looked at by hand so far. */
const NEAR_BYTES = 24;
/** What it costs to let the runtime look at an element. */
const CALLS_AS_BYTES = 256;

/** Where a slice of an element may end without cutting a character in two; what has no such place is not UTF-8. */
function characterEnd(data: Uint8Array, from: number, end: number): number {
  let to = Math.min(end, from + SLICE_BYTES);
  if (to === end) return end;
  for (let back = 0; back < 3 && (data[to]! & 0xc0) === 0x80; back++) to--;
  return to;
}

function fail(name: string, problem: string): never {
  throw new ServingError("invalid-argument", `BYTES tensor '${name}' ${problem}`);
}
