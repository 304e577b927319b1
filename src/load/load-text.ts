/** The report of a load run for people. */
import type { Histogram } from "../measure/histogram.js";
import type { LatencyQuantiles } from "../measure/report.js";
import type { LoadReport } from "./load-report.js";

const BAR = 50;

export function loadReportText(report: LoadReport, latencies: Histogram): string {
  const lines: string[] = [];
  if (report.void) lines.push(`VOID: ${report.void_reason}.`, "These numbers say nothing about the server.", "");
  const countedS = report.duration_s - report.warmup_s;
  const offered = report.offered_rps === null ? "closed loop" : `offered ${rate(report.offered_rps)}`;
  lines.push(
    `${offered}, ${report.arrived} requests counted in ${countedS} s (after ${report.warmup_s} s of warm-up)`,
    `finished  ${amount(report.finished, report.arrived)}   goodput ${rate(report.goodput_rps)}`,
    `late      ${amount(report.late, report.arrived)}`,
    `dropped   ${amount(report.dropped, report.arrived)}${names(report.drops_by_reason)}`,
    `failed    ${amount(report.failed, report.arrived)}${names(report.failures_by_cause)}`,
    `latency   ${quantiles(report.latency_ms)}   (from the intended send time; finished and late)`,
    `lag       ${quantiles(report.lag_ms)}   (actual minus intended send time)`,
    `statuses ${names(report.statuses)}`,
    ...Object.entries(report.errors).map(([text, count]) => `  ${count} x ${text.replaceAll(/\s+/g, " ")}`),
  );
  const models = Object.entries(report.per_model);
  for (const [name, numbers] of models) {
    const sloMs = report.slo_ms[name] ?? null;
    const verdict =
      sloMs === null ? "no SLO" : `SLO ${sloMs} ms ${numbers.finish_rate >= 0.99 ? "met" : "MISSED"} (99 % in time)`;
    lines.push(`${name}: ${verdict}, in time ${percent(numbers.finish_rate)}, ${quantiles(numbers.latency_ms)}`);
  }
  if (latencies.count > 0) lines.push("", ...histogramLines(latencies));
  return `${lines.join("\n")}\n`;
}

/** Bars over doubling edges from the largest power of two of 0.1 ms not above the minimum. */
export function histogramLines(latencies: Histogram): string[] {
  let edgeUs = 100;
  while (edgeUs * 2 <= latencies.min!) edgeUs *= 2;
  const rows: { readonly label: string; readonly count: number }[] = [];
  let before = 0;
  for (; before < latencies.count; edgeUs *= 2) {
    const upTo = latencies.countAtMost(edgeUs * 2 - 1);
    rows.push({ label: `${milliseconds(edgeUs)} - ${milliseconds(edgeUs * 2)} ms`, count: upTo - before });
    before = upTo;
  }
  const most = Math.max(...rows.map((row) => row.count));
  const width = Math.max(...rows.map((row) => row.label.length));
  return rows.map(({ label, count }) => {
    const bar = "#".repeat(Math.ceil((count / most) * BAR));
    return `${label.padStart(width)} |${bar.padEnd(BAR)}| ${count}`;
  });
}

const rate = (rps: number) => `${rps.toFixed(1)} r/s`;
const percent = (part: number) => `${(part * 100).toFixed(2)} %`;
const milliseconds = (us: number) => String(us / 1000);
const amount = (count: number, of: number) =>
  `${String(count).padStart(8)} ${percent(of === 0 ? 0 : count / of).padStart(9)}`;
const ms = (value: number | null) => (value === null ? "-" : value.toFixed(value < 10 ? 2 : 1));

function quantiles(q: LatencyQuantiles): string {
  return `p50 ${ms(q.p50)}  p90 ${ms(q.p90)}  p99 ${ms(q.p99)}  p99.9 ${ms(q.p999)}  max ${ms(q.max)} ms`;
}

function names(counts: Readonly<Record<string, number>>): string {
  const entries = Object.entries(counts);
  return entries.length === 0 ? "" : `   ${entries.map(([name, count]) => `${name} ${count}`).join(", ")}`;
}
