import { DeadlineQueue } from "../core/deadline-queue.js";
import type { QueueView } from "../core/policy.js";
import type { RequestHandle } from "../core/tables/request-table.js";
import { dropReason } from "./drop-reason.js";
import { linkFront } from "./link-members.js";
import { Retries } from "./retries.js";

/**
 * Who waits in a queue: those in line, earliest deadline first, and before them those that came back from a failed batch
 * to run alone.
 */
export class WaitingRequests {
  /** In line. */
  readonly pending = new DeadlineQueue();
  readonly retries: Retries;
  private readonly core: QueueView;
  private readonly dueOf: ((request: RequestHandle) => number) | null;

  /** @param dueOf what the line is ordered by; null: what requests must reach, `dueAt`. */
  constructor(core: QueueView, dueOf: ((request: RequestHandle) => number) | null = null) {
    this.core = core;
    this.dueOf = dueOf;
    this.retries = dueOf === null ? new Retries(core) : new Retries(core, dueOf);
  }

  get length(): number {
    return this.pending.length + this.retries.length;
  }

  push(request: RequestHandle): void {
    this.pending.push(request, this.deadlineOf(request));
  }

  /** Handed back after a failure; see Queue.returned. */
  takeBack(request: RequestHandle, alone: boolean): void {
    if (alone) this.retries.push(request);
    else this.push(request);
  }

  remove(request: RequestHandle): void {
    if (!this.retries.remove(request)) this.pending.remove(request, this.deadlineOf(request));
  }

  /** Takes the `size` first as the members of a batch: of the retries where there are any. @returns the first of them. */
  take(size: number): RequestHandle {
    return this.retries.length > 0 ? this.retries.take(size) : linkFront(this.pending, size, this.core.requests);
  }

  /** Gives up all who would not be in time even alone. @param endAt of a batch of one that goes at once. */
  dropLate(endAt: number, at: number): void {
    this.retries.dropLate(endAt, at);
    this.dropFront(this.pending.firstNotBefore(endAt), at, endAt, endAt);
  }

  /**
   * Gives up the `count` first in line. @param aloneEndAt see dropReason. @param wouldEndAt of the batch in which they
   * would not be in time. @param expiredBefore see dropReason.
   */
  dropFront(count: number, at: number, aloneEndAt: number, wouldEndAt: number, expiredBefore = at): void {
    const { pending, core } = this;
    for (let index = 0; index < count; index++) {
      const reason = dropReason(pending.deadlineAt(index), expiredBefore, aloneEndAt);
      core.drop(pending.handleAt(index), reason, at, wouldEndAt);
    }
    pending.removeFront(count);
  }

  /** Gives all away, and is empty; see Queue.giveAway. */
  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    const { pending } = this;
    this.retries.giveAway((request) => to(request, true));
    for (let index = 0; index < pending.length; index++) to(pending.handleAt(index), false);
    pending.removeFront(pending.length);
  }

  private deadlineOf(request: RequestHandle): number {
    return this.dueOf === null ? this.core.requests.dueAt[request]! : this.dueOf(request);
  }
}
