/**
 * Checks that a tensor's bytes are what its datatype and shape say, and reads and writes BYTES elements.
 */

import { INFER_LIMITS, tooMany } from "../infer-limits.js";
import { describe } from "../infer-parameters.js";
import { ServingError } from "../serving-error.js";
import { lengthAt } from "./bytes-tensor.js";
import { DATATYPES, type Datatype } from "./tensor.js";

/** Checks a datatype's name. `where` names the tensor in errors, e.g. "input 'x'". */
export function readDatatype(value: unknown, where: string): Datatype {
  if (typeof value === "string" && Object.hasOwn(DATATYPES, value)) return value as Datatype;
  throw new ServingError(
    "invalid-argument",
    `datatype of ${where} must be one of ${Object.keys(DATATYPES).join(", ")}, got ${describe(value)}`,
  );
}

/** Checks a shape: as many extents and elements as the table allows, each a whole number >= 0. */
export function readShape(value: unknown, where: string): readonly number[] {
  if (!Array.isArray(value))
    throw new ServingError(
      "invalid-argument",
      `shape of ${where} must be an array of whole numbers, got ${describe(value)}`,
    );
  if (value.length > INFER_LIMITS.rank)
    throw tooMany(`shape of ${where}`, INFER_LIMITS.rank, "dimensions", value.length);
  let count = 1;
  for (let axis = 0; axis < value.length; axis++) {
    const extent: unknown = value[axis];
    if (typeof extent !== "number" || !Number.isSafeInteger(extent) || extent < 0)
      throw new ServingError(
        "invalid-argument",
        `shape of ${where} must hold whole numbers >= 0, got ${describe(extent)} at dimension ${axis}`,
      );
    count *= extent;
  }
  if (!(count <= INFER_LIMITS.elements))
    throw new ServingError(
      "invalid-argument",
      `shape of ${where} must have at most ${INFER_LIMITS.elements} elements, got [${value.join(",")}]`,
    );
  return value as readonly number[];
}

/** Checks the byte length against shape and datatype; for BYTES walks the element lengths. */
export function checkTensorBytes(
  where: string,
  datatype: Datatype,
  shape: readonly number[],
  elements: number,
  data: Uint8Array,
): void {
  if (datatype === "BYTES") {
    checkBytesElements(where, shape, elements, data);
    return;
  }
  const expected = elements * DATATYPES[datatype];
  if (data.byteLength !== expected)
    throw new ServingError(
      "invalid-argument",
      `${where} of datatype ${datatype} and shape [${shape.join(",")}] must have ${expected} bytes, got ${data.byteLength}`,
    );
}

function checkBytesElements(where: string, shape: readonly number[], elements: number, data: Uint8Array): void {
  // Read once: of a Buffer it is a call, and there may be a million elements.
  const { byteLength } = data;
  let offset = 0;
  let count = 0;
  // One element too many is enough to know: the rest may be millions.
  while (offset < byteLength && count <= elements) {
    const left = byteLength - offset;
    if (left < 4)
      throw new ServingError(
        "invalid-argument",
        `${where}: element ${count} of BYTES data needs 4 bytes of length, got ${left}`,
      );
    const length = lengthAt(data, offset);
    if (length > left - 4)
      throw new ServingError(
        "invalid-argument",
        `${where}: element ${count} of BYTES data says ${length} bytes, got ${left - 4}`,
      );
    offset += 4 + length;
    count++;
  }
  if (count !== elements)
    throw new ServingError(
      "invalid-argument",
      `${where} of datatype BYTES and shape [${shape.join(",")}] must have ${elements} elements, got ${count > elements ? "more" : count}`,
    );
}

/** Joins BYTES elements into the binary layout. */
export function packBytes(elements: readonly Uint8Array[]): Uint8Array {
  let size = 0;
  for (const element of elements) size += 4 + element.byteLength;
  const out = new Uint8Array(size);
  const view = new DataView(out.buffer);
  let offset = 0;
  for (const element of elements) {
    view.setUint32(offset, element.byteLength, true);
    out.set(element, offset + 4);
    offset += 4 + element.byteLength;
  }
  return out;
}

/** Splits BYTES data into views of its elements. The data must have passed `checkTensorBytes`. */
export function unpackBytes(data: Uint8Array): Uint8Array[] {
  const elements: Uint8Array[] = [];
  for (let offset = 0; offset < data.byteLength; ) {
    const length = lengthAt(data, offset);
    elements.push(data.subarray(offset + 4, offset + 4 + length));
    offset += 4 + length;
  }
  return elements;
}
