/** How long a request will wait in batches of several modules together (PARD §4.2, "Batch wait estimation"). */

import { select } from "../ahead/select.js";
import type { BoardRow } from "../board.js";
import { columnOf, WAIT_QUANTILES } from "../module-states.js";
import { quantile, quantilesAt } from "../quantiles.js";
import { seededUniform } from "../seeded-uniform.js";

/** PARD's M. */
export const SAMPLES = 10_000;
const EXEC_US = columnOf("exec_us");
const WAIT = columnOf("wait_0");

/**
 * Samples of each module's wait, drawn from the quantiles that it published; the waits of different modules are taken to be
 * independent (the paper: "weakly correlated"). The draws behind them are made once, so that an estimate changes with what
 * modules say and not with the draw.
 */
export class BatchWaits {
  /** By module: parts of the whole, and the waits at them, µs. */
  private readonly parts: readonly Float64Array[];
  private readonly waitsUs: readonly Float64Array[];
  private readonly sums: Float64Array;

  constructor(modules: number, seed: number, samples = SAMPLES) {
    this.parts = Array.from({ length: modules }, (_, module) => {
      const uniform = seededUniform(seed, module);
      return Float64Array.from({ length: samples }, uniform);
    });
    this.waitsUs = this.parts.map(() => new Float64Array(samples));
    this.sums = new Float64Array(samples);
  }

  /** What the module says now; null: nothing that is known, it waits for nothing. */
  told(module: number, row: BoardRow | null): void {
    const waitsUs = this.waitsUs[module]!;
    if (row === null) {
      waitsUs.fill(0);
      return;
    }
    const execUs = row.value(EXEC_US);
    const quantilesUs = quantilesAt(row, WAIT, WAIT_QUANTILES).map((part) => part * execUs);
    const parts = this.parts[module]!;
    for (let sample = 0; sample < parts.length; sample++) waitsUs[sample] = quantile(quantilesUs, parts[sample]!);
  }

  /** F^-1(lambda) of the sum over these modules, µs. @param lambda in (0, 1). */
  quantileUs(modules: readonly number[], lambda: number): number {
    const { sums, waitsUs } = this;
    sums.fill(0);
    for (const module of modules) {
      const own = waitsUs[module]!;
      for (let sample = 0; sample < sums.length; sample++) sums[sample]! += own[sample]!;
    }
    return select(sums, Math.min(sums.length - 1, Math.floor(lambda * sums.length)));
  }
}
