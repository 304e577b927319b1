import { violated } from "../invariant.js";
import type { RequestHandle } from "./request-table.js";

/** Index of a live batch; reused after the batch ended. */
export type BatchId = number;

/** Batches that are committed to an accelerator, as columns. Members are linked through RequestTable.next from `first`. */
export class BatchTable {
  readonly first: Int32Array;
  readonly size: Int32Array;
  /** Size that is executed: `size`, or more where the batch is padded. The time of the batch is that of this size. */
  readonly executedSize: Int32Array;
  readonly queue: Int32Array;
  /** How much work each member gets, or by which model of a family: a number of the queue's (OTAS: gamma); 0: there is one. */
  readonly variant: Int32Array;
  readonly accelerator: Int32Array;
  readonly close: Uint8Array;
  /** Planned: earliest start, execution time, end. */
  readonly execAt: Float64Array;
  readonly execUs: Float64Array;
  readonly finishAt: Float64Array;
  /** A start later than this is refused by the accelerator: the batch is rejected. Infinity unless its queue sets it. */
  readonly latestAt: Float64Array;
  /** The batch committed behind this one where neither runs; -1 = none. */
  readonly behind: Int32Array;
  private readonly nextFree: Int32Array;
  private firstFree = -1;
  private used = 0;
  private liveCount = 0;

  /** @param capacity as many as all accelerators may hold. */
  constructor(capacity: number) {
    this.first = new Int32Array(capacity);
    this.size = new Int32Array(capacity);
    this.executedSize = new Int32Array(capacity);
    this.queue = new Int32Array(capacity);
    this.variant = new Int32Array(capacity);
    this.accelerator = new Int32Array(capacity);
    this.close = new Uint8Array(capacity);
    this.execAt = new Float64Array(capacity);
    this.execUs = new Float64Array(capacity);
    this.finishAt = new Float64Array(capacity);
    this.latestAt = new Float64Array(capacity);
    this.behind = new Int32Array(capacity);
    this.nextFree = new Int32Array(capacity);
  }

  get live(): number {
    return this.liveCount;
  }

  add(
    queue: number,
    first: RequestHandle,
    size: number,
    execAt: number,
    execUs: number,
    close: number,
    executedSize = size,
    variant = 0,
  ): BatchId {
    let id = this.firstFree;
    if (id >= 0) this.firstFree = this.nextFree[id]!;
    else {
      if (this.used === this.first.length) violated(`at most ${this.first.length} batches may be in flight`);
      id = this.used++;
    }
    this.queue[id] = queue;
    this.variant[id] = variant;
    this.first[id] = first;
    this.size[id] = size;
    this.executedSize[id] = executedSize;
    this.execAt[id] = execAt;
    this.execUs[id] = execUs;
    this.finishAt[id] = execAt + execUs;
    this.latestAt[id] = Number.POSITIVE_INFINITY;
    this.behind[id] = -1;
    this.close[id] = close;
    this.liveCount++;
    return id;
  }

  /** Its execution is planned to take so long. */
  plan(id: BatchId, execUs: number): void {
    this.execUs[id] = execUs;
    this.finishAt[id] = this.execAt[id]! + execUs;
  }

  release(id: BatchId): void {
    if (this.size[id] === 0) violated(`batch ${id} ended twice`);
    this.size[id] = 0;
    this.nextFree[id] = this.firstFree;
    this.firstFree = id;
    this.liveCount--;
  }
}
