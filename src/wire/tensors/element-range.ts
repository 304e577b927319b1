/** Can an element of a datatype be this number? What it is rounded to counts, so that no finite number becomes infinite. */
import { DATATYPES, type Datatype } from "./tensor.js";

/** Least magnitude that rounds to infinity: halfway from the greatest finite value to what would follow it. */
const FLOAT_LIMIT: Readonly<Partial<Record<Datatype, number>>> = {
  FP16: 65_520,
  BF16: (2 - 2 ** -8) * 2 ** 127,
  FP32: (2 - 2 ** -24) * 2 ** 127,
  FP64: Number.POSITIVE_INFINITY,
};

/** What a number in every element must be, or null where `value` is that. */
export function fillProblem(datatype: Datatype, value: number): string | null {
  if (datatype === "BYTES") return "absent for datatype BYTES, whose elements are texts";
  if (datatype === "BOOL") return value === 0 || value === 1 ? null : "0 or 1 for datatype BOOL";
  const limit = FLOAT_LIMIT[datatype];
  if (limit !== undefined)
    return Math.abs(value) < limit ? null : `a number of magnitude below ${limit} for datatype ${datatype}`;
  const bits = 8 * DATATYPES[datatype];
  const isSigned = datatype.startsWith("INT");
  // Beyond 2^53 a number of the file is not the integer that was written.
  const high = Math.min(2 ** (isSigned ? bits - 1 : bits) - 1, Number.MAX_SAFE_INTEGER);
  const low = isSigned ? Math.max(-(2 ** (bits - 1)), Number.MIN_SAFE_INTEGER) : 0;
  if (Number.isInteger(value) && value >= low && value <= high) return null;
  return `a whole number in [${low}, ${high}] for datatype ${datatype}`;
}
