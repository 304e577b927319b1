/** Elements of BYTES tensors: u32 little-endian length and that many bytes each, in row-major order. */
import { isUtf8 } from "node:buffer";
import { ServingError } from "./serving-error.js";

/** Views of the elements. @throws ServingError invalid-argument naming tensor, expected and found count or bytes. */
export function readBytesElements(name: string, data: Uint8Array, count: number): Uint8Array[] {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const elements: Uint8Array[] = [];
  let at = 0;
  while (at < data.byteLength) {
    if (elements.length === count) fail(name, `must hold ${count} elements; has bytes after the last`);
    const end = at + 4 > data.byteLength ? Number.POSITIVE_INFINITY : at + 4 + view.getUint32(at, true);
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
export function textProblem(data: Uint8Array): string | null {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  for (let at = 0, index = 0; at < data.byteLength; index++) {
    const end = at + 4 + view.getUint32(at, true);
    const element = data.subarray(at + 4, end);
    const nul = element.indexOf(0);
    if (nul >= 0) return `element ${index} must be text without NUL for this model's runtime; has one at byte ${nul}`;
    if (!isUtf8(element)) return `element ${index} must be UTF-8 text for this model's runtime; is not`;
    at = end;
  }
  return null;
}

function fail(name: string, problem: string): never {
  throw new ServingError("invalid-argument", `BYTES tensor '${name}' ${problem}`);
}
