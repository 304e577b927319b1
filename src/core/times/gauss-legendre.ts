import { invariant } from "../invariant.js";

/** Points in (0, 1) and weights that add up to 1. */
export interface QuadratureRule {
  readonly points: Float64Array;
  readonly weights: Float64Array;
}

const POINTS_MAX = 128;
const rules = new Map<number, QuadratureRule>();

/**
 * Gauss and Legendre's rule on [0, 1]: exact for polynomials up to the given degree; from degree 2 * 128 on with 128 points.
 * Made once for each number of points.
 */
export function gaussLegendre(degree: number): QuadratureRule {
  invariant(degree >= 0, `degree of a polynomial must be >= 0; was ${degree}`);
  const count = Math.min(POINTS_MAX, Math.floor(degree / 2) + 1);
  const known = rules.get(count);
  if (known !== undefined) return known;
  const rule = ruleOf(count);
  rules.set(count, rule);
  return rule;
}

/** Roots of the Legendre polynomial P_n by Newton's method; weights 1 / ((1 - z^2) P_n'(z)^2). */
function ruleOf(count: number): QuadratureRule {
  const points = new Float64Array(count);
  const weights = new Float64Array(count);
  for (let index = 0; index < count; index++) {
    let root = Math.cos((Math.PI * (index + 0.75)) / (count + 0.5));
    let slope = 1;
    for (let step = 0; step < 20; step++) {
      let value = 1;
      let before = 0;
      for (let degree = 0; degree < count; degree++) {
        const following = ((2 * degree + 1) * root * value - degree * before) / (degree + 1);
        before = value;
        value = following;
      }
      slope = (count * (root * value - before)) / (root * root - 1);
      const change = value / slope;
      root -= change;
      if (Math.abs(change) < 1e-15) break;
    }
    points[index] = (1 - root) / 2;
    weights[index] = 1 / ((1 - root * root) * slope * slope);
  }
  return { points, weights };
}
