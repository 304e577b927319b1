/**
 * Tensor data between JSON values and the binary layout.
 *
 * In: flat arrays or nested ones that follow the shape. Out: always flat, row-major. FP16 and BF16 have no JSON form here
 * (as in Triton), nor have NaN and infinities: the errors say that binary data carries them.
 */
import { isUtf8 } from "node:buffer";
import { INFER_LIMITS } from "../infer-limits.js";
import { describe } from "../infer-parameters.js";
import { ServingError } from "../serving-error.js";
import { DATATYPES, type Datatype, elementCount, type Tensor } from "./tensor.js";
import { unpackBytes } from "./tensor-bytes.js";

const USE_BINARY = "use binary data (binary_data_size with the header Inference-Header-Content-Length)";
const ASK_BINARY = "ask for binary data (output parameter binary_data or request parameter binary_data_output)";

const INTEGER_RANGE: Partial<Record<Datatype, readonly [number, number]>> = {
  UINT8: [0, 255],
  INT8: [-128, 127],
  UINT16: [0, 65535],
  INT16: [-32768, 32767],
  UINT32: [0, 4294967295],
  INT32: [-2147483648, 2147483647],
};
/** Greatest finite values. Numbers are judged after they are rounded: 3.4028235e+38 is the greatest FP32. */
const FLOAT_MAX = { FP32: 3.4028234663852886e38, FP64: Number.MAX_VALUE } as const;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** True when an INT64 or UINT64 value of this parsed data may have lost digits, so that the text must be read again. */
export function mayHaveLostDigits(data: unknown, depth = 0): boolean {
  if (typeof data === "number") return !Number.isSafeInteger(data);
  // Deeper than any shape: refused later.
  if (!Array.isArray(data) || depth > INFER_LIMITS.rank) return false;
  for (const item of data) if (mayHaveLostDigits(item, depth + 1)) return true;
  return false;
}

/**
 * Bytes of a tensor from parsed JSON data.
 *
 * @param where names the tensor in errors, e.g. "input 'x'". @param instead what carries numbers that JSON cannot.
 * @throws ServingError invalid-argument naming the tensor, what was expected and what was got.
 */
export function bytesFromJson(
  where: string,
  datatype: Datatype,
  shape: readonly number[],
  data: unknown,
  instead = USE_BINARY,
): Uint8Array {
  if (datatype === "FP16" || datatype === "BF16")
    throw new ServingError("invalid-argument", `${where}: ${datatype} data via JSON is not supported; ${instead}`);
  if (!Array.isArray(data))
    throw new ServingError("invalid-argument", `data of ${where} must be an array, got ${describe(data)}`);
  const count = elementCount(shape);
  const flat = Array.isArray(data[0]) ? flatten(where, shape, data, count) : data;
  if (flat.length !== count)
    throw new ServingError(
      "invalid-argument",
      `data of ${where} must have ${count} elements for shape [${shape.join(",")}], got ${flat.length}`,
    );
  switch (datatype) {
    case "BYTES":
      return packStrings(where, flat);
    case "FP32":
    case "FP64":
      return packFloats(where, datatype, flat, instead);
    case "INT64":
    case "UINT64":
      return packLongs(where, datatype, flat);
    case "BOOL":
      return packBools(where, flat);
    default:
      return packIntegers(where, datatype, flat);
  }
}

function flatten(where: string, shape: readonly number[], data: readonly unknown[], count: number): unknown[] {
  const flat: unknown[] = [];
  const walk = (items: readonly unknown[], axis: number): void => {
    if (axis >= shape.length || items.length !== shape[axis])
      throw new ServingError(
        "invalid-argument",
        axis >= shape.length
          ? `data of ${where} is nested ${axis + 1} deep, expected at most ${shape.length} for shape [${shape.join(",")}]`
          : `data of ${where} must have ${shape[axis]} items at dimension ${axis} for shape [${shape.join(",")}], got ${items.length}`,
      );
    if (axis === shape.length - 1) {
      for (const item of items) {
        if (Array.isArray(item)) walk(item, axis + 1);
        flat.push(item);
      }
      return;
    }
    for (const item of items) {
      if (!Array.isArray(item))
        throw new ServingError(
          "invalid-argument",
          `data of ${where} must be flat or nested as shape [${shape.join(",")}], got ${describe(item)} at dimension ${axis}`,
        );
      walk(item, axis + 1);
    }
  };
  if (count > 0) walk(data, 0);
  return flat;
}

