import type { Registry } from "prom-client";
import { type CounterCell, CounterFamily } from "./typed-metrics.js";

type Outcome = "finished" | "late" | "dropped" | "failed";

/** Of elastic models: batches by gamma, requests by task. */
export class ElasticMetrics {
  private readonly batches: CounterFamily;
  private readonly requests: CounterFamily;

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
  }

  ofModel(model: string): ElasticCells {
    return new ElasticCells(
      (gamma) => this.batches.cell({ model, gamma: String(gamma) }),
      (task, outcome) => this.requests.cell({ model, task, outcome }),
    );
  }
}

/** One model's cells, taken when something is first counted in them. */
export class ElasticCells {
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
