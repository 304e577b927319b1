/** A report for people. The `--json` form is the report itself; this shows what a reader looks for first. */

import type { GoodputReport } from "../capacity/scenario-goodput.js";
import type { Answers, VariantUse } from "../measure/answers.js";
import type { AutoscaleReport, LatencyQuantiles, OutcomeNumbers, Report } from "../measure/report.js";
import { formatNumber, formatPercent, renderPairs, renderTable } from "./table.js";

const right = (title: string) => ({ title, align: "right" }) as const;

export function renderReport(name: string, report: Report): string {
  const seeds = report.seeds.length === 1 ? `seed ${report.seeds[0]}` : `${report.seeds.length} seeds`;
  const outcomes = outcomesOf(report, report.cancelled > 0)
    .map(([outcome, count]) => `${outcome} ${formatNumber(count)}`)
    .join(", ");
  const { batch_size: batch } = report;
  const sizes = (["mean", "p50", "p90", "max"] as const).map((key) => `${key} ${formatNumber(batch[key])}`);
  const wasted = `${formatPercent(report.invalid_rate)} of it on requests that did not finish`;
  const pairs: [string, string][] = [
    ["scenario", name],
    [
      "policy",
      `${report.policy}, ${seeds}, ${formatNumber(report.duration_s)} s (${formatNumber(report.warmup_s)} s not counted)`,
    ],
    ...renderBudgets(report.budgets),
    ["requests", `arrived ${formatNumber(report.arrived)}: ${outcomes}`],
    ["goodput", `${formatNumber(report.goodput_rps)} requests/s`],
    ["bad", formatPercent(report.bad_rate)],
    ["latency", renderQuantiles(report.latency_ms)],
    ["queueing", renderQuantiles(report.queue_delay_ms)],
    ["batch", sizes.join(", ")],
    ["utilization", `${formatPercent(report.utilization)}, ${wasted}`],
  ];
  if (report.utility !== undefined) {
    const { earned, offered } = report.utility;
    pairs.push(["utility", `${formatNumber(earned)} of ${formatNumber(offered)}`]);
  }
  if (report.answers !== undefined) pairs.push(["answers", renderAnswers(report.answers)]);
  if (report.by_variant !== undefined) pairs.push(["gamma", renderUses(report.by_variant)]);
  if (report.prediction !== undefined) {
    const { batches, within_90, below_90, above_90, mean_ratio } = report.prediction;
    const outside = `${formatPercent(below_90)} below, ${formatPercent(above_90)} above; mean ${formatNumber(mean_ratio)} of expected`;
    pairs.push(["prediction", `${formatPercent(within_90)} of ${batches} batches in the 90 % interval, ${outside}`]);
  }
  const reasons = renderCounts(report.drops_by_reason);
  if (reasons !== "") pairs.push(["dropped", reasons]);
  const causes = renderCounts(report.failures_by_cause);
  if (causes !== "") pairs.push(["failed", causes]);
  if (report.autoscale !== undefined) pairs.push(["accelerators", renderAutoscale(report.autoscale)]);
  if (report.profiler !== undefined) {
    const { runs, expired, share } = report.profiler;
    pairs.push([
      "profiler",
      `${formatNumber(runs)} runs alone, ${formatPercent(share)} of accelerator time; ${formatNumber(expired)} found no room`,
    ]);
  }
  const parts = [renderPairs(pairs)];
  const models = Object.entries(report.per_model);
  const modules = Object.entries(report.per_module);
  if (models.length > 1) parts.push(renderParts("model", models));
  if (modules.length > 0) parts.push(renderParts("module", modules));
  if (report.per_kind !== undefined) {
    const kinds = Object.entries(report.per_kind);
    parts.push(report.answers === undefined ? renderParts("app", kinds) : renderTasks(kinds));
  }
  return parts.join("\n\n");
}

