/** A report for people. The `--json` form is the report itself; this shows what a reader looks for first. */
import { formatNumber, formatPercent, renderPairs, renderTable } from "./table.js";

export interface Percentiles {
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
  readonly p999: number | null;
  readonly max: number | null;
}

/** Of one model or module. */
export interface PartView {
  readonly arrived: number;
  readonly finished: number;
  readonly late: number;
  readonly dropped: number;
  readonly failed: number;
  readonly bad_rate: number;
  readonly goodput_rps: number;
  readonly latency_ms: Percentiles;
  readonly batch_size: { readonly mean: number | null };
}

/** The fields of the common report that are shown. */
export interface ReportView extends PartView {
  readonly policy: string;
  readonly seeds: readonly number[];
  readonly duration_s: number;
  readonly cancelled: number;
  readonly finish_rate: number;
  readonly invalid_rate: number;
  readonly utilization: number;
  readonly queue_delay_ms: Percentiles;
  readonly batch_size: {
    readonly mean: number | null;
    readonly p50: number | null;
    readonly p90: number | null;
    readonly max: number | null;
  };
  readonly drops_by_reason: Readonly<Record<string, number>>;
  readonly per_model: Readonly<Record<string, PartView>>;
}

export interface PeakGoodputView extends ReportView {
  readonly peak_goodput_rps: number;
  /** 95 % interval, where the search gives one. */
  readonly peak_goodput_ci95?: readonly [number, number];
}

export function renderReport(name: string, report: ReportView): string {
  const seeds = report.seeds.length === 1 ? `seed ${report.seeds[0]}` : `${report.seeds.length} seeds`;
  const outcomes = (["finished", "late", "dropped", "failed"] as const)
    .map((outcome) => `${outcome} ${formatNumber(report[outcome])}`)
    .join(", ");
  const { batch_size: batch } = report;
  const pairs: [string, string][] = [
    ["scenario", name],
    ["policy", `${report.policy}, ${seeds}, ${formatNumber(report.duration_s)} s`],
    ["requests", `arrived ${formatNumber(report.arrived)}: ${outcomes}`],
    ["goodput", `${formatNumber(report.goodput_rps)} requests/s`],
    ["bad", formatPercent(report.bad_rate)],
    ["latency", renderPercentiles(report.latency_ms)],
    ["queueing", renderPercentiles(report.queue_delay_ms)],
    [
      "batch",
      `mean ${formatNumber(batch.mean)}, p50 ${formatNumber(batch.p50)}, p90 ${formatNumber(batch.p90)}, max ${formatNumber(batch.max)}`,
    ],
    ["utilization", `${formatPercent(report.utilization)}, of it wasted ${formatPercent(report.invalid_rate)}`],
  ];
  const drops = Object.entries(report.drops_by_reason).filter(([, count]) => count > 0);
  if (drops.length > 0) {
    pairs.push(["dropped", drops.map(([reason, count]) => `${reason} ${formatNumber(count)}`).join(", ")]);
  }
  const text = renderPairs(pairs);
  const models = Object.entries(report.per_model);
  return models.length <= 1 ? text : `${text}\n\n${renderModels(models)}`;
}

export function renderPeakGoodput(name: string, peak: PeakGoodputView): string {
  const interval = peak.peak_goodput_ci95;
  const range = interval === undefined ? "" : ` (95 %: ${formatNumber(interval[0])} to ${formatNumber(interval[1])})`;
  const head = renderPairs([["peak goodput", `${formatNumber(peak.peak_goodput_rps)} requests/s${range}`]]);
  return `${head}\n\nAt that rate:\n${renderReport(name, peak)}`;
}

function renderPercentiles(ms: Percentiles): string {
  const parts = (["p50", "p90", "p99", "p999", "max"] as const).map((key) => `${key} ${formatNumber(ms[key])}`);
  return `${parts.join(", ")} ms`;
}

function renderModels(models: readonly (readonly [string, PartView])[]): string {
  const right = (title: string) => ({ title, align: "right" }) as const;
  const titles = ["arrived", "finished", "late", "dropped", "failed", "bad", "requests/s", "p50 ms", "p99 ms", "batch"];
  const rows = models.map(([name, part]) => [
    name,
    ...[part.arrived, part.finished, part.late, part.dropped, part.failed].map((count) => formatNumber(count)),
    formatPercent(part.bad_rate),
    formatNumber(part.goodput_rps),
    formatNumber(part.latency_ms.p50),
    formatNumber(part.latency_ms.p99),
    formatNumber(part.batch_size.mean),
  ]);
  return renderTable([{ title: "model" }, ...titles.map(right)], rows);
}
