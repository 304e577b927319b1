import type { OutcomeCollector } from "../measure/collector.js";
import { latencyQuantiles } from "../measure/collector.js";
import { Histogram } from "../measure/histogram.js";
import type { LatencyQuantiles, Report } from "../measure/report.js";
import type { LoadReason } from "./answer.js";
import { meanRate } from "./arrivals.js";
import { ErrorTexts } from "./error-texts.js";
import { type GeneratorResult, targetNames } from "./generator.js";
import type { LoadOptions } from "./load-options.js";
import type { Target } from "./target.js";

/** A report as seen from the client: latency from the intended send time to the whole answer. */
export interface LoadReport extends Report {
  readonly source: "client";
  readonly mode: "open" | "closed";
  /** The run says nothing about the server: see void_reason. */
  readonly void: boolean;
  /** Why, in sentences; null when valid. */
  readonly void_reason: string | null;
  readonly targets: readonly string[];
  /** Of the whole run; null in a closed loop. */
  readonly offered_rps: number | null;
  /** Requests sent, warm-up included. */
  readonly sent: number;
  /** Requests due that were never sent. */
  readonly unsent: number;
  /** By target name; null where there is none. */
  readonly slo_ms: Readonly<Record<string, number | null>>;
  /** Every target with an SLO finished at least 99 % in time; null when void or without SLOs. */
  readonly slo_met: boolean | null;
  /** Actual minus intended send time. */
  readonly lag_ms: LatencyQuantiles;
  /** Counted requests by HTTP status or gRPC status name, or by cause where there was none. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Counted requests by the reason the server gave. */
  readonly reasons: Readonly<Record<string, number>>;
  /** Counted requests by what was said of their failure: at most eight texts, the first that differ in more than numbers. */
  readonly errors: Readonly<Record<string, number>>;
  /** Processor time of the generator's process per second: near its number of threads, it is the bottleneck. */
  readonly generator_cores: number;
}

/** Of the SLO; a generator's own delay up to this part of what it judges is let pass. */
const LAG_SLO_PART = 0.1;
const LAG_FLOOR_MS = 5;
/** "Meets its SLO": at least this part finished in time (the field's p99). */
const FINISH_RATE_MIN = 0.99;

export interface LoadEvidence {
  readonly options: LoadOptions;
  readonly targets: readonly Target[];
  /** All threads' results merged. */
  readonly collector: OutcomeCollector;
  readonly results: readonly GeneratorResult[];
  readonly generatorCores: number;
  readonly isInterrupted: boolean;
}

export function makeLoadReport(evidence: LoadEvidence): LoadReport {
  const { options, targets, collector, results } = evidence;
  const { durationS, warmupS, seed, mode } = options;
  const report = collector.report({ policy: "client", seed, durationS, warmupS });
  const lag = new Histogram();
  for (const result of results) lag.merge(Histogram.fromJSON(result.lag));
  const names = targetNames(targets);
  const slos = names.map((name, number) => [name, targets[number]!.sloMs ?? options.sloMs] as const);
  const unsent = results.reduce((all, result) => all + result.unsent, 0);
  const reasons = [
    ...lossReasons(options, evidence.isInterrupted, report, unsent),
    ...(mode.kind === "open"
      ? lagReasons(
          lag,
          slos.map(([, sloMs]) => sloMs),
        )
      : []),
  ];
  const judged = slos.filter(([, sloMs]) => sloMs !== null);
  return {
    ...report,
    source: "client",
    mode: mode.kind,
    void: reasons.length > 0,
    void_reason: reasons.length > 0 ? reasons.join("; ") : null,
    targets: targets.map((target) => target.url),
    offered_rps: mode.kind === "open" ? meanRate(mode.steps, durationS) : null,
    sent: results.reduce((all, result) => all + result.sent, 0),
    unsent,
    slo_ms: Object.fromEntries(slos),
    slo_met:
      reasons.length > 0 || judged.length === 0
        ? null
        : judged.every(([name]) => report.per_model[name]!.finish_rate >= FINISH_RATE_MIN),
    lag_ms: latencyQuantiles(lag),
    statuses: addUp(results.map((result) => result.statuses)),
    reasons: addUp(results.map((result) => result.reasons)),
    errors: textsOf(results),
    generator_cores: evidence.generatorCores,
  };
}

/** p99 of actual minus intended send time above which a run is no measurement, ms. */
export function lagBoundMs(slosMs: readonly (number | null)[]): number {
  const tightestMs = Math.min(...slosMs.map((ms) => ms ?? Number.POSITIVE_INFINITY));
  return Number.isFinite(tightestMs) ? Math.max(LAG_FLOOR_MS, LAG_SLO_PART * tightestMs) : LAG_FLOOR_MS;
}

/** Why the generator's sending voids the run; empty when it does not. */
function lagReasons(lag: Histogram, slosMs: readonly (number | null)[]): string[] {
  const boundMs = lagBoundMs(slosMs);
  const lagMs = (lag.quantile(0.99) ?? 0) / 1000;
  if (lagMs <= boundMs) return [];
  return [
    `the generator could not keep up: p99 of actual minus intended send time was ${lagMs.toFixed(1)} ms, above ` +
      `${boundMs.toFixed(1)} ms; lower the rate or add --workers`,
  ];
}

/** Why else the run is no measurement of the server; empty when it is one. */
export function lossReasons(options: LoadOptions, isInterrupted: boolean, report: Report, unsent: number): string[] {
  const reasons: string[] = [];
  if (isInterrupted) reasons.push("it was interrupted");
  if (report.arrived === 0) reasons.push("no request was due after the warm-up");
  if (options.mode.kind === "open" && unsent > 0) reasons.push(`${unsent} requests that were due were never sent`);
  const full: LoadReason = "generator-outstanding-full";
  const notSent = report.drops_by_reason[full] ?? 0;
  if (notSent > 0)
    reasons.push(
      `${notSent} requests were not sent because ${options.outstandingMax} were under way (or no socket could be ` +
        "opened); raise --outstanding and the limit of open files",
    );
  return reasons;
}

function textsOf(results: readonly GeneratorResult[]): Record<string, number> {
  const texts = new ErrorTexts();
  for (const { errors } of results) for (const [text, count] of Object.entries(errors)) texts.add(text, count);
  return texts.toJSON();
}

function addUp(parts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const part of parts) {
    for (const [name, count] of Object.entries(part)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}