/** Each request once: who was cancelled is not among the dropped. */
function outcomesOf({ finished, late, dropped, cancelled, failed }: OutcomeNumbers, withCancelled: boolean) {
  const outcomes: [string, number][] = [
    ["finished", finished],
    ["late", late],
    ["dropped", dropped - cancelled],
    ["failed", failed],
  ];
  return withCancelled ? [...outcomes, ["cancelled", cancelled] as const] : outcomes;
}

/** What modules' queues are told of the rest of their pipeline. */
function renderBudgets(budgets: Report["budgets"] = {}): [string, string][] {
  const words = Object.entries(budgets).map(([pipeline, budget]) => {
    const own = typeof budget === "string" ? {} : budget;
    const { rule = budget, ...options } = own;
    const rest = Object.entries(options).map(([key, value]) => `, ${key} ${value}`);
    return `${pipeline}: ${rule}${rest.join("")}`;
  });
  return words.length === 0 ? [] : [["budget", words.join("; ")]];
}

/** Of all that arrived and were not cancelled. */
function renderAnswers({ right, wrong, late, evicted, accuracy }: Answers): string {
  const part = (count: number): string => formatPercent(count / Math.max(1, right + wrong + late + evicted));
  const known = accuracy === null ? "none in time" : `accuracy ${formatPercent(accuracy)}`;
  return `${part(right)} right in time, ${part(wrong)} wrong, ${part(late)} late, ${part(evicted)} evicted; ${known}`;
}

function renderUses(uses: Readonly<Record<string, VariantUse>>): string {
  const total = Object.values(uses).reduce((all, { batches }) => all + batches, 0);
  return Object.entries(uses)
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([name, { batches }]) => `${name} ${formatPercent(batches / Math.max(1, total))}`)
    .join(", ");
}

function renderTasks(tasks: readonly (readonly [string, OutcomeNumbers])[]): string {
  const titles = ["arrived", "right", "wrong", "late", "evicted", "accuracy", "earned", "of", "p99 ms"];
  const rows = tasks.map(([name, { answers, arrived, latency_ms: latency, utility }]) => [
    name,
    formatNumber(arrived),
    ...(["right", "wrong", "late", "evicted"] as const).map((type) => formatNumber(answers![type])),
    answers!.accuracy === null ? "–" : formatPercent(answers!.accuracy),
    formatNumber(utility!.earned),
    formatNumber(utility!.offered),
    formatNumber(latency.p99),
  ]);
  return renderTable([{ title: "task" }, ...titles.map(right)], rows);
}

function renderAutoscale({ dry_run: isDry, accelerators_mean: there, ...rest }: AutoscaleReport): string {
  const advice = rest.decisions.map((decision) => decision.advice);
  const range =
    advice.length === 0
      ? "no decision"
      : `advice from ${Math.min(...advice)} to ${Math.max(...advice)}, ${advice.at(-1)} at the end`;
  const turns = `${rest.changes} changes, ${rest.changes_of_direction} of direction`;
  return `${formatNumber(there)} on average; ${range}; ${turns}${isDry ? " (dry run)" : ""}`;
}

