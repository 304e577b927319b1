/** Quantiles of a handful of measured run times. */
export interface Timing {
  readonly p50Us: number;
  readonly p90Us: number;
  readonly p99Us: number;
  readonly runs: number;
}

/** Nearest-rank quantiles; the list must not be empty. */
export function timingOf(times: readonly number[]): Timing {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (q: number): number => sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)]!;
  return { p50Us: at(0.5), p90Us: at(0.9), p99Us: at(0.99), runs: sorted.length };
}
