/** Values of default tensors, as their owner writes them. */

/** Whole numbers that a datatype holds, lowest and highest. */
const RANGES: Readonly<Record<string, readonly [number, number]>> = {
  UINT8: [0, 255],
  INT8: [-128, 127],
  UINT16: [0, 65_535],
  INT16: [-32_768, 32_767],
  UINT32: [0, 4_294_967_295],
  INT32: [-2_147_483_648, 2_147_483_647],
  UINT64: [0, Number.MAX_SAFE_INTEGER],
  INT64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

/** @returns what is wrong with the first element that is wrong; null: nothing. */
export function elementProblem(datatype: string, elements: readonly unknown[]): string | null {
  for (const [index, element] of elements.entries()) {
    const must = problemOf(datatype, element);
    if (must !== null) return `must be ${must} in ${datatype}; was ${JSON.stringify(element)} at element ${index}`;
  }
  return null;
}

function problemOf(datatype: string, element: unknown): string | null {
  if (datatype === "BYTES") return typeof element === "string" ? null : "text";
  if (datatype === "BOOL") return typeof element === "boolean" ? null : "true or false";
  if (typeof element !== "number") return "a number";
  const range = RANGES[datatype];
  if (range === undefined) return Number.isFinite(element) ? null : "a finite number";
  const [low, high] = range;
  return Number.isInteger(element) && element >= low && element <= high ? null : `a whole number in [${low}, ${high}]`;
}