function wrongElement(where: string, datatype: Datatype, index: number, expected: string, got: unknown): ServingError {
  return new ServingError(
    "invalid-argument",
    `element ${index} of ${where} must be ${expected} for datatype ${datatype}, got ${describe(got)}`,
  );
}

function packIntegers(where: string, datatype: Datatype, flat: readonly unknown[]): Uint8Array {
  const [low, high] = INTEGER_RANGE[datatype]!;
  const size = DATATYPES[datatype];
  const out = new Uint8Array(flat.length * size);
  const typed =
    size === 1
      ? out
      : size === 2
        ? new Uint16Array(out.buffer) // wraps negatives into two's complement, as Int16Array would
        : new Uint32Array(out.buffer);
  for (let i = 0; i < flat.length; i++) {
    const value = flat[i];
    if (typeof value !== "number" || !Number.isInteger(value) || value < low || value > high)
      throw wrongElement(where, datatype, i, `a whole number in [${low}, ${high}]`, value);
    typed[i] = value;
  }
  return out;
}

function packFloats(where: string, datatype: "FP32" | "FP64", flat: readonly unknown[], instead: string): Uint8Array {
  const typed = datatype === "FP32" ? new Float32Array(flat.length) : new Float64Array(flat.length);
  for (let i = 0; i < flat.length; i++) {
    const value = flat[i];
    const number = typeof value === "bigint" ? Number(value) : value;
    if (typeof number === "number") typed[i] = number;
    if (typeof number === "number" && Number.isFinite(typed[i])) continue;
    const max = FLOAT_MAX[datatype];
    throw wrongElement(
      where,
      datatype,
      i,
      `a number in [-${max}, ${max}] once rounded (NaN and infinities: ${instead})`,
      value,
    );
  }
  return new Uint8Array(typed.buffer);
}

function packLongs(where: string, datatype: "INT64" | "UINT64", flat: readonly unknown[]): Uint8Array {
  const out = new Uint8Array(flat.length * 8);
  const halves = new Uint32Array(out.buffer);
  const isSigned = datatype === "INT64";
  const [low, high] = isSigned ? [-(2n ** 63n), 2n ** 63n - 1n] : [0n, 2n ** 64n - 1n];
  for (let i = 0; i < flat.length; i++) {
    const value = flat[i];
    if (typeof value === "number" && Number.isSafeInteger(value) && (isSigned || value >= 0)) {
      halves[2 * i] = value >>> 0;
      halves[2 * i + 1] = Math.floor(value / 4294967296);
      continue;
    }
    const big =
      typeof value === "bigint"
        ? value
        : typeof value === "string" && /^-?\d{1,20}$/.test(value)
          ? BigInt(value)
          : null;
    if (big === null || big < low || big > high)
      throw wrongElement(where, datatype, i, `a whole number (or a decimal string) in [${low}, ${high}]`, value);
    const bits = BigInt.asUintN(64, big);
    halves[2 * i] = Number(bits & 0xffffffffn);
    halves[2 * i + 1] = Number(bits >> 32n);
  }
  return out;
}

function packBools(where: string, flat: readonly unknown[]): Uint8Array {
  const out = new Uint8Array(flat.length);
  for (let i = 0; i < flat.length; i++) {
    const value = flat[i];
    if (value === true || value === 1) out[i] = 1;
    else if (value !== false && value !== 0) throw wrongElement(where, "BOOL", i, "true, false, 1 or 0", value);
  }
  return out;
}

