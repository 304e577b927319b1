import { invariant } from "../core/invariant.js";

/** An estimate with its 95 % confidence interval. */
export interface Interval {
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

export function mean(values: readonly number[]): number {
  invariant(values.length > 0, "the mean of no values is undefined");
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}

/** The middle one, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  invariant(values.length > 0, "the median of no values is undefined");
  const sorted = [...values].sort((a, b) => a - b);
  const at = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[at]! : (sorted[at - 1]! + sorted[at]!) / 2;
}

/** Sample standard deviation (n - 1); 0 for one value. Two passes: rates are near each other, sums of squares cancel. */
export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const center = mean(values);
  let squares = 0;
  for (const value of values) squares += (value - center) ** 2;
  return Math.sqrt(squares / (values.length - 1));
}

/** Mean of independent, roughly normal values with Student's 95 % interval; one value has the interval (-inf, inf). */
export function tInterval95(values: readonly number[]): Interval {
  const center = mean(values);
  if (values.length === 1) return { mean: center, low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY };
  const half = (studentT975(values.length - 1) * standardDeviation(values)) / Math.sqrt(values.length);
  return { mean: center, low: center - half, high: center + half };
}

// Student's t, 0.975 quantile, 1 to 30 degrees of freedom (any statistics textbook's table).
const T_975 = [
  12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281, 2.201, 2.1788, 2.1604, 2.1448, 2.1314,
  2.1199, 2.1098, 2.1009, 2.093, 2.086, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
] as const;

/**
 * The 0.975 quantile of Student's t.
 *
 * @param degrees of freedom, >= 1. Beyond the table: Cornish and Fisher's expansion in 1/degrees, right to 1e-4.
 */
export function studentT975(degrees: number): number {
  invariant(
    Number.isInteger(degrees) && degrees >= 1,
    `degrees of freedom must be a whole number >= 1; was ${degrees}`,
  );
  const tabled = T_975[degrees - 1];
  if (tabled !== undefined) return tabled;
  const z = 1.959964;
  return z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2);
}
