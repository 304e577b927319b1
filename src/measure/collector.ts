import { invariant } from "../core/invariant.js";
import { DROP_CANCELLED, DROP_REASONS, DROPPED, FAIL_CAUSES, FAILED, FINISHED, LATE } from "../core/outcome.js";
import { AnswerCounts, type AnswersSnapshot } from "./answers.js";
import { Histogram, type HistogramJson } from "./histogram.js";
import { observeQuantile, PREDICTION_NUMBERS, predictionOf } from "./prediction.js";
import type { BatchSizes, LatencyQuantiles, OutcomeNumbers, Report } from "./report.js";

export interface CollectorOptions {
  /** Names, in the order of the model numbers given to `end` and `batch`. */
  readonly models: readonly string[];
  /** Modules of pipelines, numbered on after the models: they are in no total. */
  readonly modules?: readonly string[];
  /** Apps of models, numbered on after the modules: they are in no total. */
  readonly kinds?: readonly string[];
  /** Requests are worth something of their own; see worth. */
  readonly weighs?: boolean;
  /** Names of the ways of running elastic models, where some are: answers are right or wrong; see `answered`. */
  readonly variants?: readonly string[];
  /** Requests are counted when they arrive in [warmupUs, endUs), moments of the run's clock. */
  readonly warmupUs: number;
  readonly endUs: number;
  /** How many accelerators utilization is a share of. */
  readonly accelerators: number;
  /** Names of the drop reason codes; default: the server's closed list. */
  readonly reasons?: readonly string[];
  /** Names of the failure cause codes; default: the server's closed list. */
  readonly causes?: readonly string[];
}

export interface ReportMeta {
  readonly policy: string;
  readonly seed?: number;
  /** Default: endUs, for runs whose clock starts at 0. */
  readonly durationS?: number;
  /** Default: warmupUs, for runs whose clock starts at 0. */
  readonly warmupS?: number;
}

/** All that a collector counted; plain data, so that it crosses threads and processes. */
export interface CollectorSnapshot {
  readonly counts: readonly number[];
  readonly latency: readonly HistogramJson[];
  readonly queueDelay: readonly HistogramJson[];
  readonly batchSize: readonly HistogramJson[];
  readonly busyUs: readonly number[];
  readonly invalidUs: readonly number[];
  readonly offered: readonly number[];
  readonly earned: readonly number[];
  readonly predictions: readonly number[];
  readonly acceleratorBusyUs: readonly number[];
  /** Where models are elastic. */
  readonly answers?: AnswersSnapshot;
}

/** Row of `#counts`: finished, late, then one column per reason, then one per cause. */
const COLUMN_LATE = 1;
const COLUMN_REASONS = 2;

/**
 * Counts how requests and batches end; the same numbers in the simulator, in the server and in the load generator.
 *
 * `end` and `batch` are on the hot path of the simulator: array writes only, nothing is allocated. Totals over models
 * are formed in `report`, which may be called at any time.
 */
export class OutcomeCollector {
  readonly #options: CollectorOptions;
  readonly #reasons: readonly string[];
  readonly #causes: readonly string[];
  readonly #warmupUs: number;
  readonly #endUs: number;
  readonly #columns: number;
  readonly #columnCauses: number;
  readonly #columnCancelled: number;
  readonly #counts: Float64Array;
  readonly #latency: Histogram[];
  readonly #queueDelay: Histogram[];
  readonly #batchSize: Histogram[];
  /** Per model, of the counted interval. */
  readonly #busyUs: Float64Array;
  readonly #invalidUs: Float64Array;
  /** What requests are worth, of all that arrived and of those that finished. */
  readonly #offered: Float64Array;
  readonly #earned: Float64Array;
  /** PREDICTION_NUMBERS a row. */
  readonly #predictions: Float64Array;
  /** The batch that was counted last; see batchOf. */
  readonly #lastBatch: Float64Array;
  /** Null: no model is elastic. */
  readonly #answers: AnswerCounts | null;
  /** Per accelerator, of the counted interval; grows when accelerators join. */
  #acceleratorBusyUs: Float64Array;

