/** How much load each model brought since the last look, from the counters that metrics show. */
import type { PlacementConfig } from "../../config/server/server.js";
import type { ServedModel } from "../models/served-model.js";
import type { ModelCells } from "../observation/metrics.js";

interface Reading {
  readonly ended: number;
  readonly executed: number;
  readonly executionS: number;
}

/** Counters go on over moves and reloads of a model, so differences need no care. */
function read({ finished, late, dropped, failed, size, execution }: ModelCells): Reading {
  let ended = finished.value + late.value;
  for (const cell of dropped) ended += cell.value;
  for (const cell of failed) ended += cell.value;
  return { ended, executed: size.sum, executionS: execution.sum };
}

export class PlacementRates {
  private readonly load: PlacementConfig["load"];
  private before = new Map<string, Reading>();
  private beforeAt: number;

  constructor(load: PlacementConfig["load"], now: number) {
    this.load = load;
    this.beforeAt = now;
  }

  /**
   * Load of each model since the last call: requests per second, or accelerators kept busy. What is dropped counts as
   * if it had run: it is load that the group did not bear. A model that was not served for all of that time is not in
   * the answer.
   *
   * @param now µs.
   */
  measure(models: readonly ServedModel[], now: number): Map<string, number> {
    const seconds = (now - this.beforeAt) / 1e6;
    const loads = new Map<string, number>();
    const next = new Map<string, Reading>();
    for (const { spec, cells, times } of models) {
      const after = read(cells);
      const before = this.before.get(spec.name);
      next.set(spec.name, after);
      if (before === undefined || seconds <= 0) continue;
      const rate = (after.ended - before.ended) / seconds;
      const executed = after.executed - before.executed;
      const busyS = executed > 0 ? (after.executionS - before.executionS) / executed : times.us(1, null) / 1e6;
      loads.set(spec.name, this.load === "requests" ? rate : rate * busyS);
    }
    this.before = next;
    this.beforeAt = now;
    return loads;
  }
}
