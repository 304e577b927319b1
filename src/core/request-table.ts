import { violated } from "./invariant.js";

/** Index of a live request; reused after the request ended. */
export type RequestHandle = number;

export const QUEUED = 1;
/** Handed to an accelerator. */
export const DISPATCHED = 2;
/** Cancelled after dispatch: already ended for the client, its slot waits for the batch. */
export const ABANDONED = 3;

/**
 * All live requests of one scheduler as columns. A request is an index; nothing is allocated per request.
 *
 * `next` links the members of a batch while the request is dispatched, and free slots otherwise.
 */
export class RequestTable {
  queue: Int32Array;
  state: Uint8Array;
  /** Failures survived so far: of batches that began in the low 4 bits, of others in the high 4. */
  retries: Uint8Array;
  next: Int32Array;
  /** Of those that must run apart from the rest: equal numbers run together; 0: alone. */
  part: Int32Array;
  arrivalAt: Float64Array;
  /** Moment by which its execution must end (client's deadline less the response delay). */
  deadline: Float64Array;
  /** The driver's own id for the request. */
  tag: Float64Array;
  /** The handle that `add` gave out last; -1 before. */
  lastAdded: RequestHandle = -1;
  private firstFree = -1;
  private used = 0;
  private liveCount = 0;
  private readonly limit: number;

  /** @param limit most live requests; reaching it is the caller's named outcome (drop "queue-full"). */
  constructor(limit: number, initial = 1024) {
    this.limit = limit;
    const capacity = Math.min(limit, initial);
    this.queue = new Int32Array(capacity);
    this.state = new Uint8Array(capacity);
    this.retries = new Uint8Array(capacity);
    this.next = new Int32Array(capacity);
    this.part = new Int32Array(capacity);
    this.arrivalAt = new Float64Array(capacity);
    this.deadline = new Float64Array(capacity);
    this.tag = new Float64Array(capacity);
  }

  get live(): number {
    return this.liveCount;
  }

  /** @returns a handle, or -1 when `limit` requests are live. */
  add(queue: number, tag: number, arrivalAt: number, deadline: number): RequestHandle {
    let handle = this.firstFree;
    if (handle >= 0) this.firstFree = this.next[handle]!;
    else {
      if (this.used === this.limit) return -1;
      if (this.used === this.queue.length) this.grow();
      handle = this.used++;
    }
    this.queue[handle] = queue;
    this.state[handle] = QUEUED;
    this.retries[handle] = 0;
    this.next[handle] = -1;
    this.part[handle] = 0;
    this.arrivalAt[handle] = arrivalAt;
    this.deadline[handle] = deadline;
    this.tag[handle] = tag;
    this.liveCount++;
    this.lastAdded = handle;
    return handle;
  }

  release(handle: RequestHandle): void {
    if (this.state[handle] === 0) violated(`request ${handle} ended twice`);
    this.state[handle] = 0;
    this.next[handle] = this.firstFree;
    this.firstFree = handle;
    this.liveCount--;
  }

  private grow(): void {
    const capacity = Math.min(this.limit, this.queue.length * 2);
    const wider = <T extends Int32Array | Uint8Array | Float64Array>(old: T): T => {
      const grown = new (old.constructor as new (length: number) => T)(capacity);
      grown.set(old as never);
      return grown;
    };
    this.queue = wider(this.queue);
    this.state = wider(this.state);
    this.retries = wider(this.retries);
    this.next = wider(this.next);
    this.part = wider(this.part);
    this.arrivalAt = wider(this.arrivalAt);
    this.deadline = wider(this.deadline);
    this.tag = wider(this.tag);
  }
}
