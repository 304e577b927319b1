import type { BoardRow } from "./board.js";

/** What a module published from a column on: quantiles of equal parts, the least first. */
export function quantilesAt(row: BoardRow, column: number, count: number): Float64Array {
  return Float64Array.from({ length: count }, (_, index) => row.value(column + index));
}

/** Linear between quantiles of equal parts. @param part in [0, 1). */
export function quantile(quantiles: Float64Array, part: number): number {
  const place = part * (quantiles.length - 1);
  const step = Math.floor(place);
  return quantiles[step]! + (place - step) * (quantiles[step + 1]! - quantiles[step]!);
}