  constructor(options: CollectorOptions) {
    invariant(options.models.length > 0, "a collector needs at least one model");
    invariant(
      options.endUs > options.warmupUs,
      `the counted interval must not be empty: endUs ${options.endUs} must be > warmupUs ${options.warmupUs}`,
    );
    this.#options = options;
    this.#reasons = options.reasons ?? DROP_REASONS;
    this.#causes = options.causes ?? FAIL_CAUSES;
    this.#warmupUs = options.warmupUs;
    this.#endUs = options.endUs;
    this.#columnCauses = COLUMN_REASONS + this.#reasons.length;
    this.#columns = this.#columnCauses + this.#causes.length;
    this.#columnCancelled = COLUMN_REASONS + this.#reasons.indexOf(DROP_REASONS[DROP_CANCELLED]);
    invariant(this.#columnCancelled >= COLUMN_REASONS, "drop reasons must have 'cancelled': it is left out of rates");
    const names = [...options.models, ...(options.modules ?? []), ...(options.kinds ?? [])];
    this.#counts = new Float64Array(names.length * this.#columns);
    this.#latency = names.map(() => new Histogram());
    this.#queueDelay = names.map(() => new Histogram());
    this.#batchSize = names.map(() => new Histogram());
    this.#busyUs = new Float64Array(names.length);
    this.#invalidUs = new Float64Array(names.length);
    this.#offered = new Float64Array(names.length);
    this.#earned = new Float64Array(names.length);
    this.#predictions = new Float64Array(names.length * PREDICTION_NUMBERS);
    this.#lastBatch = new Float64Array(names.length);
    this.#answers = options.variants === undefined ? null : new AnswerCounts(names.length, options.variants);
    this.#acceleratorBusyUs = new Float64Array(Math.max(1, options.accelerators));
  }

  /**
   * A request ended. Call exactly once per request; those that arrived outside the counted interval are passed over.
   *
   * @param outcome       FINISHED, LATE, DROPPED or FAILED of core/outcome.ts.
   * @param reasonOrCause a drop reason's code when dropped, a failure cause's when failed; else ignored.
   * @param execStartAt   when its execution began; -1 if it was never executed.
   * @param endAt         when its execution ended (also if that was after its deadline).
   * @param askedAt       when the whole of which it is a part arrived: by that it is counted or not.
   */
  end(
    model: number,
    outcome: 0 | 1 | 2 | 3,
    reasonOrCause: number,
    arrivalAt: number,
    execStartAt: number,
    endAt: number,
    askedAt: number = arrivalAt,
  ): void {
    if (askedAt < this.#warmupUs || askedAt >= this.#endUs) return;
    const row = model * this.#columns;
    if (outcome === FINISHED) {
      this.#counts[row]! += 1;
      this.#latency[model]!.record(endAt - arrivalAt);
    } else if (outcome === LATE) {
      this.#counts[row + COLUMN_LATE]! += 1;
      this.#latency[model]!.record(endAt - arrivalAt);
    } else if (outcome === DROPPED) {
      this.#counts[row + COLUMN_REASONS + reasonOrCause]! += 1;
    } else if (outcome === FAILED) {
      this.#counts[row + this.#columnCauses + reasonOrCause]! += 1;
    }
    if (execStartAt >= 0) this.#queueDelay[model]!.record(execStartAt - arrivalAt);
  }

  /** Beside `end`, where requests are worth something of their own. @param isEarned it finished, and where answers may be wrong is right. */
  worth(row: number, weight: number, isEarned: boolean, arrivalAt: number): void {
    if (arrivalAt < this.#warmupUs || arrivalAt >= this.#endUs) return;
    this.#offered[row]! += weight;
    if (isEarned) this.#earned[row]! += weight;
  }

  /** Beside `end`, of a request of an elastic model that was executed. @param variant index of CollectorOptions.variants. @param isRight and in time. */
  answered(row: number, variant: number, isRight: boolean, arrivalAt: number): void {
    if (arrivalAt < this.#warmupUs || arrivalAt >= this.#endUs) return;
    this.#answers!.answered(row, variant, isRight);
  }

  /** Beside `batchOf`, of a batch of an elastic model. */
  variantOf(row: number, variant: number, startAt: number, batch: number): void {
    if (startAt >= this.#warmupUs && startAt < this.#endUs) this.#answers!.batchOf(row, variant, batch);
  }

  /**
   * A batch ended. Its time is counted as far as it lies in the counted interval, its size if it started there.
   *
   * @param invalidMembers members that ended late, failed or dropped: their part of the batch time was spent in vain.
   */
  batch(
    model: number,
    accelerator: number,
    size: number,
    startAt: number,
    endAt: number,
    invalidMembers: number,
  ): void {
    const busyUs = this.occupied(accelerator, startAt, endAt);
    this.#busyUs[model]! += busyUs;
    if (invalidMembers > 0) this.#invalidUs[model]! += (busyUs * invalidMembers) / size;
    if (startAt >= this.#warmupUs && startAt < this.#endUs) this.#batchSize[model]!.record(size);
  }

  /**
   * A batch of which more was expected than a time. @param quantile of what it was expected to take, that its time is.
   * @param ratio its time by its planned time.
   */
  predicted(row: number, quantile: number, ratio: number, startAt: number): void {
    if (startAt < this.#warmupUs || startAt >= this.#endUs) return;
    observeQuantile(this.#predictions, row * PREDICTION_NUMBERS, quantile, ratio);
  }

  // A batch whose members are judged one by one: `occupied` once, then `share` and `batchOf` for each of them.

  /** @returns how long of it lies in the counted interval. */
  occupied(accelerator: number, startAt: number, endAt: number): number {
    const busyUs = Math.min(endAt, this.#endUs) - Math.max(startAt, this.#warmupUs);
    if (busyUs <= 0) return 0;
    if (accelerator >= this.#acceleratorBusyUs.length) this.#growAccelerators(accelerator);
    this.#acceleratorBusyUs[accelerator]! += busyUs;
    return busyUs;
  }

  /** A member's part of the time of a batch. */
  share(row: number, us: number, isInvalid: boolean): void {
    this.#busyUs[row]! += us;
    if (isInvalid) this.invalidate(row, us);
  }

  /** Time that was counted was spent in vain: its request did not finish. */
  invalidate(row: number, us: number): void {
    this.#invalidUs[row]! += us;
  }

  /** A member of the row was in a batch of this size; counted once however many of its members were. @param batch > 0, another one for each batch. */
  batchOf(row: number, size: number, startAt: number, batch: number): void {
    if (this.#lastBatch[row] === batch) return;
    this.#lastBatch[row] = batch;
    if (startAt >= this.#warmupUs && startAt < this.#endUs) this.#batchSize[row]!.record(size);
  }

  /** Requests of one model counted so far. */
  arrived(model: number): number {
    const row = model * this.#columns;
    let arrived = 0;
    for (let column = 0; column < this.#columns; column++) arrived += this.#counts[row + column]!;
    return arrived;
  }

  /** 1 - finished / (arrived - cancelled) of one model; 0 when nothing arrived. Cheaper than a report, for searches. */
  badRate(model: number): number {
    const row = model * this.#columns;
    const arrived = this.arrived(model);
    const countable = arrived - this.#counts[row + this.#columnCancelled]!;
    return countable === 0 ? 0 : 1 - this.#counts[row]! / countable;
  }

  /** Busy time of one accelerator in the counted interval, as a share of it. */
  acceleratorUtilization(accelerator: number): number {
    return (this.#acceleratorBusyUs[accelerator] ?? 0) / (this.#endUs - this.#warmupUs);
  }

  /** The latencies (µs, finished and late) of one model, or of all. */
  latencies(model?: number): Histogram {
    return mergeAll(model === undefined ? this.#latency : [this.#latency[model]!]);
  }

  snapshot(): CollectorSnapshot {
    return {
      counts: [...this.#counts],
      latency: this.#latency.map((histogram) => histogram.toJSON()),
      queueDelay: this.#queueDelay.map((histogram) => histogram.toJSON()),
      batchSize: this.#batchSize.map((histogram) => histogram.toJSON()),
      busyUs: [...this.#busyUs],
      invalidUs: [...this.#invalidUs],
      offered: [...this.#offered],
      earned: [...this.#earned],
      predictions: [...this.#predictions],
      acceleratorBusyUs: [...this.#acceleratorBusyUs],
      ...(this.#answers === null ? {} : { answers: this.#answers.snapshot() }),
    };
  }

  /** Adds what a collector of the same options counted elsewhere. @throws InvariantViolation if its models differ in number. */
  merge(other: CollectorSnapshot): void {
    invariant(
      other.counts.length === this.#counts.length,
      `collectors of ${other.counts.length} and ${this.#counts.length} counts cannot be merged`,
    );
    if (other.acceleratorBusyUs.length > this.#acceleratorBusyUs.length)
      this.#growAccelerators(other.acceleratorBusyUs.length - 1);
    addTo(this.#counts, other.counts);
    addTo(this.#busyUs, other.busyUs);
    addTo(this.#invalidUs, other.invalidUs);
    addTo(this.#offered, other.offered);
    addTo(this.#earned, other.earned);
    addTo(this.#predictions, other.predictions);
    addTo(this.#acceleratorBusyUs, other.acceleratorBusyUs);
    if (other.answers !== undefined) this.#answers?.merge(other.answers);
    mergeInto(this.#latency, other.latency);
    mergeInto(this.#queueDelay, other.queueDelay);
    mergeInto(this.#batchSize, other.batchSize);
  }

  report(meta: ReportMeta): Report {
    const models = this.#options.models.map((_, model) => model);
    const perModel: Record<string, OutcomeNumbers> = {};
    for (const model of models) perModel[this.#options.models[model]!] = this.#numbers([model]);
    const { modules = [], kinds = [] } = this.#options;
    const rowsOf = (names: readonly string[], first: number): Record<string, OutcomeNumbers> =>
      Object.fromEntries(names.map((name, index) => [name, this.#numbers([first + index])]));
    return {
      policy: meta.policy,
      seeds: meta.seed === undefined ? [] : [meta.seed],
      duration_s: meta.durationS ?? this.#endUs / 1e6,
      warmup_s: meta.warmupS ?? this.#warmupUs / 1e6,
      ...this.#numbers(models),
      per_model: perModel,
      per_module: rowsOf(modules, models.length),
      ...(kinds.length === 0 ? {} : { per_kind: rowsOf(kinds, models.length + modules.length) }),
    };
  }

  /** The numbers of some models together. */
  #numbers(models: readonly number[]): OutcomeNumbers {
    const column = (index: number) => {
      let total = 0;
      for (const model of models) total += this.#counts[model * this.#columns + index]!;
      return total;
    };
    const named = (names: readonly string[], first: number) => {
      const counts: Record<string, number> = {};
      names.forEach((name, code) => {
        const count = column(first + code);
        if (count > 0) counts[name] = count;
      });
      return counts;
    };
    const total = (counts: Readonly<Record<string, number>>) =>
      Object.values(counts).reduce((all, count) => all + count, 0);
    const dropsByReason = named(this.#reasons, COLUMN_REASONS);
    const failuresByCause = named(this.#causes, this.#columnCauses);
    const finished = column(FINISHED);
    const late = column(COLUMN_LATE);
    const dropped = total(dropsByReason);
    const failed = total(failuresByCause);
    const arrived = finished + late + dropped + failed;
    const cancelled = column(this.#columnCancelled);
    const finishRate = arrived === cancelled ? 1 : finished / (arrived - cancelled);
    const busyUs = models.reduce((all, model) => all + this.#busyUs[model]!, 0);
    const invalidUs = models.reduce((all, model) => all + this.#invalidUs[model]!, 0);
    const intervalUs = this.#endUs - this.#warmupUs;
    const prediction = predictionOf(this.#predictions, models);
    return {
      arrived,
      finished,
      late,
      dropped,
      failed,
      cancelled,
      finish_rate: finishRate,
      bad_rate: 1 - finishRate,
      goodput_rps: (finished * 1e6) / intervalUs,
      invalid_rate: busyUs === 0 ? 0 : invalidUs / busyUs,
      utilization: this.#options.accelerators === 0 ? 0 : busyUs / (intervalUs * this.#options.accelerators),
      latency_ms: latencyQuantiles(mergeAll(models.map((model) => this.#latency[model]!))),
      queue_delay_ms: latencyQuantiles(mergeAll(models.map((model) => this.#queueDelay[model]!))),
      batch_size: batchSizes(mergeAll(models.map((model) => this.#batchSize[model]!))),
      drops_by_reason: dropsByReason,
      failures_by_cause: failuresByCause,
      ...(this.#options.weighs
        ? {
            utility: {
              offered: models.reduce((all, row) => all + this.#offered[row]!, 0),
              earned: models.reduce((all, row) => all + this.#earned[row]!, 0),
            },
          }
        : {}),
      ...(prediction === null ? {} : { prediction }),
      ...this.#answers?.report(models, { finished, late, evicted: dropped + failed - cancelled }),
    };
  }

  #growAccelerators(accelerator: number): void {
    const grown = new Float64Array(Math.max(accelerator + 1, this.#acceleratorBusyUs.length * 2));
    grown.set(this.#acceleratorBusyUs);
    this.#acceleratorBusyUs = grown;
  }
}

function addTo(sums: Float64Array, values: readonly number[]): void {
  values.forEach((value, index) => {
    sums[index]! += value;
  });
}

function mergeInto(histograms: readonly Histogram[], others: readonly HistogramJson[]): void {
  histograms.forEach((histogram, model) => {
    histogram.merge(Histogram.fromJSON(others[model]!));
  });
}

function mergeAll(histograms: readonly Histogram[]): Histogram {
  const merged = new Histogram();
  for (const histogram of histograms) merged.merge(histogram);
  return merged;
}

/** Quantiles of a histogram of microseconds, in milliseconds. */
export function latencyQuantiles(us: Histogram): LatencyQuantiles {
  const ms = (q: number) => {
    const value = us.quantile(q);
    return value === null ? null : value / 1000;
  };
  return { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), p999: ms(0.999), max: ms(1) };
}

function batchSizes(sizes: Histogram): BatchSizes {
  return { mean: sizes.mean, p50: sizes.quantile(0.5), p90: sizes.quantile(0.9), max: sizes.max };
}
