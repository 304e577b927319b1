/** Metrics of pipelines; empty families where there are none. Their parts are counted by their models, too. */
import { CounterFamily, GaugeFamily, type HistogramCell, HistogramFamily, type Registry } from "./typed-metrics.js";

/** What gauges show. */
export interface PipelineView {
  pipelines(): Iterable<{ pipeline: string; inFlight: number; bytes: number; isReady: boolean }>;
  /** What modules said last, where that is fresh. */
  modules(): Iterable<{ pipeline: string; module: string; queueUs: number; runUs: number; batchSize: number }>;
}

/** One pipeline's cells. */
export interface PipelineCells {
  readonly duration: HistogramCell;
  /** @param reason "": none. @param module where it was decided; "": none. */
  ended(outcome: string, reason: string, module: string): void;
  partEnded(module: number, outcome: string): void;
  stepThreadEnded(cause: string): void;
  /** @param outcome of the request. @param us of accelerators. */
  spent(outcome: string, us: number): void;
}

export class PipelineMetrics {
  view: PipelineView | null = null;
  private readonly requests: CounterFamily;
  private readonly parts: CounterFamily;
  private readonly stepExits: CounterFamily;
  private readonly duration: HistogramFamily;
  private readonly accelerators: CounterFamily;

  /** @param seconds bounds of buckets. */
  constructor(registry: Registry, seconds: readonly number[]) {
    this.requests = new CounterFamily(
      registry,
      "rubato_pipeline_requests_total",
      "Requests of a pipeline that ended, by outcome (finished, late, dropped, failed), reason and the module where it was decided ('' where there is none).",
    );
    this.parts = new CounterFamily(
      registry,
      "rubato_pipeline_parts_total",
      "Parts of a pipeline's requests that ended in a module, by outcome (finished, late, dropped, failed; cancelled: called off with its request). The module's model counts them among its requests.",
    );
    this.stepExits = new CounterFamily(
      registry,
      "rubato_pipeline_step_exits_total",
      "Threads of a pipeline's steps that ended and were replaced, by cause (worker-crashed, worker-hung).",
    );
    this.accelerators = new CounterFamily(
      registry,
      "rubato_pipeline_accelerator_seconds_total",
      "Time of accelerators that parts of requests had, each an equal share of its batch's, by the outcome of the whole request: what is not finished was in vain. Batches that failed and steps are left out.",
    );
    this.duration = new HistogramFamily(
      registry,
      "rubato_pipeline_request_duration_seconds",
      "From the receipt of the request's headers to its answer over all modules, of requests that finished.",
      seconds,
    );
    const gauge = (name: string, help: string, rows: (view: PipelineView) => Iterable<Sample>): void => {
      new GaugeFamily(registry, name, help, () => (this.view === null ? [] : rows(this.view)));
    };
    const perPipeline = (name: string, help: string, read: (row: PipelineRow) => number): void =>
      gauge(name, help, function* (view) {
        for (const row of view.pipelines()) yield { labels: { pipeline: row.pipeline }, value: read(row) };
      });
    perPipeline(
      "rubato_pipeline_requests_in_flight",
      "Requests of a pipeline received and not ended.",
      (row) => row.inFlight,
    );
    perPipeline(
      "rubato_pipeline_bytes",
      "Bytes that its requests are charged with: inputs, tensors between modules, and those still to come.",
      (row) => row.bytes,
    );
    perPipeline(
      "rubato_pipeline_ready",
      "1 when the pipeline takes requests: its models are served and the process of its steps is there. 0 while that is started again, and while requests are refused because steps keep ending it.",
      (row) => (row.isReady ? 1 : 0),
    );
    const perModule = (name: string, help: string, read: (row: ModuleRow) => number): void =>
      gauge(name, help, function* (view) {
        for (const row of view.modules())
          yield { labels: { pipeline: row.pipeline, module: row.module }, value: read(row) };
      });
    perModule(
      "rubato_module_queue_seconds",
      "Mean time from coming to a module until its batch began, of parts that finished in the last second with any; absent after 3 s without.",
      (row) => row.queueUs / 1e6,
    );
    perModule(
      "rubato_module_run_seconds",
      "Mean time from the begin of its batch until the part's answer was there, of the same parts.",
      (row) => row.runUs / 1e6,
    );
    perModule(
      "rubato_module_batch_size_requests",
      "Mean size of the batches of the same parts, requests of others included.",
      (row) => row.batchSize,
    );
  }

  ofPipeline(pipeline: string, modules: readonly string[]): PipelineCells {
    const { requests, parts, stepExits, accelerators } = this;
    return {
      duration: this.duration.cell({ pipeline }),
      ended: (outcome, reason, module) => {
        requests.cell({ pipeline, outcome, reason, module }).value++;
      },
      partEnded: (module, outcome) => {
        parts.cell({ pipeline, module: modules[module]!, outcome }).value++;
      },
      stepThreadEnded: (cause) => {
        stepExits.cell({ pipeline, cause }).value++;
      },
      spent: (outcome, us) => {
        accelerators.cell({ pipeline, outcome }).value += us / 1e6;
      },
    };
  }
}

type Row<K extends keyof PipelineView> = ReturnType<PipelineView[K]> extends Iterable<infer Each> ? Each : never;
type PipelineRow = Row<"pipelines">;
type ModuleRow = Row<"modules">;

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}
