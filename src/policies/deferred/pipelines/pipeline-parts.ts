import type { DeadlineQueue } from "../../../core/deadline-queue.js";
import type { RequestTable } from "../../../core/tables/request-table.js";
import type { TimesByKind } from "../../by-kind/times-by-kind.js";

/**
 * Those of a window queue who are parts of pipelines' requests: they must reach less than their deadline, for what follows. What is begun ran on the
 * same accelerators before, and goes on at once (docs/decisions/009). Indices are of those who wait in line.
 */
export class PipelineParts {
  /** What requests take by their kinds; null: all are alike. */
  timesByKind: TimesByKind | null = null;
  private readonly pending: DeadlineQueue;
  private readonly requests: RequestTable;
  private isExpectedNext = false;

  constructor(pending: DeadlineQueue, requests: RequestTable) {
    this.pending = pending;
    this.requests = requests;
  }

  /** The last head was one: while nobody waits, the next is expected to be as that one. */
  get isExpected(): boolean {
    return this.isExpectedNext;
  }

  /** Modules of a pipeline follow. */
  isPart(index: number): boolean {
    const { requests } = this;
    const request = this.pending.handleAt(index);
    return requests.dueAt[request]! < requests.latestEndAt[request]!;
  }

  /** What the first module of these accelerators kept for itself and all after it, µs; 0: it is not begun there. */
  headStartUs(index: number): number {
    const { headStartUs } = this.requests;
    return headStartUs === null ? 0 : headStartUs[this.pending.handleAt(index)]!;
  }

  /** How many of the next so many go together: until one would cost the batch more than it takes alone, as all are padded to the longest. */
  together(from: number, most: number): number {
    const times = this.timesByKind;
    if (times === null) return most;
    const { kind } = this.requests;
    let longestUs = 0;
    let batchUs = 0;
    for (let size = 1; size <= most; size++) {
      const aloneUs = times.meanAloneUs(kind[this.pending.handleAt(from + size - 1)]!);
      longestUs = Math.max(longestUs, aloneUs);
      const withUs = times.batchUs(size, longestUs);
      if (size > 1 && withUs - batchUs > aloneUs) return size - 1;
      batchUs = withUs;
    }
    return most;
  }

  /**
   * How long the head may wait, µs. A part: as its budget had it when it came, whatever the model promises clients of its own. What is begun
   * goes first: nothing is kept free for it. Two workers were idle a third of the time beside lines of a page, for a line's direction
   * and the next page's detection. Remembers whether the head is a part.
   * @param ownUs what the model's SLO leaves. @param aloneUs planned time of one.
   */
  slackUs(head: number, ownUs: number, aloneUs: number): number {
    const isBegun = this.headStartUs(head) > 0;
    this.isExpectedNext = isBegun || this.isPart(head);
    if (isBegun) return Number.POSITIVE_INFINITY;
    if (!this.isExpectedNext) return ownUs;
    const { dueAt, arrivalAt } = this.requests;
    const request = this.pending.handleAt(head);
    return Math.max(0, dueAt[request]! - arrivalAt[request]! - aloneUs);
  }
}
