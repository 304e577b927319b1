import fc from "fast-check";
import { expect, test } from "vitest";
import { fillBytes, halfBits } from "./fill.js";

/** The value of half-precision bits, straight from the definition. */
function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * 2 ** -24 * fraction : sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

test("halfBits: every half-precision number maps to itself", () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = halfValue(bits);
    if (Number.isNaN(value)) expect(Number.isNaN(halfValue(halfBits(value)))).toBe(true);
    else expect(halfBits(value)).toBe(bits);
  }
});

test("halfBits: any other number goes to a nearest neighbour", () => {
  fc.assert(
    fc.property(fc.double({ min: -65_000, max: 65_000, noNaN: true }), (value) => {
      const error = Math.abs(halfValue(halfBits(value)) - Math.fround(value));
      const spacing = Math.max(2 ** -24, 2 ** (Math.floor(Math.log2(Math.max(Math.abs(value), 2 ** -14))) - 10));
      expect(error).toBeLessThanOrEqual(spacing / 2);
    }),
  );
});

test("fill: BF16 is the nearest, ties to even", () => {
  const bits = (value: number): string => {
    const data = new Uint8Array(2);
    fillBytes(data, "BF16", value);
    return ((data[1]! << 8) | data[0]!).toString(16);
  };
  expect([1, -1, 0.1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20].map(bits)).toEqual([
    "3f80",
    "bf80",
    "3dcd",
    "3f80",
    "3f82",
    "3f81",
  ]);
});
