/** Elements of BYTES tensors: u32 little-endian length and that many bytes each, in row-major order. */
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

export function writeBytesElements(elements: readonly Uint8Array[]): Uint8Array {
  let bytes = 0;
  for (const element of elements) bytes += 4 + element.byteLength;
  const data = new Uint8Array(bytes);
  const view = new DataView(data.buffer);
  let at = 0;
  for (const element of elements) {
    view.setUint32(at, element.byteLength, true);
    data.set(element, at + 4);
    at += 4 + element.byteLength;
  }
  return data;
}

function fail(name: string, problem: string): never {
  throw new ServingError("invalid-argument", `BYTES tensor '${name}' ${problem}`);
}
