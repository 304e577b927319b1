/** One value in every element of a tensor. */
import { ServingError } from "../wire/serving-error.js";
import type { Datatype } from "../wire/tensors/tensor.js";

/** @param data Memory of its own, aligned for the datatype. */
export function fillBytes(data: Uint8Array, datatype: Datatype, value: number): void {
  if (data.byteLength === 0 || (value === 0 && datatype !== "BYTES")) {
    data.fill(0);
    return;
  }
  const { buffer, byteOffset, byteLength } = data;
  switch (datatype) {
    case "BOOL":
      data.fill(value === 0 ? 0 : 1);
      return;
    case "UINT8":
    case "INT8":
      data.fill(value & 0xff);
      return;
    case "UINT16":
    case "INT16":
      new Uint16Array(buffer, byteOffset, byteLength / 2).fill(value & 0xffff);
      return;
    case "UINT32":
    case "INT32":
      new Int32Array(buffer, byteOffset, byteLength / 4).fill(value);
      return;
    case "UINT64":
    case "INT64":
      new BigInt64Array(buffer, byteOffset, byteLength / 8).fill(BigInt(Math.trunc(value)));
      return;
    case "FP16":
      new Uint16Array(buffer, byteOffset, byteLength / 2).fill(halfBits(value));
      return;
    case "BF16":
      new Uint16Array(buffer, byteOffset, byteLength / 2).fill(brainBits(value));
      return;
    case "FP32":
      new Float32Array(buffer, byteOffset, byteLength / 4).fill(value);
      return;
    case "FP64":
      new Float64Array(buffer, byteOffset, byteLength / 8).fill(value);
      return;
    case "BYTES":
      throw new ServingError("internal", "BYTES elements have no numeric fill value");
  }
}

const scratch = new DataView(new ArrayBuffer(4));
function singleBits(value: number): number {
  scratch.setFloat32(0, value);
  return scratch.getUint32(0);
}

/** The upper half of single precision, rounded to nearest, ties to even. */
function brainBits(value: number): number {
  const bits = singleBits(value);
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** IEEE half precision, rounded to nearest, ties away; beyond its range becomes infinity. */
export function halfBits(value: number): number {
  const bits = singleBits(value);
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 112;
  const fraction = bits & 0x7fffff;
  if (Number.isNaN(value)) return sign | 0x7e00;
  if (exponent >= 31) return sign | 0x7c00;
  if (exponent >= 1) return sign + (exponent << 10) + ((fraction + 0x1000) >>> 13);
  if (exponent < -10) return sign;
  const shift = 14 - exponent;
  return sign + (((fraction | 0x800000) + (1 << (shift - 1))) >>> shift);
}
