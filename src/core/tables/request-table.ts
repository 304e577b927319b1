import { violated } from "../invariant.js";

/** Index of a live request; reused after the request ended. */
export type RequestHandle = number;

export const QUEUED = 1;
/** Handed to an accelerator. */
export const DISPATCHED = 2;
/** Cancelled after dispatch: already ended for the client, its slot waits for the batch. */
export const ABANDONED = 3;

/** What a request says of itself beyond its queue and deadline. */
export interface RequestTraits {
  /** App, task or class: a small number that the driver gives, in [0, 65535]. */
  readonly kind: number;
  /** What its finish is worth (utility, priority). */
  readonly weight: number;
  /** Moment that its queue must reach, on the client's clock like the deadline (a module's budget); Infinity: the deadline itself. */
  readonly dueBy: number;
  /** µs by which it ranks before its latest start: of what is begun already, what the modules before it were to take. */
  readonly headStartUs: number;
}

/** A request that says nothing of itself. */
export const PLAIN: RequestTraits = { kind: 0, weight: 1, dueBy: Number.POSITIVE_INFINITY, headStartUs: 0 };

/**
 * All live requests of one scheduler as columns. A request is an index; nothing is allocated per request.
 *
 * With many models each column that an arrival writes is a line of memory to fetch. So what most requests say nothing of is
 * not written before one did (`describe`, `setPart`), and until one has a budget of its own `dueAt` is the same array as
 * `latestEndAt`.
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
  /** What it is judged by: its execution must end by then (the client's deadline less the response delay). */
  latestEndAt: Float64Array;
  /** What its queue must reach, at most `latestEndAt`: less where the request goes on to other modules afterwards. */
  dueAt: Float64Array;
  /** App, task or class, a small number of the driver's. */
  kind: Uint16Array;
  /** What its finish is worth (utility, priority); 1 unless it says so. */
  weight: Float64Array;
  /** How much earlier than by its latest start it ranks, µs; null: no request ever said so. */
  headStartUs: Float64Array | null = null;
  /** The driver's own id for the request. */
  tag: Float64Array;
  /** The handle that `add` gave out last; -1 before. */
  lastAdded: RequestHandle = -1;
  /** No request has said anything of itself yet, and none was of a part. */
  private isPlain = true;
  private hasBudgets = false;
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
    this.latestEndAt = new Float64Array(capacity);
    this.dueAt = this.latestEndAt;
    this.kind = new Uint16Array(capacity);
    this.weight = new Float64Array(capacity).fill(1);
    this.tag = new Float64Array(capacity);
  }

  get live(): number {
    return this.liveCount;
  }

  /** It says nothing of itself; see `describe`. @returns a handle, or -1 when `limit` requests are live. */
  add(queue: number, tag: number, arrivalAt: number, latestEndAt: number): RequestHandle {
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
    this.arrivalAt[handle] = arrivalAt;
    this.latestEndAt[handle] = latestEndAt;
    this.tag[handle] = tag;
    if (!this.isPlain) this.forgetFormer(handle);
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

  /** What a request that was just added says of itself. @param dueAt what its queue must reach, <= `latestEndAt`. */
  describe(handle: RequestHandle, { kind, weight, headStartUs }: RequestTraits, dueAt: number): void {
    this.isPlain = false;
    this.kind[handle] = kind;
    this.weight[handle] = weight;
    if (dueAt !== this.latestEndAt[handle] && !this.hasBudgets) this.splitDueAt();
    this.dueAt[handle] = dueAt;
    if (headStartUs > 0) this.headStartUs ??= new Float64Array(this.queue.length);
    if (this.headStartUs !== null) this.headStartUs[handle] = headStartUs;
  }

  /** It runs with those of the same part number; 0: alone. */
  setPart(handle: RequestHandle, part: number): void {
    if (part !== 0) this.isPlain = false;
    this.part[handle] = part;
  }

  /** What the former request of this handle said of itself. */
  private forgetFormer(handle: RequestHandle): void {
    this.kind[handle] = PLAIN.kind;
    this.weight[handle] = PLAIN.weight;
    this.dueAt[handle] = this.latestEndAt[handle]!;
    this.part[handle] = 0;
    if (this.headStartUs !== null) this.headStartUs[handle] = 0;
  }

  /** From now on some requests must be done before what they are judged by. */
  private splitDueAt(): void {
    this.hasBudgets = true;
    this.dueAt = this.latestEndAt.slice();
  }

  private grow(): void {
    const capacity = Math.min(this.limit, this.queue.length * 2);
    const wider = <T extends Int32Array | Uint8Array | Uint16Array | Float64Array>(old: T): T => {
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
    this.latestEndAt = wider(this.latestEndAt);
    this.dueAt = this.hasBudgets ? wider(this.dueAt) : this.latestEndAt;
    this.kind = wider(this.kind);
    this.weight = wider(this.weight);
    this.weight.fill(1, this.used);
    if (this.headStartUs !== null) this.headStartUs = wider(this.headStartUs);
    this.tag = wider(this.tag);
  }
}