/** The peak, the policies beside it, and the report at the peak. */
export function renderGoodput(name: string, report: GoodputReport): string {
  const models = Object.keys(report.per_model);
  const pairs: [string, string][] = [
    ["peak goodput", `${renderPeak(report)} requests/s, ${report.policy}`],
    ["limited by", `${models[report.worst_model] ?? "–"}, at ${formatPercent(report.bad_rate_max)} bad`],
    ["measured", `${report.seeds.length} seeds, ${formatNumber(report.runs)} runs${renderRarity(report)}`],
  ];
  if (report.bounds !== undefined) {
    const { fluid_rps, gathering_rps, gathering_low_rps, gathering_high_rps } = report.bounds;
    const { clairvoyant_any_rps, clairvoyant_in_order_rps } = report.bounds;
    const interval =
      gathering_low_rps === undefined || gathering_high_rps === undefined
        ? ""
        : `, 95 %: ${formatNumber(gathering_low_rps)} to ${formatNumber(gathering_high_rps)}`;
    const bounds: [string, number][] = [
      ["clairvoyant", clairvoyant_any_rps ?? Number.POSITIVE_INFINITY],
      [`gathering${interval}`, gathering_rps],
      ["fluid", fluid_rps],
    ];
    const known = bounds.filter(([, rps]) => Number.isFinite(rps)).sort(([, a], [, b]) => a - b);
    pairs.push(["no policy exceeds", known.map(([name, rps]) => `${formatNumber(rps)} (${name})`).join(", ")]);
    if (clairvoyant_in_order_rps !== undefined)
      pairs.push(["taking the earliest first", `${formatNumber(clairvoyant_in_order_rps)} (clairvoyant)`]);
  }
  const beside = report.beside ?? [];
  const parts = [renderPairs(pairs)];
  if (beside.length > 0) parts.push(renderComparison([report, ...beside]));
  parts.push(`At the peak:\n${renderReport(name, report)}`);
  return parts.join("\n\n");
}

/** Bad requests of fewer than this say little of a rate of 1 %. */
const BAD_EVENTS_MIN = 10;

function renderRarity({ bad_events_expected: events, bad_rate_max: bad }: GoodputReport): string {
  if (events === null || events >= BAD_EVENTS_MIN) return "";
  return `; few requests: ${formatPercent(bad)} of them are ${formatNumber(events)} (--duration, --seeds: more)`;
}

function renderPeak(report: GoodputReport): string {
  if (report.found === "below") return "0 (even the lowest rate tried has a model above the limit)";
  const bound = report.found === "above" ? "at least " : "";
  const cliff = report.is_cliff ? "; a cliff: just above it goodput falls" : "";
  return `${bound}${formatNumber(report.peak_goodput_rps)} (95 %: ${formatNumber(report.low_rps)} to ${formatNumber(report.high_rps)}${cliff})`;
}

function renderComparison(reports: readonly GoodputReport[]): string {
  const first = reports[0]!.peak_goodput_rps;
  const rows = reports.map((report) => [
    report.policy,
    formatNumber(report.peak_goodput_rps),
    `${formatNumber(report.low_rps)} to ${formatNumber(report.high_rps)}`,
    first > 0 ? `${(report.peak_goodput_rps / first).toFixed(3)}x` : "–",
    Object.entries(report.policy_options)
      .map(([key, value]) => `${key}=${value}`)
      .join(" "),
  ]);
  return renderTable([{ title: "policy" }, right("peak"), right("95 %"), right("ratio"), { title: "options" }], rows);
}

function renderQuantiles(ms: LatencyQuantiles): string {
  const parts = (["p50", "p90", "p99", "p999", "max"] as const).map((key) => `${key} ${formatNumber(ms[key])}`);
  return `${parts.join(", ")} ms`;
}

function renderCounts(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name} ${formatNumber(count)}`)
    .join(", ");
}

function renderParts(title: string, parts: readonly (readonly [string, OutcomeNumbers])[]): string {
  const withCancelled = parts.some(([, { cancelled }]) => cancelled > 0);
  const outcomes = outcomesOf(parts[0]![1], withCancelled).map(([outcome]) => outcome);
  const titles = ["arrived", ...outcomes, "bad", "requests/s", "p50 ms", "p99 ms", "batch"];
  const rows = parts.map(([name, part]) => [
    name,
    formatNumber(part.arrived),
    ...outcomesOf(part, withCancelled).map(([, count]) => formatNumber(count)),
    formatPercent(part.bad_rate),
    formatNumber(part.goodput_rps),
    formatNumber(part.latency_ms.p50),
    formatNumber(part.latency_ms.p99),
    formatNumber(part.batch_size.mean),
  ]);
  return renderTable([{ title }, ...titles.map(right)], rows);
}
