/** Which worker a request is sent to when it comes (PARD §4.1: "requests will be dispatched among workers"; how is not said). */
import type { CoreView } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";

export const DISPATCHES = ["least", "soonest", "round-robin"] as const;
/** least: fewest wait there, an idle one first; soonest: whose next batch with room starts first; round-robin: in turn. */
export type Dispatch = (typeof DISPATCHES)[number];

export class Dispatcher {
  /** Those that are here. */
  workers: readonly AcceleratorId[] = [];
  private turn = 0;
  private readonly rule: Dispatch;
  private readonly accelerators: CoreView["accelerators"];
  private readonly waitingAt: (id: AcceleratorId) => number;

  constructor(rule: Dispatch, accelerators: CoreView["accelerators"], waitingAt: (id: AcceleratorId) => number) {
    this.rule = rule;
    this.accelerators = accelerators;
    this.waitingAt = waitingAt;
  }

  /** Workers may have come or gone. @returns whether any did. */
  follow(): boolean {
    const { capacity, present } = this.accelerators;
    const workers: AcceleratorId[] = [];
    for (let id = 0; id < capacity; id++) if (present[id] === 1) workers.push(id);
    const isSame = workers.length === this.workers.length && workers.every((id, index) => id === this.workers[index]);
    this.workers = workers;
    return !isSame;
  }

  /** @param target size of batches. @returns the worker; -1: there is none. */
  choose(at: number, target: number): AcceleratorId {
    const { workers } = this;
    if (workers.length === 0) return -1;
    if (this.rule === "round-robin") {
      this.turn = this.turn + 1 < workers.length ? this.turn + 1 : 0;
      return workers[this.turn]!;
    }
    let best = -1;
    let least = Number.POSITIVE_INFINITY;
    let soonestAt = Number.POSITIVE_INFINITY;
    for (const id of workers) {
      const waiting = this.waitingAt(id);
      const freeAt = this.accelerators.inFlight(id) === 0 ? at : this.accelerators.freeAt[id]!;
      // Who waits beyond a whole batch counts before when the next one starts.
      const count = this.rule === "least" ? waiting + (freeAt > at ? 1 : 0) : Math.floor(waiting / target);
      if (count > least || (count === least && freeAt >= soonestAt)) continue;
      best = id;
      least = count;
      soonestAt = freeAt;
    }
    return best;
  }
}
