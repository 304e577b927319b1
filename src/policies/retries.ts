import type { QueueView } from "../core/policy.js";
import { DISPATCHED, type RequestHandle } from "../core/tables/request-table.js";
import { dropReason } from "./drop-reason.js";

/**
 * Requests of a queue that came back from a batch of which one may be poisonous, first in first out: they go before all
 * others, in batches of their own, alone or in the parts that they came back in (core/latency/suspects).
 */
export class Retries {
  /** How many wait: a field, since a queue asks at every event. */
  length = 0;
  private readonly waiting: RequestHandle[] = [];
  private readonly core: QueueView;
  private readonly dueOf: (request: RequestHandle) => number;

  /** @param dueOf what a request must reach where the queue plans with less than `dueAt`. */
  constructor(core: QueueView, dueOf = (request: RequestHandle): number => core.requests.dueAt[request]!) {
    this.core = core;
    this.dueOf = dueOf;
  }

  /** What the first must reach; Infinity when none waits. */
  get dueAt(): number {
    return this.length === 0 ? Number.POSITIVE_INFINITY : this.dueOf(this.waiting[0]!);
  }

  /** How many at the front may run together; at least 1 where any waits. */
  get partLength(): number {
    const { waiting } = this;
    const { part } = this.core.requests;
    if (waiting.length === 0 || part[waiting[0]!] === 0) return Math.min(1, waiting.length);
    let length = 1;
    while (length < waiting.length && part[waiting[length]!] === part[waiting[0]!]) length++;
    return length;
  }

  push(request: RequestHandle): void {
    this.waiting.push(request);
    this.length++;
  }

  /** @returns false when it is not here. */
  remove(request: RequestHandle): boolean {
    const index = this.length === 0 ? -1 : this.waiting.indexOf(request);
    if (index < 0) return false;
    this.waiting.splice(index, 1);
    this.length--;
    return true;
  }

  /** Takes the `size` first as the members of a batch. @returns the first of them. */
  take(size = 1): RequestHandle {
    const { requests } = this.core;
    let following = -1;
    for (let index = size - 1; index >= 0; index--) {
      const handle = this.waiting[index]!;
      requests.state[handle] = DISPATCHED;
      requests.next[handle] = following;
      following = handle;
    }
    this.waiting.splice(0, size);
    this.length -= size;
    return following;
  }

  /**
   * Gives up those at the front that would not be in time, were they run at once. @param endAt of a batch of one.
   * @param by what they must not be due before, where that is not the end.
   */
  dropLate(endAt: number, at: number, by = endAt): void {
    while (this.dueAt < by) {
      const reason = dropReason(this.dueAt, at, by);
      this.length--;
      this.core.drop(this.waiting.shift()!, reason, at, endAt);
    }
  }

  /** Gives all away, and is empty. */
  giveAway(to: (request: RequestHandle) => void): void {
    this.length = 0;
    for (const request of this.waiting.splice(0)) to(request);
  }
}
