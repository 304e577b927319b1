import type { RequestHandle, RequestTable } from "../../core/tables/request-table.js";
import { Depq, type DepqPlaces } from "./depq.js";

/** What waits for one worker: a queue, and the batch that grows behind the one that runs there (PARD §4.1, Figure 3b). */
export class WorkerBacklog {
  readonly queue: Depq;
  /** Of the growing batch, in order of joining it. */
  readonly members: RequestHandle[] = [];
  /** Least that any of them must reach; Infinity: there is none. */
  tightestDueAt = Number.POSITIVE_INFINITY;
  private readonly requests: RequestTable;

  constructor(requests: RequestTable, places: DepqPlaces) {
    this.requests = requests;
    this.queue = new Depq(places);
  }

  get waiting(): number {
    return this.members.length + this.queue.size;
  }

  join(request: RequestHandle): void {
    this.members.push(request);
    this.tightestDueAt = Math.min(this.tightestDueAt, this.requests.dueAt[request]!);
  }

  /** @returns false when it is no member. */
  unjoin(request: RequestHandle): boolean {
    const index = this.members.indexOf(request);
    if (index < 0) return false;
    this.members.splice(index, 1);
    this.tightest();
    return true;
  }

  /** The member that must be done first leaves. @returns it. */
  unjoinTightest(): RequestHandle {
    const { dueAt } = this.requests;
    const request = this.members.find((member) => dueAt[member] === this.tightestDueAt)!;
    this.unjoin(request);
    return request;
  }

  /** The member that joined last leaves. @returns it. */
  unjoinLast(): RequestHandle {
    const request = this.members.at(-1)!;
    this.unjoin(request);
    return request;
  }

  /** The batch is closed, and the next one is empty. @returns who was in it. */
  close(): RequestHandle[] {
    this.tightestDueAt = Number.POSITIVE_INFINITY;
    return this.members.splice(0);
  }

  private tightest(): void {
    this.tightestDueAt = Number.POSITIVE_INFINITY;
    for (const member of this.members) this.tightestDueAt = Math.min(this.tightestDueAt, this.requests.dueAt[member]!);
  }
}
