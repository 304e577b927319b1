/**
 * The batch size that dropping heads protects (Symphony's public code; the paper names the idea in §3.2).
 *
 * Largest b with l(b)(1 + 1/n) + b * d_data <= budget, where n = r * l(b) / b is the number of accelerators that this
 * model's rate r needs: in staggered execution (§3.3, Eq. 1) the worst queueing delay is l(b)/n. Where that n is at
 * most 1 (less than one accelerator) the wait is for requests, not accelerators: l(b) + b/r + b * d_data <= budget.
 * Before a rate is known: the largest batch whose time fits half the SLO.
 *
 * @param execUs l(b), see core/latency/latency.ts. @param budgetUs SLO less d_ctrl and the response delay.
 * @param ratePerUs arrivals per microsecond, NaN when unknown.
 */
export function targetSize(
  execUs: Float64Array,
  sloUs: number,
  budgetUs: number,
  dataUsPerRequest: number,
  ratePerUs: number,
): number {
  const sizeMax = execUs.length - 2;
  let size = 1;
  if (Number.isNaN(ratePerUs)) {
    while (size < sizeMax && execUs[size + 1]! <= sloUs / 2) size++;
    return size;
  }
  const fits = (b: number): boolean => {
    const accelerators = (ratePerUs * execUs[b]!) / b;
    return execUs[b]! * (1 + 1 / Math.max(1, accelerators)) + dataUsPerRequest * b <= budgetUs;
  };
  while (size < sizeMax && fits(size + 1)) size++;
  const needed = (ratePerUs * execUs[size]!) / size;
  if (needed > 1) return size;
  const fills = (b: number): boolean => execUs[b]! + b / ratePerUs + dataUsPerRequest * b <= budgetUs;
  size = 1;
  while (size < sizeMax && fills(size + 1)) size++;
  return size;
}

/** Smallest b in [1, sizeMax] with l(b) / b <= costUs; sizeMax when there is none. */
export function keepUpSize(execUs: Float64Array, sizeMax: number, costUs: number): number {
  let size = 1;
  while (size < sizeMax && execUs[size]! > costUs * size) size++;
  return size;
}

/**
 * Accelerator time per request, µs, in the largest batch that staggered execution (Symphony §3.3) sustains: l(b) (1 + 1/n) <= SLO.
 * @param accelerators n, each counted by its speed.
 */
export function staggeredCostUs(execUs: Float64Array, sizeMax: number, sloUs: number, accelerators: number): number {
  let size = 1;
  while (size < sizeMax && execUs[size + 1]! * (1 + 1 / accelerators) <= sloUs) size++;
  return execUs[size]! / size;
}
