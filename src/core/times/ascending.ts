/** Ascending columns of numbers: made from any, searched by bisection. */

/** @returns the values in ascending order, each once. Sorts in place. */
export function ascendingOf(values: Float64Array): Float64Array {
  values.sort();
  let count = 0;
  for (let index = 0; index < values.length; index++)
    if (count === 0 || values[index]! > values[count - 1]!) values[count++] = values[index]!;
  return values.subarray(0, count);
}

/** How many are below `value`. O(log n). */
export function countBelow(ascending: Float64Array, value: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
