import { invariant } from "../core/invariant.js";
import { DROP_REASONS, FAIL_CAUSES } from "../core/outcome.js";
import { type Answers, joinAnswers, joinUses, type VariantUse } from "./answers.js";
import { joinPredictions, type Prediction } from "./prediction.js";
import { mean, standardDeviation } from "./statistics.js";

/** Quantiles of a duration in milliseconds; null when nothing was measured. */
export interface LatencyQuantiles {
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
  readonly p999: number | null;
  readonly max: number | null;
}

/** Over batches (not requests) that started in the counted interval; null when there were none. */
export interface BatchSizes {
  readonly mean: number | null;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly max: number | null;
}

/** The numbers of all requests, of one model or of one module. */
export interface OutcomeNumbers {
  /** Requests counted: arrived in [warmup, duration). = finished + late + dropped + failed. */
  readonly arrived: number;
  readonly finished: number;
  readonly late: number;
  /** Includes the cancelled. */
  readonly dropped: number;
  readonly failed: number;
  /** Of the dropped, those whose client went away. In no rate. */
  readonly cancelled: number;
  /** finished / (arrived - cancelled); 1 when nothing arrived. */
  readonly finish_rate: number;
  /** 1 - finish_rate. */
  readonly bad_rate: number;
  /** finished per second of the counted interval. */
  readonly goodput_rps: number;
  /** Accelerator time spent on members that did not finish, of all accelerator time spent. */
  readonly invalid_rate: number;
  /** Accelerator time spent, of accelerators x counted interval. A model's is its part of the whole. */
  readonly utilization: number;
  /** From arrival to end, over finished and late. */
  readonly latency_ms: LatencyQuantiles;
  /** From arrival to the start of execution, over all that were executed. */
  readonly queue_delay_ms: LatencyQuantiles;
  readonly batch_size: BatchSizes;
  /** Reasons that occurred. */
  readonly drops_by_reason: Readonly<Record<string, number>>;
  /** Causes that occurred. */
  readonly failures_by_cause: Readonly<Record<string, number>>;
  /** What requests are worth that arrived, and those of them that finished. Where an app of the scenario says what it is worth. */
  readonly utility?: Utility;
  /** What batches took against what they were expected to. Where the policy knows distributions. */
  readonly prediction?: Prediction;
  /** The four types of OTAS §V. Where models are elastic. */
  readonly answers?: Answers;
  /** How much work was chosen, by gamma or model of a family. Where models are elastic. */
  readonly by_variant?: Readonly<Record<string, VariantUse>>;
}

export interface Utility {
  readonly offered: number;
  readonly earned: number;
}

export interface SeedStatistics {
  readonly mean: number;
  /** Sample standard deviation over the seeds. */
  readonly sd: number;
}

/** One decision of the autoscaler; scaling/advisor.ts says what the words mean. */
export interface AutoscaleDecision {
  readonly at_s: number;
  /** Accelerators that took batches at that moment; asked for and not there yet; from now on only ending the batches they hold. */
  readonly accelerators: number;
  readonly starting: number;
  readonly draining: number;
  /** Needed for the load of the interval; there should be from now on; the difference to before. */
  readonly needed: number;
  readonly advice: number;
  readonly change: number;
  readonly reason: string;
  readonly bad_rate: number;
  readonly idle_fraction: number;
  /** The load, and what waits against its deadline, in busy accelerators. */
  readonly demand: number;
  readonly queued: number;
}

export interface AutoscaleReport {
  readonly dry_run: boolean;
  readonly interval_s: number;
  /** Accelerators that took batches, averaged over the run. */
  readonly accelerators_mean: number;
  readonly changes: number;
  /** Changes that go the other way than the one before. */
  readonly changes_of_direction: number;
  readonly decisions: readonly AutoscaleDecision[];
}

/** The online profiler of a run. Nothing of it is counted elsewhere. */
export interface ProfilerReport {
  /** Requests run again alone, of all and by model/app. */
  readonly runs: number;
  readonly runs_by_app: Readonly<Record<string, number>>;
  /** No accelerator had room for them in time; or the one that ran them was lost. */
  readonly expired: number;
  readonly failed: number;
  /** Part of the accelerators' time that they took. */
  readonly share: number;
}

