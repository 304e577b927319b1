/** What batches took against the distributions that they were expected to take. */

/** Ascending; the share of batches that took at most such a quantile of what was expected should be that number. */
export const PREDICTION_QUANTILES = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95] as const;

/** Numbers kept of each row: batches by the interval between quantiles, then the sum of ratios. */
export const PREDICTION_NUMBERS = PREDICTION_QUANTILES.length + 2;

export interface Prediction {
  /** Of queues that know distributions, which started in the counted interval. */
  readonly batches: number;
  /** Mean of taken over planned time. */
  readonly mean_ratio: number;
  /** Within the 5 % and the 95 % quantile of what was expected; below it; above. */
  readonly within_90: number;
  readonly below_90: number;
  readonly above_90: number;
  /** Quantile -> share of batches that took at most that. */
  readonly at_most: Readonly<Record<string, number>>;
}

export function observeQuantile(numbers: Float64Array, from: number, quantile: number, ratio: number): void {
  let interval = 0;
  while (interval < PREDICTION_QUANTILES.length && quantile > PREDICTION_QUANTILES[interval]!) interval++;
  numbers[from + interval]! += 1;
  numbers[from + PREDICTION_NUMBERS - 1]! += ratio;
}

/** Of some rows together. @returns null where there was no such batch. */
export function predictionOf(numbers: Float64Array, rows: readonly number[]): Prediction | null {
  const total = (index: number): number =>
    rows.reduce((sum, row) => sum + numbers[row * PREDICTION_NUMBERS + index]!, 0);
  const counts = Array.from({ length: PREDICTION_QUANTILES.length + 1 }, (_, interval) => total(interval));
  const batches = counts.reduce((sum, count) => sum + count, 0);
  if (batches === 0) return null;
  let below = 0;
  const atMost = PREDICTION_QUANTILES.map((quantile, interval) => {
    below += counts[interval]!;
    return [String(quantile), below / batches] as const;
  });
  return predictionAt(batches, total(PREDICTION_NUMBERS - 1) / batches, Object.fromEntries(atMost));
}

/** Of several runs. @returns null where none had any. */
export function joinPredictions(parts: readonly Prediction[]): Prediction | null {
  const batches = parts.reduce((sum, part) => sum + part.batches, 0);
  if (batches === 0) return null;
  const mean = (of: (part: Prediction) => number): number =>
    parts.reduce((sum, part) => sum + part.batches * of(part), 0) / batches;
  const atMost = PREDICTION_QUANTILES.map((quantile) => [String(quantile), mean((part) => part.at_most[quantile]!)]);
  return predictionAt(
    batches,
    mean((part) => part.mean_ratio),
    Object.fromEntries(atMost),
  );
}

/** @param atMost quantile -> share of batches that took at most that. */
export function predictionAt(batches: number, meanRatio: number, atMost: Record<string, number>): Prediction {
  const below = atMost["0.05"]!;
  const above = 1 - atMost["0.95"]!;
  return {
    batches,
    mean_ratio: meanRatio,
    within_90: 1 - below - above,
    below_90: below,
    above_90: above,
    at_most: atMost,
  };
}
