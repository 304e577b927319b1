/**
 * How long a model's batches take, from measurements: l(rows, extent) for the queues of its share groups.
 */
import { invariant } from "../core/invariant.js";
import type { ModelSpec } from "../config/model.js";
import { workUsFromMs } from "../core/time.js";
import type { BatchTiming } from "./worker-pool.js";

interface Curve {
  /** null: no variable axis. */
  readonly extent: number | null;
  /** Ascending sizes, and the time of each, non-decreasing. */
  readonly sizes: readonly number[];
  readonly timesUs: readonly number[];
}

export class ModelTimes {
  private readonly curves: readonly Curve[];
  private readonly rowsFixed: number | null;

  private constructor(curves: readonly Curve[], rowsFixed: number | null) {
    this.curves = curves;
    this.rowsFixed = rowsFixed;
  }

  /** From a measured profile; the 90th percentile of each size is what is planned with. At least one timing. */
  static measured(spec: ModelSpec, timings: readonly BatchTiming[]): ModelTimes {
    invariant(timings.length > 0, `profile of model '${spec.name}' must hold at least 1 timing; held 0`);
    const extents = [...new Set(timings.map((timing) => timing.extent))].sort((a, b) => (a ?? 0) - (b ?? 0));
    const curves = extents.map((extent): Curve => {
      const own = timings.filter((timing) => timing.extent === extent).sort((a, b) => a.batchSize - b.batchSize);
      let longest = 1;
      const timesUs = own.map((timing) => {
        longest = Math.max(longest, Math.ceil(timing.p90Us));
        return longest;
      });
      return { extent, sizes: own.map((timing) => timing.batchSize), timesUs };
    });
    return new ModelTimes(curves, spec.batchSizeFixed);
  }

  /** From what an emulated model says of itself. */
  static emulated(spec: ModelSpec): ModelTimes {
    const { emulated } = spec;
    invariant(emulated !== null, `model '${spec.name}' must be emulated`);
    const sizes = Array.from({ length: Math.max(1, spec.batchSizeMax) }, (_, index) => index + 1);
    const timesUs = sizes.map((size) => {
      const { tableMs } = emulated;
      const ms =
        tableMs === null
          ? emulated.alphaMs * size + emulated.betaMs
          : tableMs[Math.min(size, tableMs.length) - 1]!;
      return Math.max(1, workUsFromMs(ms));
    });
    return new ModelTimes([{ extent: null, sizes, timesUs }], spec.batchSizeFixed);
  }

  /**
   * l(1..sizeMax) of requests of `rows` rows each.
   *
   * Between measured sizes and extents the time is interpolated; beyond the last it grows in proportion, before the
   * first it is the first's: rather too long than too short.
   */
  table(rows: number, extent: number | null, sizeMax: number): Float64Array {
    const table = new Float64Array(sizeMax);
    let longest = 0;
    for (let size = 1; size <= sizeMax; size++) {
      longest = Math.max(longest, Math.ceil(this.us(this.rowsFixed ?? size * rows, extent)));
      table[size - 1] = longest;
    }
    return table;
  }

  us(rows: number, extent: number | null): number {
    const { curves } = this;
    const points = curves.map((curve) => interpolate(curve.sizes, curve.timesUs, rows));
    if (curves.length === 1 || extent === null) return points[points.length - 1]!;
    return interpolate(
      curves.map((curve) => curve.extent ?? 0),
      points,
      extent,
    );
  }
}

function interpolate(xs: readonly number[], ys: readonly number[], x: number): number {
  const above = xs.findIndex((candidate) => candidate >= x);
  if (above === 0) return ys[0]!;
  if (above < 0) return ys[ys.length - 1]! * (x / xs[xs.length - 1]!);
  const [x0, x1, y0, y1] = [xs[above - 1]!, xs[above]!, ys[above - 1]!, ys[above]!];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}