/** What `simulate`, `goodput` and `load` print: one shape. */
export interface Report extends OutcomeNumbers {
  readonly policy: string;
  readonly seeds: readonly number[];
  /** Of one run, warm-up included. */
  readonly duration_s: number;
  readonly warmup_s: number;
  readonly per_model: Readonly<Record<string, OutcomeNumbers>>;
  readonly per_module: Readonly<Record<string, OutcomeNumbers>>;
  /** By pipeline, as a scenario would say it: a rule, or a rule with options. Of simulated runs with pipelines. */
  readonly budgets?: Readonly<Record<string, string | Readonly<Record<string, unknown>>>>;
  /** By model/app, where models of the scenario have apps. */
  readonly per_kind?: Readonly<Record<string, OutcomeNumbers>>;
  /** Of one run with a scenario's `autoscale`. */
  readonly autoscale?: AutoscaleReport;
  /** Of one run in which there is one. */
  readonly profiler?: ProfilerReport;
  /** Over several seeds: number (dotted where nested, `latency_ms.p99`) -> mean and sd. */
  readonly stats?: Readonly<Record<string, SeedStatistics>>;
}

/** The bad rate of the model that does worst: what peak goodput bounds. */
export function worstModelBadRate(report: Report): number {
  const rates = Object.values(report.per_model).map((model) => model.bad_rate);
  return rates.length === 0 ? report.bad_rate : Math.max(...rates);
}

/**
 * Every request ended exactly once, and the parts add up.
 *
 * @returns what does not add up, one sentence each; empty when all is well.
 */
export function conservation(report: Report): string[] {
  const problems: string[] = [];
  const check = (where: string, numbers: OutcomeNumbers) => {
    const ended = numbers.finished + numbers.late + numbers.dropped + numbers.failed;
    if (ended !== numbers.arrived) problems.push(`${where}: arrived ${numbers.arrived}, ended ${ended}`);
    const drops = sum(Object.values(numbers.drops_by_reason));
    if (drops !== numbers.dropped) problems.push(`${where}: dropped ${numbers.dropped}, by reason ${drops}`);
    const failures = sum(Object.values(numbers.failures_by_cause));
    if (failures !== numbers.failed) problems.push(`${where}: failed ${numbers.failed}, by cause ${failures}`);
    const cancelled = numbers.drops_by_reason.cancelled ?? 0;
    if (cancelled !== numbers.cancelled)
      problems.push(`${where}: cancelled ${numbers.cancelled}, by reason ${cancelled}`);
  };
  check("all models", report);
  for (const [name, numbers] of Object.entries(report.per_model)) check(`model ${name}`, numbers);
  for (const [name, numbers] of Object.entries(report.per_module)) check(`module ${name}`, numbers);
  for (const [name, numbers] of Object.entries(report.per_kind ?? {})) check(`app ${name}`, numbers);
  const models = Object.values(report.per_model);
  if (models.length > 0) {
    for (const field of COUNTS) {
      const added = sum(models.map((model) => model[field]));
      if (added !== report[field]) problems.push(`${field}: all models ${report[field]}, sum over models ${added}`);
    }
  }
  return problems;
}

/**
 * Several seeds of one scenario as one report.
 *
 * Counts are sums over the seeds; rates are of those sums; goodput, utilization, batch sizes and quantiles are means
 * over the seeds (quantiles of different runs cannot be pooled from their values), `max` the largest. `stats` has the
 * mean and standard deviation over seeds of every number.
 */
export function combineReports(reports: readonly Report[]): Report {
  const first = reports[0];
  invariant(first !== undefined, "no reports to combine");
  if (reports.length === 1) return first;
  for (const report of reports) {
    invariant(
      report.policy === first.policy && report.duration_s === first.duration_s && report.warmup_s === first.warmup_s,
      `reports of different runs: ${first.policy} for ${first.duration_s} s and ${report.policy} for ${report.duration_s} s`,
    );
  }
  return {
    policy: first.policy,
    seeds: reports.flatMap((report) => report.seeds),
    duration_s: first.duration_s,
    warmup_s: first.warmup_s,
    ...combineNumbers(reports),
    per_model: combineGroups(reports.map((report) => report.per_model)),
    per_module: combineGroups(reports.map((report) => report.per_module)),
    ...(first.budgets === undefined ? {} : { budgets: first.budgets }),
    ...(first.per_kind === undefined
      ? {}
      : { per_kind: combineGroups(reports.map((report) => report.per_kind ?? {})) }),
    stats: seedStatistics(reports),
  };
}

const COUNTS = ["arrived", "finished", "late", "dropped", "failed", "cancelled"] as const;
const RATES = ["finish_rate", "bad_rate", "goodput_rps", "invalid_rate", "utilization"] as const;
const GROUPS = ["latency_ms", "queue_delay_ms", "batch_size"] as const;

function combineGroups(groups: readonly Readonly<Record<string, OutcomeNumbers>>[]): Record<string, OutcomeNumbers> {
  const names = new Set(groups.flatMap((group) => Object.keys(group)));
  const combined: Record<string, OutcomeNumbers> = {};
  for (const name of names) {
    combined[name] = combineNumbers(groups.map((group) => group[name]).filter((numbers) => numbers !== undefined));
  }
  return combined;
}

