import type { Registry } from "prom-client";
import { type CounterCell, CounterFamily, GaugeFamily } from "./typed-metrics.js";

type Outcome = "finished" | "late" | "dropped" | "failed";

/** Of elastic models: batches by gamma, requests by task. */
export class ElasticMetrics {
  private readonly batches: CounterFamily;
  private readonly requests: CounterFamily;
  private readonly models = new Map<string, ElasticCells>();

  constructor(registry: Registry) {
    this.batches = new CounterFamily(
      registry,
      "rubato_elastic_batches_total",
      "Batches of an elastic model that ended well, by the gamma that they ran with.",
    );
    this.requests = new CounterFamily(
      registry,
      "rubato_elastic_requests_total",
      "Requests of an elastic model that ended, by task and outcome (finished, late, dropped, failed).",
    );
    new GaugeFamily(
      registry,
      "rubato_elastic_accuracy",
      "Estimated share of right answers of late, by task and gamma, of elastic models that say how sure they are: the profile's until confidence has changed.",
      () => this.accuracies(),
    );
  }

  ofModel(model: string): ElasticCells {
    const cells = new ElasticCells(
      (gamma) => this.batches.cell({ model, gamma: String(gamma) }),
      (task, outcome) => this.requests.cell({ model, task, outcome }),
    );
    this.models.set(model, cells);
    return cells;
  }

  private *accuracies() {
    for (const [model, { accuracies }] of this.models)
      for (const { task, gamma, share } of accuracies)
        yield { labels: { model, task, gamma: String(gamma) }, value: share };
  }
}

/** One model's cells, taken when something is first counted in them. */
export class ElasticCells {
  /** Of its tasks as last estimated; empty: nothing says. */
  accuracies: readonly { readonly task: string; readonly gamma: number; readonly share: number }[] = [];
  private readonly byGamma = new Map<number, CounterCell>();
  private readonly byTask = new Map<string, Partial<Record<Outcome, CounterCell>>>();
  private readonly batchCell: (gamma: number) => CounterCell;
  private readonly requestCell: (task: string, outcome: Outcome) => CounterCell;

  constructor(batch: (gamma: number) => CounterCell, request: (task: string, outcome: Outcome) => CounterCell) {
    this.batchCell = batch;
    this.requestCell = request;
  }

  ran(gamma: number): void {
    let cell = this.byGamma.get(gamma);
    if (cell === undefined) {
      cell = this.batchCell(gamma);
      this.byGamma.set(gamma, cell);
    }
    cell.value++;
  }

  ended(task: string, outcome: Outcome): void {
    let cells = this.byTask.get(task);
    if (cells === undefined) {
      cells = {};
      this.byTask.set(task, cells);
    }
    cells[outcome] ??= this.requestCell(task, outcome);
    cells[outcome].value++;
  }
}
