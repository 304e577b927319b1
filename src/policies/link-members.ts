import type { DeadlineQueue } from "../core/deadline-queue.js";
import { DISPATCHED, type RequestHandle, type RequestTable } from "../core/tables/request-table.js";

/** Takes the `size` earliest out of a queue, dispatched and chained as the members of a batch. @returns the first. */
export function linkFront(pending: DeadlineQueue, size: number, requests: RequestTable): RequestHandle {
  let following = -1;
  for (let index = size - 1; index >= 0; index--) {
    const handle = pending.handleAt(index);
    requests.state[handle] = DISPATCHED;
    requests.next[handle] = following;
    following = handle;
  }
  pending.removeFront(size);
  return following;
}

/** The same of requests that wait nowhere any more. @param members at least one. @returns the first. */
export function linkAll(members: readonly RequestHandle[], requests: RequestTable): RequestHandle {
  let following = -1;
  for (let index = members.length - 1; index >= 0; index--) {
    const handle = members[index]!;
    requests.state[handle] = DISPATCHED;
    requests.next[handle] = following;
    following = handle;
  }
  return following;
}
