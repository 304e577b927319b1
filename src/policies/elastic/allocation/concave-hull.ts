/**
 * The corners of the upper concave hull of nothing and the points (time, utility): ways to spend time of which mixtures are not better.
 *
 * @param timeUs ascending within [start, end). @param corners written: indices of the corners, by time; utility per µs added descends.
 * @returns how many.
 */
export function hullCorners(
  timeUs: Float64Array,
  utility: Float64Array,
  start: number,
  end: number,
  corners: Int32Array,
): number {
  let count = 0;
  for (let point = start; point < end; point++) {
    if (utility[point]! <= (count > 0 ? utility[corners[count - 1]!]! : 0)) continue;
    while (
      count > 0 &&
      hullSlope(timeUs, utility, corners, count - 1) <= slopeTo(timeUs, utility, corners, count, point)
    )
      count--;
    corners[count++] = point;
  }
  return count;
}

/** Utility per µs from the corner before (nothing, for the first) to this one. */
export const hullSlope = (timeUs: Float64Array, utility: Float64Array, corners: Int32Array, at: number): number =>
  slopeTo(timeUs, utility, corners, at, corners[at]!);

/** Time from the corner before to this one, µs. */
export const hullTimeUs = (timeUs: Float64Array, corners: Int32Array, at: number): number =>
  timeUs[corners[at]!]! - (at > 0 ? timeUs[corners[at - 1]!]! : 0);

const slopeTo = (
  timeUs: Float64Array,
  utility: Float64Array,
  corners: Int32Array,
  count: number,
  point: number,
): number => {
  if (count === 0) return utility[point]! / timeUs[point]!;
  const last = corners[count - 1]!;
  return (utility[point]! - utility[last]!) / (timeUs[point]! - timeUs[last]!);
};
