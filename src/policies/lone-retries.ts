import { DROP_EXPIRED, DROP_INFEASIBLE } from "../core/outcome.js";
import type { QueueView } from "../core/policy.js";
import { DISPATCHED, type RequestHandle } from "../core/request-table.js";

/**
 * Requests of a queue that came back to run in a batch of their own (a batch with them failed, so one of them may be
 * poisonous), first in first out. They go before all others.
 */
export class LoneRetries {
  private readonly waiting: RequestHandle[] = [];
  private readonly core: QueueView;

  constructor(core: QueueView) {
    this.core = core;
  }

  get length(): number {
    return this.waiting.length;
  }

  /** What the first must reach; Infinity when none waits. */
  get dueAt(): number {
    return this.waiting.length === 0 ? Number.POSITIVE_INFINITY : this.core.requests.dueAt[this.waiting[0]!]!;
  }

  push(request: RequestHandle): void {
    this.waiting.push(request);
  }

  /** @returns false when it is not here. */
  remove(request: RequestHandle): boolean {
    const index = this.waiting.indexOf(request);
    if (index >= 0) this.waiting.splice(index, 1);
    return index >= 0;
  }

  /** Takes the first as the one member of a batch. */
  take(): RequestHandle {
    const { requests } = this.core;
    const handle = this.waiting.shift()!;
    requests.state[handle] = DISPATCHED;
    requests.next[handle] = -1;
    return handle;
  }

  /** Gives up those at the front that would not be in time, were they run at once. @param endAt of a batch of one. */
  dropLate(endAt: number, at: number): void {
    while (this.dueAt < endAt) {
      const reason = this.dueAt < at ? DROP_EXPIRED : DROP_INFEASIBLE;
      this.core.drop(this.waiting.shift()!, reason, at);
    }
  }

  /** Gives all away, and is empty. */
  giveAway(to: (request: RequestHandle) => void): void {
    for (const request of this.waiting.splice(0)) to(request);
  }
}
