/** Every metric of the server. docs/metrics.md lists them in the same order; a test keeps the two together. */
import { CLOSE_REASONS, DROP_REASONS } from "../../core/outcome.js";
import { PREDICTION_QUANTILES } from "../../measure/prediction.js";
import { SCALE_REASONS, type ScaleAdvice } from "../../scaling/advisor.js";
import { SERVED_CAUSES } from "../endings.js";
import type { MetricsFormat } from "../gateway.js";
import type { GroupScaling } from "../group-scaling.js";
import { type ElasticCells, ElasticMetrics } from "./elastic-metrics.js";
import { PipelineMetrics } from "./pipeline-metrics.js";
import { PlacementMetrics } from "./placement-metrics.js";
import { ProfilerMetrics } from "./profiler-metrics.js";
import {
  type CounterCell,
  CounterFamily,
  GaugeFamily,
  type HistogramCell,
  HistogramFamily,
  metricsText,
  Registry,
} from "./typed-metrics.js";

/** 100 µs to 100 s, three steps to each doubling of two: good for services of a millisecond and of ten seconds. */
const SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15,
  0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 100,
];
const SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024];
const RATIOS = [0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10];
const DELAYS = [
  0.00005, 0.0001, 0.00015, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.05,
];

/** How late a group's batches begin, and how late their answers leave, s. */
export interface GroupDelays {
  readonly dispatch: HistogramCell;
  readonly answer: HistogramCell;
}

/** What is read from the server when Prometheus asks. */
export interface MetricsSource {
  models(): Iterable<{
    model: string;
    version: string;
    ready: boolean;
    inFlight: number;
    queued: number;
    bytes: number;
    queues: number;
  }>;
  accelerators(): Iterable<{ group: string; accelerator: number; present: boolean; busyUs: number }>;
  scaling(): Iterable<GroupScaling>;
  scheduler(): {
    turns: number;
    stalls: number;
    lagSumUs: number;
    lagMaxUs: number;
    dueTurns: number;
    liveRequests: number;
    liveBatches: number;
  };
}

/** One model's cells, by the codes of core/outcome.ts. */
export interface ModelCells {
  readonly finished: CounterCell;
  readonly late: CounterCell;
  readonly dropped: readonly CounterCell[];
  readonly failed: readonly CounterCell[];
  readonly appsBeyondLimit: CounterCell;
  readonly closed: readonly CounterCell[];
  readonly batchesFinished: CounterCell;
  readonly batchesFailed: CounterCell;
  readonly duration: HistogramCell;
  readonly batchWait: HistogramCell;
  readonly acceleratorWait: HistogramCell;
  readonly execution: HistogramCell;
  readonly size: HistogramCell;
  readonly ratio: HistogramCell;
  readonly quantile: HistogramCell;
  readonly elastic: ElasticCells;
}

export class Metrics {
  readonly registry = new Registry();
  private readonly requests = new CounterFamily(
    this.registry,
    "rubato_requests_total",
    "Requests that ended, by outcome (finished, late, dropped, failed) and reason ('' where there is none).",
  );
  private readonly refused = new CounterFamily(
    this.registry,
    "rubato_requests_refused_total",
    "Calls refused before they were requests, by reason.",
  );
  private readonly appsBeyondLimit = new CounterFamily(
    this.registry,
    "rubato_requests_beyond_apps_total",
    "Requests that named an app when their model told as many apart as it can: they count as the default app.",
  );
  private readonly duration = new HistogramFamily(
    this.registry,
    "rubato_request_duration_seconds",
    "From the receipt of the request's headers to its answer, of requests that finished.",
    SECONDS,
  );
  private readonly batchWait = new HistogramFamily(
    this.registry,
    "rubato_request_batch_wait_seconds",
    "Time a request waited for others to join its batch: from its receipt until its batch could first have gone.",
    SECONDS,
  );
  private readonly acceleratorWait = new HistogramFamily(
    this.registry,
    "rubato_request_accelerator_wait_seconds",
    "Time a request waited for an accelerator: from when its batch could first have gone until it went.",
    SECONDS,
  );
  private readonly execution = new HistogramFamily(
    this.registry,
    "rubato_batch_execution_seconds",
    "Execution of a batch on its accelerator, without transfers.",
    SECONDS,
  );
  private readonly size = new HistogramFamily(
    this.registry,
    "rubato_batch_size_requests",
    "Requests per executed batch.",
    SIZES,
  );
  private readonly closed = new CounterFamily(
    this.registry,
    "rubato_batches_closed_total",
    "Batches handed to an accelerator, by why they were closed; the sum over reasons is the number of executions begun.",
  );
  private readonly ended = new CounterFamily(
    this.registry,
    "rubato_batches_ended_total",
    "Batches that ended, by outcome (finished, failed).",
  );
  private readonly ratio = new HistogramFamily(
    this.registry,
    "rubato_batch_prediction_ratio",
    "Measured over predicted execution time of a batch.",
    RATIOS,
  );
  private readonly quantile = new HistogramFamily(
    this.registry,
    "rubato_batch_prediction_quantile",
    "Which quantile of what it was expected to take, by who was in it, the time of a batch was (policies that know distributions).",
    [...PREDICTION_QUANTILES, 1],
  );
  private readonly dispatchDelay = new HistogramFamily(
    this.registry,
    "rubato_dispatch_delay_seconds",
    "From the decision to dispatch a batch to an idle accelerator until its execution began: the control delay.",
    DELAYS,
  );
  private readonly answerDelay = new HistogramFamily(
    this.registry,
    "rubato_answer_delay_seconds",
    "From the end of a batch's execution until the server knew: the response delay.",
    DELAYS,
  );
  private readonly restarts = new CounterFamily(
    this.registry,
    "rubato_worker_exits_total",
    "Workers that ended, by accelerator group and cause.",
  );
  private readonly elastic = new ElasticMetrics(this.registry);
  readonly profiler = new ProfilerMetrics(this.registry);
  readonly placement = new PlacementMetrics(this.registry);
  readonly pipelines = new PipelineMetrics(this.registry, SECONDS);