function packStrings(where: string, flat: readonly unknown[]): Uint8Array {
  let size = 0;
  for (let i = 0; i < flat.length; i++) {
    const value = flat[i];
    if (typeof value !== "string" || LONE_SURROGATE.test(value))
      throw wrongElement(where, "BYTES", i, "a string of valid Unicode (other bytes: use binary data)", value);
    size += 4 + Buffer.byteLength(value, "utf8");
  }
  const out = Buffer.from(new ArrayBuffer(size));
  let offset = 0;
  for (const value of flat as readonly string[]) {
    const length = out.write(value, offset + 4, "utf8");
    out.writeUInt32LE(length, offset);
    offset += 4 + length;
  }
  return out;
}

/**
 * JSON text of a tensor's data, a flat array.
 *
 * @throws ServingError invalid-argument when the data has no JSON form; the text says how to ask for binary.
 */
export function jsonFromBytes(tensor: Tensor): string {
  const where = `output '${tensor.name}'`;
  switch (tensor.datatype) {
    case "FP16":
    case "BF16":
      throw new ServingError(
        "invalid-argument",
        `${where}: ${tensor.datatype} data via JSON is not supported; ${ASK_BINARY}`,
      );
    case "BYTES":
      return JSON.stringify(
        unpackBytes(tensor.data).map((element, index) => {
          if (!isUtf8(element))
            throw new ServingError(
              "invalid-argument",
              `element ${index} of ${where} is not valid UTF-8, which JSON cannot carry; ${ASK_BINARY}`,
            );
          return Buffer.from(element.buffer, element.byteOffset, element.byteLength).toString("utf8");
        }),
      );
    case "BOOL":
      return `[${Array.from(tensor.data, (byte) => (byte === 0 ? "false" : "true")).join(",")}]`;
    case "FP32":
    case "FP64": {
      const values = typedView(tensor) as Float32Array | Float64Array;
      let isAnyNegativeZero = false;
      for (let i = 0; i < values.length; i++) {
        if (values[i] === 0 && Object.is(values[i], -0)) isAnyNegativeZero = true;
        if (!Number.isFinite(values[i]))
          throw new ServingError(
            "invalid-argument",
            `element ${i} of ${where} is ${values[i]}, which JSON cannot carry; ${ASK_BINARY}`,
          );
      }
      // To text JavaScript takes -0 for 0.
      if (isAnyNegativeZero)
        return `[${Array.from(values, (value) => (Object.is(value, -0) ? "-0" : value)).join(",")}]`;
      return `[${values.join(",")}]`;
    }
    default:
      return `[${typedView(tensor).join(",")}]`;
  }
}

export const NUMERIC_ARRAYS = {
  UINT8: Uint8Array,
  INT8: Int8Array,
  UINT16: Uint16Array,
  INT16: Int16Array,
  UINT32: Uint32Array,
  INT32: Int32Array,
  UINT64: BigUint64Array,
  INT64: BigInt64Array,
  FP32: Float32Array,
  FP64: Float64Array,
} as const;
type NumericDatatype = keyof typeof NUMERIC_ARRAYS;

/** Typed array over a numeric tensor: a view where the bytes are aligned, else a copy. */
export function typedView(tensor: Tensor): InstanceType<(typeof NUMERIC_ARRAYS)[NumericDatatype]> {
  const Type = NUMERIC_ARRAYS[tensor.datatype as NumericDatatype];
  const { data } = tensor;
  const length = data.byteLength / Type.BYTES_PER_ELEMENT;
  if (data.byteOffset % Type.BYTES_PER_ELEMENT === 0)
    return new Type(data.buffer as ArrayBuffer, data.byteOffset, length);
  const copy = new Uint8Array(data.byteLength);
  copy.set(data);
  return new Type(copy.buffer, 0, length);
}