function combineNumbers(runs: readonly OutcomeNumbers[]): OutcomeNumbers {
  const total = (field: (typeof COUNTS)[number]) => sum(runs.map((run) => run[field]));
  const average = (field: (typeof RATES)[number]) => mean(runs.map((run) => run[field]));
  const latencies = (field: "latency_ms" | "queue_delay_ms"): LatencyQuantiles => ({
    p50: meanOfMeasured(runs.map((run) => run[field].p50)),
    p90: meanOfMeasured(runs.map((run) => run[field].p90)),
    p99: meanOfMeasured(runs.map((run) => run[field].p99)),
    p999: meanOfMeasured(runs.map((run) => run[field].p999)),
    max: maxOfMeasured(runs.map((run) => run[field].max)),
  });
  const countable = total("arrived") - total("cancelled");
  const finishRate = countable === 0 ? 1 : total("finished") / countable;
  const prediction = joinPredictions(runs.flatMap((run) => run.prediction ?? []));
  return {
    arrived: total("arrived"),
    finished: total("finished"),
    late: total("late"),
    dropped: total("dropped"),
    failed: total("failed"),
    cancelled: total("cancelled"),
    finish_rate: finishRate,
    bad_rate: 1 - finishRate,
    goodput_rps: average("goodput_rps"),
    invalid_rate: average("invalid_rate"),
    utilization: average("utilization"),
    latency_ms: latencies("latency_ms"),
    queue_delay_ms: latencies("queue_delay_ms"),
    batch_size: {
      mean: meanOfMeasured(runs.map((run) => run.batch_size.mean)),
      p50: meanOfMeasured(runs.map((run) => run.batch_size.p50)),
      p90: meanOfMeasured(runs.map((run) => run.batch_size.p90)),
      max: maxOfMeasured(runs.map((run) => run.batch_size.max)),
    },
    drops_by_reason: addUp(
      DROP_REASONS,
      runs.map((run) => run.drops_by_reason),
    ),
    failures_by_cause: addUp(
      FAIL_CAUSES,
      runs.map((run) => run.failures_by_cause),
    ),
    ...(runs[0]?.utility === undefined
      ? {}
      : {
          utility: {
            offered: sum(runs.map((run) => run.utility?.offered ?? 0)),
            earned: sum(runs.map((run) => run.utility?.earned ?? 0)),
          },
        }),
    ...(prediction === null ? {} : { prediction }),
    ...(runs[0]?.answers === undefined
      ? {}
      : {
          answers: joinAnswers(runs.flatMap((run) => run.answers ?? [])),
          by_variant: joinUses(runs.flatMap((run) => (run.by_variant === undefined ? [] : [run.by_variant]))),
        }),
  };
}

function seedStatistics(reports: readonly Report[]): Record<string, SeedStatistics> {
  const stats: Record<string, SeedStatistics> = {};
  const put = (name: string, values: readonly (number | null)[]) => {
    const measured = values.filter((value) => value !== null);
    if (measured.length > 0) stats[name] = { mean: mean(measured), sd: standardDeviation(measured) };
  };
  for (const field of [...COUNTS, ...RATES])
    put(
      field,
      reports.map((report) => report[field]),
    );
  for (const group of GROUPS) {
    for (const field of Object.keys(reports[0]![group])) {
      put(
        `${group}.${field}`,
        reports.map((report) => (report[group] as unknown as Record<string, number | null>)[field] ?? null),
      );
    }
  }
  for (const group of ["drops_by_reason", "failures_by_cause"] as const) {
    const names = new Set(reports.flatMap((report) => Object.keys(report[group])));
    for (const name of names)
      put(
        `${group}.${name}`,
        reports.map((report) => report[group][name] ?? 0),
      );
  }
  return stats;
}

/** Sums by name, known names first in their order; names that never occurred are left out. */
function addUp(known: readonly string[], parts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const names = new Set([...known, ...parts.flatMap((part) => Object.keys(part))]);
  const sums: Record<string, number> = {};
  for (const name of names) {
    const total = sum(parts.map((part) => part[name] ?? 0));
    if (total > 0) sums[name] = total;
  }
  return sums;
}

function meanOfMeasured(values: readonly (number | null)[]): number | null {
  const measured = values.filter((value) => value !== null);
  return measured.length === 0 ? null : mean(measured);
}

function maxOfMeasured(values: readonly (number | null)[]): number | null {
  const measured = values.filter((value) => value !== null);
  return measured.length === 0 ? null : Math.max(...measured);
}

function sum(values: readonly number[]): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