  constructor(source: MetricsSource) {
    const { registry } = this;
    type ModelRow = ReturnType<MetricsSource["models"]> extends Iterable<infer Row> ? Row : never;
    const perModel = (name: string, help: string, read: (row: ModelRow) => number): void => {
      new GaugeFamily(registry, name, help, function* () {
        for (const row of source.models())
          yield { labels: { model: row.model, version: row.version }, value: read(row) };
      });
    };
    perModel("rubato_model_ready", "1 when the model takes requests.", (row) => (row.ready ? 1 : 0));
    perModel("rubato_requests_in_flight", "Requests received and not ended.", (row) => row.inFlight);
    perModel("rubato_queue_requests", "Requests that wait to be dispatched.", (row) => row.queued);
    perModel("rubato_queue_bytes", "Bytes of request bodies in flight.", (row) => row.bytes);
    perModel(
      "rubato_share_groups",
      "Queues of the model: one for each group of requests that may share a batch.",
      (row) => row.queues,
    );
    type AcceleratorRow = ReturnType<MetricsSource["accelerators"]> extends Iterable<infer Row> ? Row : never;
    const perAccelerator = (
      name: string,
      help: string,
      type: "gauge" | "counter",
      read: (row: AcceleratorRow) => number,
    ): void => {
      new GaugeFamily(
        registry,
        name,
        help,
        function* () {
          for (const row of source.accelerators())
            yield { labels: { group: row.group, accelerator: row.accelerator }, value: read(row) };
        },
        type,
      );
    };
    perAccelerator("rubato_accelerator_up", "1 when the accelerator takes batches.", "gauge", (row) =>
      row.present ? 1 : 0,
    );
    perAccelerator(
      "rubato_accelerator_busy_seconds_total",
      "Execution time on the accelerator; its rate is the utilization.",
      "counter",
      (row) => row.busyUs / 1e6,
    );
    const perGroup = (
      name: string,
      help: string,
      read: (row: GroupScaling) => Iterable<{ labels?: Record<string, string>; value: number }>,
      type: "gauge" | "counter" = "gauge",
    ): void => {
      new GaugeFamily(
        registry,
        name,
        help,
        function* () {
          for (const row of source.scaling())
            for (const { labels, value } of read(row)) yield { labels: { group: row.group, ...labels }, value };
        },
        type,
      );
    };
    const ofLast = (name: string, help: string, read: (last: ScaleAdvice) => number): void =>
      perGroup(name, help, ({ last }) => (last === null ? [] : [{ value: read(last) }]));
    perGroup(
      "rubato_autoscale_advice_accelerators",
      "Accelerators that the group should have: the advice after hysteresis, within its bounds.",
      ({ advice }) => [{ value: advice }],
    );
    ofLast(
      "rubato_autoscale_needed_accelerators",
      "Accelerators that the load of the last interval needs at the target utilization, before hysteresis.",
      (last) => last.needed,
    );
    ofLast(
      "rubato_autoscale_demand_accelerators",
      "Accelerators that the load of the last interval would keep busy all the time.",
      (last) => last.demand,
    );
    ofLast(
      "rubato_autoscale_bad_rate",
      "Share of the requests of the last interval that were late, dropped or without an accelerator.",
      (last) => last.badRate,
    );
    ofLast(
      "rubato_autoscale_idle_fraction",
      "Share of the group's accelerator time of the last interval in which nothing was executed.",
      (last) => last.idleFraction,
    );
    perGroup("rubato_autoscale_reason", "1 for the reason of the last decision.", ({ last }) =>
      SCALE_REASONS.map((reason) => ({ labels: { reason }, value: last?.reason === reason ? 1 : 0 })),
    );
    perGroup("rubato_autoscale_acts", "1 when the advice is followed, 0 when it is advice only.", ({ acts }) => [
      { value: acts ? 1 : 0 },
    ]);
    perGroup(
      "rubato_autoscale_changes_total",
      "Decisions that changed the advice, by direction (up, down).",
      ({ raised, lowered }) => [
        { labels: { direction: "up" }, value: raised },
        { labels: { direction: "down" }, value: lowered },
      ],
      "counter",
    );
    type SchedulerRow = ReturnType<MetricsSource["scheduler"]>;
    const ofScheduler = (
      name: string,
      help: string,
      type: "gauge" | "counter",
      read: (row: SchedulerRow) => number,
    ): void => {
      new GaugeFamily(registry, name, help, () => [{ labels: {}, value: read(source.scheduler()) }], type);
    };
    ofScheduler(
      "rubato_scheduler_turns_total",
      "Turns of the scheduler's loop, or of all its threads.",
      "counter",
      (row) => row.turns,
    );
    ofScheduler(
      "rubato_scheduler_due_turns_total",
      "Turns that had something due by time.",
      "counter",
      (row) => row.dueTurns,
    );
    ofScheduler(
      "rubato_scheduler_lag_seconds_total",
      "Sum of how late the scheduler came to what was due; over due turns it is the mean lateness.",
      "counter",
      (row) => row.lagSumUs / 1e6,
    );
    ofScheduler(
      "rubato_scheduler_lag_seconds_max",
      "Largest lateness since the start.",
      "gauge",
      (row) => row.lagMaxUs / 1e6,
    );
    ofScheduler(
      "rubato_scheduler_stalls_total",
      "Times that the scheduler came more than 50 ms late.",
      "counter",
      (row) => row.stalls,
    );
    ofScheduler("rubato_scheduler_requests", "Requests live in the scheduler.", "gauge", (row) => row.liveRequests);
    ofScheduler(
      "rubato_scheduler_batches",
      "Batches that the scheduler believes to be on accelerators.",
      "gauge",
      (row) => row.liveBatches,
    );
  }

