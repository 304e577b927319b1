import { violated } from "../../../core/invariant.js";
import { DISPATCHED, type RequestHandle, type RequestTable } from "../../../core/tables/request-table.js";

/**
 * Which list of a queue each waiting request is in, and its neighbours there, as columns by request handle: a request
 * is in one list at most, and leaves it in O(1) wherever it stands (a cancelled one may be anywhere in a long queue).
 */
export class RequestLinks {
  previous = new Int32Array(64);
  following = new Int32Array(64);
  /** When the request entered the queue; kept when it moves to another list. */
  joinedAt = new Float64Array(64);
  readonly home: (RequestList | null)[] = [];
  /** Requests in all lists. */
  count = 0;

  list(): RequestList {
    return new RequestList(this);
  }

  /** Takes the request out of the list it is in. @returns that list. */
  remove(request: RequestHandle): RequestList {
    const list = this.home[request] ?? null;
    if (list === null) violated(`request ${request} waits in no list`);
    list.remove(request);
    return list;
  }

  /** Makes room for a handle. */
  reach(request: RequestHandle): void {
    while (this.home.length <= request) this.home.push(null);
    if (request < this.previous.length) return;
    const capacity = Math.max(request + 1, this.previous.length * 2);
    const previous = new Int32Array(capacity);
    previous.set(this.previous);
    this.previous = previous;
    const following = new Int32Array(capacity);
    following.set(this.following);
    this.following = following;
    const joinedAt = new Float64Array(capacity);
    joinedAt.set(this.joinedAt);
    this.joinedAt = joinedAt;
  }
}

/** Requests in the order in which they were put in. */
export class RequestList {
  /** First and last, -1 when empty. */
  first: RequestHandle = -1;
  last: RequestHandle = -1;
  count = 0;
  private readonly links: RequestLinks;

  constructor(links: RequestLinks) {
    this.links = links;
  }

  /** When its first request entered the queue; Infinity when empty. */
  get oldestAt(): number {
    return this.count === 0 ? Number.POSITIVE_INFINITY : this.links.joinedAt[this.first]!;
  }

  /** @param joinedAt when the request entered the queue. */
  push(request: RequestHandle, joinedAt: number): void {
    const { links } = this;
    links.reach(request);
    if (links.home[request] !== null) violated(`request ${request} waits in a list already`);
    links.home[request] = this;
    links.joinedAt[request] = joinedAt;
    links.previous[request] = this.last;
    links.following[request] = -1;
    if (this.last < 0) this.first = request;
    else links.following[this.last] = request;
    this.last = request;
    this.count++;
    links.count++;
  }

  remove(request: RequestHandle): void {
    const { links } = this;
    const previous = links.previous[request]!;
    const following = links.following[request]!;
    if (previous < 0) this.first = following;
    else links.following[previous] = following;
    if (following < 0) this.last = previous;
    else links.previous[following] = previous;
    links.home[request] = null;
    this.count--;
    links.count--;
  }

  shift(): RequestHandle {
    const request = this.first;
    if (request < 0) violated("nothing waits in the list");
    this.remove(request);
    return request;
  }

  /** Moves its first `count` requests behind those of another list. */
  moveTo(target: RequestList, count: number): void {
    for (let moved = 0; moved < count; moved++) {
      const request = this.shift();
      target.push(request, this.links.joinedAt[request]!);
    }
  }

  /** Takes its first `count` requests out, dispatched and chained as the members of a batch. @returns the first. */
  takeMembers(count: number, requests: RequestTable): RequestHandle {
    const first = this.first;
    let last = -1;
    for (let taken = 0; taken < count; taken++) {
      const request = this.shift();
      requests.state[request] = DISPATCHED;
      requests.next[request] = -1;
      if (last >= 0) requests.next[last] = request;
      last = request;
    }
    return first;
  }
}
