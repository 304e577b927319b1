import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";

/** Where a request goes when there is nowhere to go. */
export const HELD = -1;

interface Frontend {
  cursor: number;
  readonly credit: number[];
}

/**
 * Frontends that spread one model's requests over its accelerators by deficit round robin: an accelerator with credit of
 * at least one gets the request and pays one; any other gains its quantum and the turn passes. A quantum is the share
 * relative to the smallest, so a large one gets its requests in runs. Requests come to the frontends in turn, and each
 * counts for itself.
 */
export class NexusFrontends {
  private readonly frontends: Frontend[];
  private ids: readonly AcceleratorId[] = [];
  private quanta: number[] = [];
  private turn = 0;

  constructor(count: number) {
    this.frontends = Array.from({ length: count }, () => ({ cursor: 0, credit: [] }));
  }

  /** A new plan. @param weights above 0, per accelerator. */
  follow(ids: readonly AcceleratorId[], weights: readonly number[]): void {
    this.ids = ids;
    const least = Math.min(...weights);
    this.quanta = weights.map((weight) => weight / least);
    for (const frontend of this.frontends) {
      frontend.cursor = 0;
      frontend.credit.length = 0;
      for (const quantum of this.quanta) frontend.credit.push(quantum);
    }
  }

  /** @returns the accelerator of the next request, or HELD. */
  next(): AcceleratorId {
    const { ids, quanta } = this;
    if (ids.length === 0) return HELD;
    const frontend = this.frontends[this.turn]!;
    this.turn = this.turn + 1 === this.frontends.length ? 0 : this.turn + 1;
    const { credit } = frontend;
    while (credit[frontend.cursor]! < 1) {
      credit[frontend.cursor] = credit[frontend.cursor]! + quanta[frontend.cursor]!;
      frontend.cursor = frontend.cursor + 1 === ids.length ? 0 : frontend.cursor + 1;
    }
    credit[frontend.cursor] = credit[frontend.cursor]! - 1;
    return ids[frontend.cursor]!;
  }
}