  /** Cells of one model; a model that is loaded again goes on counting. */
  ofModel(model: string): ModelCells {
    const outcome = (name: string, reason = "") => this.requests.cell({ model, outcome: name, reason });
    return {
      finished: outcome("finished"),
      late: outcome("late"),
      dropped: DROP_REASONS.map((reason) => outcome("dropped", reason)),
      failed: SERVED_CAUSES.map((cause) => outcome("failed", cause)),
      appsBeyondLimit: this.appsBeyondLimit.cell({ model }),
      closed: CLOSE_REASONS.map((reason) => this.closed.cell({ model, reason })),
      batchesFinished: this.ended.cell({ model, outcome: "finished" }),
      batchesFailed: this.ended.cell({ model, outcome: "failed" }),
      duration: this.duration.cell({ model }),
      batchWait: this.batchWait.cell({ model }),
      acceleratorWait: this.acceleratorWait.cell({ model }),
      execution: this.execution.cell({ model }),
      size: this.size.cell({ model }),
      ratio: this.ratio.cell({ model }),
      quantile: this.quantile.cell({ model }),
      elastic: this.elastic.ofModel(model),
    };
  }

  delaysOf(group: string): GroupDelays {
    return { dispatch: this.dispatchDelay.cell({ group }), answer: this.answerDelay.cell({ group }) };
  }

  countRefusal(reason: string): void {
    this.refused.cell({ reason }).value++;
  }

  countWorkerExit(group: string, cause: string): void {
    this.restarts.cell({ group, cause }).value++;
  }

  text(format: MetricsFormat = "prometheus"): Promise<string> {
    return metricsText(this.registry, format);
  }
}
