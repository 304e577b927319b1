/** Compared cases as rows of `rubato bench`, and as a figure. */
import { median } from "../../measure/statistics.js";
import type { Figure, LineRow } from "../../reproduce/figure.js";
import type { BenchResult } from "../bench-result.js";
import { type Comparison, GAIN, LEAST, noiseOf, type Verdict } from "./comparison.js";
import { type CasePlan, digestOf, type MeasuredCase } from "./kept-cases.js";
import type { LiveSetting } from "./live-cases.js";

export interface ComparedCase {
  readonly setting: LiveSetting;
  readonly plan: CasePlan;
  readonly measured: MeasuredCase;
  readonly comparison: Comparison;
}

const VERDICTS: readonly Verdict[] = ["held", "noise", "missed", "bounded", "void"];
const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;

export function caseResult({ plan, measured, comparison }: ComparedCase): BenchResult {
  const { inTime, ratio, best, timeout, pairs, least, gain, mostRatio, voids } = comparison;
  const parts = [
    `in time ${percent(inTime.own)}, eager ${percent(inTime.eager)}, ${timeout} ${percent(inTime.timeout)}`,
    `[${ratio.low.toFixed(3)}, ${ratio.high.toFixed(3)}] of ${best} over ${pairs} pairs at ${measured.offered_rps.toFixed(0)} r/s`,
    `${LEAST}: ${least}`,
    ...(gain === null ? [] : [`${GAIN}: ${gain}`]),
    ...(gain === "bounded" ? [`no schedule above ${mostRatio!.toFixed(3)}`] : []),
    ...voids.map((reason) => `void: ${reason}`),
  ];
  return {
    name: `${plan.setting} at ${plan.load}`,
    value: ratio.median,
    unit: "of the best",
    detail: parts.join("; "),
    digest: digestOf(plan),
    figures: {
      load: plan.load,
      offered_rps: measured.offered_rps,
      beta_over_alpha: measured.beta_over_alpha,
      pairs,
      in_time: inTime.own,
      eager_in_time: inTime.eager,
      timeout_in_time: inTime.timeout,
      ratio_low: ratio.low,
      ratio_high: ratio.high,
      ...(mostRatio === null ? {} : { ratio_most: mostRatio }),
    },
  };
}

export function summaryResults(cases: readonly ComparedCase[]): BenchResult[] {
  const comparisons = cases.map(({ comparison }) => comparison);
  const digest = digestOf(cases[0]!.plan);
  const valid = cases.filter(({ comparison }) => comparison.pairs > 0);
  const worst = valid.reduce<ComparedCase | null>(
    (low, each) => (low === null || each.comparison.ratio.median < low.comparison.ratio.median ? each : low),
    null,
  );
  const ratios = valid.map(({ comparison }) => comparison.ratio.median);
  const nameOf = ({ plan }: ComparedCase) => `${plan.setting} at ${plan.load}`;
  const summary = (name: string, verdicts: readonly Verdict[], detail: string): BenchResult => {
    const counts = VERDICTS.map((verdict) => [verdict, verdicts.filter((each) => each === verdict).length] as const);
    const text = counts.filter(([, count]) => count > 0).map(([verdict, count]) => `${verdict} ${count}`);
    const value = counts[0]![1] / Math.max(1, verdicts.length);
    const figures = Object.fromEntries(counts.map(([verdict, count]) => [verdict, count]));
    return {
      name,
      value,
      unit: "of the cases held",
      detail: `${text.join(", ")} of ${verdicts.length}${detail}`,
      digest,
      figures,
    };
  };
  const extremes =
    worst === null
      ? ""
      : `; least ${worst.comparison.ratio.median.toFixed(3)} (${nameOf(worst)}), median ${median(ratios).toFixed(3)}, most ${Math.max(...ratios).toFixed(3)}`;
  const results = [
    summary(
      `default-live at least ${LEAST}`,
      comparisons.map(({ least }) => least),
      extremes,
    ),
    summary(
      `default-live at least ${GAIN}`,
      comparisons.flatMap(({ gain }) => gain ?? []),
      " where batching pays, at capacity and past it",
    ),
  ];
  const noise = noiseOf(comparisons);
  if (noise === null) return results;
  const detail = `eager against eager in ${noise.pairs} pairs: mean ${noise.mean.toFixed(4)}; what one pair cannot tell`;
  return [...results, { name: "default-live noise", value: noise.sd, unit: "sd of a ratio", detail, digest }];
}

const familyOf = ({ setting }: ComparedCase): string =>
  setting.kind === "real" ? "real models" : `beta/alpha ${setting.betaOverAlpha}`;

/** At each load the least, the median and the most of a family's cases. */
export function comparedFigure(cases: readonly ComparedCase[]): Figure {
  const families = [...new Set(cases.map(familyOf))];
  const rows: LineRow[] = families.flatMap((series) => {
    const own = cases.filter((each) => familyOf(each) === series && each.comparison.pairs > 0);
    return [...new Set(own.map(({ plan }) => plan.load))]
      .sort((a, b) => a - b)
      .map((x) => {
        const ratios = own.filter(({ plan }) => plan.load === x).map(({ comparison }) => comparison.ratio.median);
        return { x, y: median(ratios), low: Math.min(...ratios), high: Math.max(...ratios), series };
      });
  });
  return {
    id: "default-live",
    title: "The live default against the best of eager and a timeout",
    caption:
      "Requests in time relative to the better of eager and a timeout tuned for each case, paired runs on the same arrivals. Line: median of the cases; bars: from the least to the most.",
    kind: "lines",
    x: { title: "offered load", unit: "of the capacity" },
    y: { title: "in time", unit: "of the best" },
    series: families.map((name) => ({ name })),
    rows,
  };
}
