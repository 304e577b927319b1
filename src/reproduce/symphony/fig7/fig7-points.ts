/** Points on Table 1's workloads, and what is made of their peaks: for Figure 7 and for readings of its algorithm. */
import { pick, type Size } from "../../experiment.js";
import type { Choice, PeakPoint } from "../../point.js";
import { peaksOf, type Run, runOf } from "../workloads.js";
import { allCases, type Case, fieldsOf, nameOf, sampleCases } from "./fig7-cases.js";

/**
 * The paper's eager changes line 5 of Algorithm 1 and nothing else, so it drops heads as deferred does. Without that, giving
 * up only who cannot finish alone, eager does better in most cases: equal care takes the better of the two.
 */
export const EAGERS = [
  { policy: "eager", options: { drop: "window" } },
  { policy: "eager", options: { drop: "infeasible" } },
] as const;

export function workloadsOf(size: Size): { readonly cases: readonly Case[]; readonly run: Run } {
  const cases = pick(size, {
    tiny: () =>
      sampleCases(1, 1)
        .filter((one) => one.count <= 8)
        .slice(0, 3),
    small: () => sampleCases(1, 2),
    default: () => sampleCases(9, 6),
    full: allCases,
  })();
  const run = {
    ...runOf(size, { seconds: [2, 5, 5], seeds: [2, 2, 2] }),
    ...pick(size, { tiny: {}, small: { warmupS: 1 }, default: { warmupS: 1 } }),
  };
  return { cases, run };
}

/** A peak to 1.5 %, without interval. */
export function roughPoint(choice: Choice, one: Case, run: Run): PeakPoint {
  const system = { name: choice.policy, variants: [choice], isMain: false };
  return { ...peaksOf(system, nameOf(one), run, fieldsOf(one))[0]!, tolerance: 0.015, is_rough: true };
}

/** Where eager serves no rate at all a ratio of this stands for more. */
const RATIO_MAX = 10;

export function ratioOf(deferred: number, base: number): number {
  if (base > 0) return Math.min(RATIO_MAX, deferred / base);
  return deferred > 0 ? RATIO_MAX : 1;
}

/** Part of the cases, by weight, whose ratio is at least `bound`. */
export function partWith(each: readonly { readonly one: Case; readonly ratio: number }[], bound: number): number {
  let all = 0;
  let counted = 0;
  for (const { one, ratio } of each) {
    all += one.weight;
    if (ratio >= bound) counted += one.weight;
  }
  return all === 0 ? 0 : counted / all;
}

export const percent = (part: number): string => `${(part * 100).toFixed(1)} %`;
