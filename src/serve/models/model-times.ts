import type { ModelSpec } from "../../config/model.js";
import { interpolateTable, type ModelProfile } from "./model-profile.js";

/**
 * How long a model's batches take, for the queues of its share groups: a profile read by rows instead of requests.
 * Times are those with all workers of the group busy, which is when a deadline is at risk.
 */
export class ModelTimes {
  private readonly profile: ModelProfile;
  /** Every run has this many rows, however few are asked for; null: as many as are. */
  private readonly rowsFixed: number | null;
  private readonly byExtent = new Map<number | null, Float64Array>();

  constructor(spec: ModelSpec, profile: ModelProfile) {
    this.profile = profile;
    this.rowsFixed = spec.batchSizeFixed;
  }

  /** l(1..sizeMax) in µs of requests of `rows` rows each; non-decreasing, at least 1. */
  table(rows: number, extent: number | null, sizeMax: number): Float64Array {
    const table = new Float64Array(sizeMax);
    for (let size = 1; size <= sizeMax; size++)
      table[size - 1] = Math.max(size === 1 ? 1 : table[size - 2]!, Math.ceil(this.us(size * rows, extent)));
    return table;
  }

  /** One run of `rows` rows, µs. */
  us(rows: number, extent: number | null): number {
    let table = this.byExtent.get(extent);
    if (table === undefined) {
      table = interpolateTable(this.profile, extent);
      // Extents of "equal" axes may be many; a table is cheap to make again.
      if (this.byExtent.size < 256) this.byExtent.set(extent, table);
    }
    return table[Math.min(table.length - 1, this.rowsFixed ?? rows)]!;
  }
}
