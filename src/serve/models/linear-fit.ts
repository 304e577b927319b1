/** l(b) = alpha b + beta through measured points, by relative error: 1 ms off at 2 ms counts as 10 ms off at 20 ms. */

export interface LinearFit {
  /** Per row, and per run: microseconds. beta may come out negative where time grows faster than the batch. */
  readonly alphaUs: number;
  readonly betaUs: number;
  /** Standard errors; null with fewer than 3 points, where they are not known. */
  readonly alphaSeUs: number | null;
  readonly betaSeUs: number | null;
  /** Share of the (weighted) variance explained; 1 with fewer than 3 points. */
  readonly r2: number;
}

/** Weighted least squares with weights 1/y^2. Points need distinct x; one point gives beta = 0. */
export function fitLine(points: readonly { readonly x: number; readonly y: number }[]): LinearFit {
  const first = points[0];
  if (first === undefined) return { alphaUs: 0, betaUs: 0, alphaSeUs: null, betaSeUs: null, r2: 1 };
  if (points.length === 1) return { alphaUs: first.y / first.x, betaUs: 0, alphaSeUs: null, betaSeUs: null, r2: 1 };
  let w = 0;
  let wx = 0;
  let wy = 0;
  for (const { x, y } of points) {
    const weight = 1 / (y * y);
    w += weight;
    wx += weight * x;
    wy += weight * y;
  }
  const meanX = wx / w;
  const meanY = wy / w;
  let sxx = 0;
  let sxy = 0;
  let syy = 0;
  for (const { x, y } of points) {
    const weight = 1 / (y * y);
    sxx += weight * (x - meanX) ** 2;
    sxy += weight * (x - meanX) * (y - meanY);
    syy += weight * (y - meanY) ** 2;
  }
  const alphaUs = sxy / sxx;
  const betaUs = meanY - alphaUs * meanX;
  const residual = points.reduce((sum, { x, y }) => sum + ((alphaUs * x + betaUs - y) / y) ** 2, 0);
  if (points.length === 2) return { alphaUs, betaUs, alphaSeUs: null, betaSeUs: null, r2: 1 };
  const variance = residual / (points.length - 2);
  return {
    alphaUs,
    betaUs,
    alphaSeUs: Math.sqrt(variance / sxx),
    betaSeUs: Math.sqrt(variance * (1 / w + meanX ** 2 / sxx)),
    r2: syy === 0 ? 1 : 1 - residual / syy,
  };
}
