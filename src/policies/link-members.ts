import type { DeadlineQueue } from "../core/deadline-queue.js";
import { DISPATCHED, type RequestHandle, type RequestTable } from "../core/request-table.js";

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

/** How many at the front of a list of those that came back run together. */
export function partLength(solo: readonly RequestHandle[], requests: RequestTable): number {
  const part = requests.part[solo[0]!]!;
  let length = 1;
  if (part !== 0) while (length < solo.length && requests.part[solo[length]!] === part) length++;
  return length;
}

/** Takes the `size` first that came back out of their list. @returns the first. */
export function linkPart(solo: RequestHandle[], size: number, requests: RequestTable): RequestHandle {
  let following = -1;
  for (let index = size - 1; index >= 0; index--) {
    const handle = solo[index]!;
    requests.state[handle] = DISPATCHED;
    requests.next[handle] = following;
    following = handle;
  }
  solo.splice(0, size);
  return following;
}
