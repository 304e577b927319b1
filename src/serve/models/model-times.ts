import { gammaOf } from "../../config/elastic.js";
import type { ModelSpec } from "../../config/model.js";
import { interpolateTable, type ModelProfile, profileAt } from "./model-profile.js";

/** Times in a sample made of quantiles. */
const SAMPLE = 20;

/**
 * How long a model's batches take, for the queues of its share groups: a profile read by rows instead of requests.
 * Times are those with all workers of the group busy, which is when a deadline is at risk.
 */
export class ModelTimes {
  private readonly profile: ModelProfile;
  /** Every run has this many rows, however few are asked for; null: as many as are. */
  private readonly rowsFixed: number | null;
  private readonly byExtent = new Map<number | null, Float64Array>();
  /** Of an elastic model, by variant: what batches take with its gamma. Empty for others. */
  private readonly variants: readonly ModelTimes[];

  /** @param gamma undefined: the one that batches run with where the policy chooses none, or the model is not elastic. */
  constructor(spec: ModelSpec, profile: ModelProfile, gamma?: number) {
    const { elastic } = spec;
    this.rowsFixed = spec.batchSizeFixed;
    this.profile = elastic === undefined ? profile : profileAt(profile, gamma ?? gammaOf(elastic, 0));
    this.variants =
      elastic === undefined || gamma !== undefined
        ? []
        : elastic.gammas.map((each) => new ModelTimes(spec, profile, each));
  }

  /** Times of batches of this variant; see core/tables/batch-table.ts. */
  ofVariant(variant: number): ModelTimes {
    return this.variants[variant - 1] ?? this;
  }

  /** l(1..sizeMax) in µs of requests of `rows` rows each; non-decreasing, at least 1. */
  table(rows: number, extent: number | null, sizeMax: number): Float64Array {
    const table = new Float64Array(sizeMax);
    for (let size = 1; size <= sizeMax; size++)
      table[size - 1] = Math.max(size === 1 ? 1 : table[size - 2]!, Math.ceil(this.us(size * rows, extent)));
    return table;
  }

  /** Times of a request of `rows` rows alone as they vary, µs, ascending: by the quantiles of the profile's smallest run of that extent. */
  sample(rows: number, extent: number | null): Float64Array {
    const own = this.profile.points.filter((point) => point.extent === extent);
    const { p50Us, p90Us, p99Us } = (own.length > 0 ? own : this.profile.points).reduce((least, point) =>
      point.batchSize < least.batchSize ? point : least,
    ).busy;
    const us = this.us(rows, extent);
    const ratioAt = (q: number): number => {
      const [tail, far] = [Math.max(p50Us, p90Us), Math.max(p50Us, p90Us, p99Us)];
      const above =
        q < 0.9 ? p50Us + ((q - 0.5) / 0.4) * (tail - p50Us) : tail + Math.min(1, (q - 0.9) / 0.09) * (far - tail);
      return above / Math.max(1, p50Us);
    };
    // The lower half is not measured: as the upper one, mirrored in ratio.
    return Float64Array.from({ length: SAMPLE }, (_, index) => {
      const q = (index + 0.5) / SAMPLE;
      return Math.max(1, q < 0.5 ? us / ratioAt(1 - q) : us * ratioAt(q));
    });
  }

  /**
   * What a run costs whatever is in it, µs >= 0, over all extents: the c0 with which l(k) = c0 + k (l(1) - c0) is nearest to the
   * profile, each of its points by its relative error.
   */
  costUs(rows: number): number {
    let products = 0;
    let squares = 0;
    for (const { extent, batchSize, busy } of this.profile.points) {
      const k = batchSize / rows;
      if (k <= 1 || busy.p50Us <= 0) continue;
      products += ((k - 1) * (k * this.us(rows, extent) - busy.p50Us)) / busy.p50Us ** 2;
      squares += ((k - 1) / busy.p50Us) ** 2;
    }
    return squares === 0 ? 0 : Math.max(0, products / squares);
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
