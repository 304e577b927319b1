import { violated } from "../../core/invariant.js";
import { DROPPED } from "../../core/outcome.js";
import { PLAIN, type RequestTraits } from "../../core/tables/request-table.js";
import type { RecordReader, RecordWriter } from "../channel.js";
import * as is from "../messages.js";
import { DispatchedBatch } from "./dispatched-batch.js";

/** What a queue thread told the front to do, in its order. Batches are the thread's own numbers. */
export interface PortSink {
  /** Whether the accelerator's batches before this turn have been dispatched. If not, nothing more is taken of the thread now. */
  isTurn(accelerator: number, turn: number): boolean;
  /** Run this batch of the queue. */
  dispatch(thread: number, batch: number, key: number, dispatched: Readonly<DispatchedBatch>): void;
  end(
    thread: number,
    tag: number,
    outcome: number,
    reason: number,
    execStartAt: number,
    at: number,
    lateByUs: number,
  ): void;
  batchEnded(thread: number, batch: number, startAt: number, endAt: number): void;
  /** The queue is closing: this request waited there and has no queue now. `deadline` is that of its execution. */
  handed(thread: number, request: HandedRequest): void;
  closed(thread: number, key: number): void;
  stopped(thread: number): void;
}

/** A request that one queue gives up and another takes over. Moments are of execution. */
export interface HandedRequest {
  /** Of the queue that it waited in. */
  readonly key: number;
  readonly tag: number;
  readonly arrivalAt: number;
  readonly deadline: number;
  /** Retries, + ALONE when it must run alone. */
  readonly code: number;
  readonly kind: number;
  readonly weight: number;
  readonly dueAt: number;
  /** The thread's own number of it; 0: none. */
  readonly part: number;
  readonly headStartUs: number;
}

/** Everything that went through a port, for a replay. */
export interface PortRecord {
  /** Records to the thread, IN_WIDTH numbers each. */
  readonly inputs: number[];
  /** Commands that came from it: kind, then the arguments of the sink's call. */
  readonly commands: number[];
}

/**
 * The front's end of the two rings of one queue thread. Requests and cancellations find the ring full when the thread
 * cannot follow, which is the caller's to handle; everything else waits here, in order, until there is room. What waits is
 * bounded by batches in flight, and by the queues and requests that are being moved.
 */
export class QueuePort {
  private readonly thread: number;
  private readonly writer: RecordWriter;
  private readonly reader: RecordReader;
  private readonly sink: PortSink;
  private readonly record: PortRecord | null;
  private readonly held: number[][] = [];
  private readonly dispatched: DispatchedBatch;
  private readonly claimed: number[] = [];

  /** @param sizeMax most members of a batch. */
  constructor(
    thread: number,
    writer: RecordWriter,
    reader: RecordReader,
    sizeMax: number,
    sink: PortSink,
    record: PortRecord | null,
  ) {
    this.thread = thread;
    this.writer = writer;
    this.reader = reader;
    this.sink = sink;
    this.record = record;
    this.dispatched = new DispatchedBatch(sizeMax);
  }

  /** Whether records wait for room: `show` must be called again. */
  get isHolding(): boolean {
    return this.held.length > 0;
  }

  /** Whether the thread has sent something that was not taken yet. */
  get hasWork(): boolean {
    return this.reader.available > 0;
  }

  /** @param deadline the client's. @returns false when the ring is full: the request has not entered. */
  arrive(key: number, tag: number, arrivalAt: number, deadline: number, traits: RequestTraits = PLAIN): boolean {
    if (this.held.length > 0) return false;
    if (traits !== PLAIN) {
      if (this.writer.free < 2) return false;
      this.write([is.TRAITS, traits.kind, traits.weight, traits.dueBy, 0, traits.headStartUs]);
    }
    const offset = this.writer.claim();
    if (offset < 0) return false;
    const { cells } = this.writer;
    cells[offset] = is.ARRIVE;
    cells[offset + 1] = key;
    cells[offset + 2] = tag;
    cells[offset + 3] = arrivalAt;
    cells[offset + 4] = deadline;
    if (this.record !== null) this.claimed.push(offset);
    return true;
  }

  /** @returns false when the ring is full. */
  cancel(tag: number): boolean {
    if (this.held.length > 0) return false;
    return this.write([is.CANCEL, tag]);
  }

  /** Any other record. */
  send(record: number[]): void {
    if (this.held.length > 0 || !this.write(record)) this.held.push(record);
  }

  finished(batch: number, startAt: number, endAt: number): void {
    if (this.held.length > 0) {
      this.held.push([is.FINISHED_BATCH, batch, startAt, endAt]);
      return;
    }
    const offset = this.writer.claim();
    if (offset < 0) {
      this.held.push([is.FINISHED_BATCH, batch, startAt, endAt]);
      return;
    }
    const { cells } = this.writer;
    cells[offset] = is.FINISHED_BATCH;
    cells[offset + 1] = batch;
    cells[offset + 2] = startAt;
    cells[offset + 3] = endAt;
    if (this.record !== null) this.claimed.push(offset);
  }

  /** Shows the thread what was sent. @returns false: there was nothing new. */
  show(): boolean {
    while (this.held.length > 0 && this.write(this.held[0]!)) this.held.shift();
    if (this.record !== null) {
      const { cells } = this.writer;
      for (const offset of this.claimed)
        for (let cell = 0; cell < is.IN_WIDTH; cell++) this.record.inputs.push(cells[offset + cell]!);
      this.claimed.length = 0;
    }
    return this.writer.show();
  }

  /** Takes what the thread sent. @returns false: nothing was taken. */
  poll(): boolean {
    const { reader, sink, thread, dispatched } = this;
    const { cells } = reader;
    const count = reader.available;
    let taken = 0;
    while (taken < count) {
      const from = reader.offsetAt(taken);
      let records = 1;
      switch (cells[from]) {
        case is.DISPATCH: {
          const size = cells[from + 4]!;
          records += Math.ceil(size / (is.OUT_WIDTH - 1));
          // Its members may lie in the part of the ring that is not shown yet.
          if (taken + records > count || !sink.isTurn(cells[from + 2]!, cells[from + 9]!)) {
            reader.release(taken);
            return taken > 0;
          }
          dispatched.read(reader, taken);
          if (this.record !== null) {
            this.note(from, 12);
            for (let member = 0; member < size; member++) this.record.commands.push(dispatched.members[member]!);
          }
          sink.dispatch(thread, cells[from + 1]!, cells[from + 3]!, dispatched);
          break;
        }
        case is.ENDS: {
          const ends = cells[from + 5]!;
          for (let index = 0; index < ends; index++) {
            // One by one: how many share a record depends on when a ring was full.
            this.note(from, 5);
            this.record?.commands.push(cells[from + 6 + index]!);
            sink.end(
              thread,
              cells[from + 6 + index]!,
              cells[from + 1]!,
              cells[from + 2]!,
              cells[from + 3]!,
              cells[from + 4]!,
              0,
            );
          }
          break;
        }
        case is.DROPPED_LATE:
          this.note(from, 5);
          sink.end(thread, cells[from + 3]!, DROPPED, cells[from + 1]!, -1, cells[from + 2]!, cells[from + 4]!);
          break;
        case is.BATCH_ENDED:
          this.note(from, 4);
          sink.batchEnded(thread, cells[from + 1]!, cells[from + 2]!, cells[from + 3]!);
          break;
        case is.HANDED:
          this.note(from, 10);
          sink.handed(thread, handedIn(cells, from));
          break;
        case is.CLOSED:
          this.note(from, 2);
          sink.closed(thread, cells[from + 1]!);
          break;
        case is.STOPPED:
          this.note(from, 1);
          sink.stopped(thread);
          break;
        default:
          violated(`a queue thread sends no record of kind ${cells[from]} to the front`);
      }
      taken += records;
    }
    reader.release(taken);
    return taken > 0;
  }

  private write(record: readonly number[]): boolean {
    const offset = this.writer.claim();
    if (offset < 0) return false;
    for (let cell = 0; cell < is.IN_WIDTH; cell++) this.writer.cells[offset + cell] = record[cell] ?? 0;
    if (this.record !== null) this.claimed.push(offset);
    return true;
  }

  private note(from: number, count: number): void {
    if (this.record === null) return;
    for (let cell = from; cell < from + count; cell++) this.record.commands.push(this.reader.cells[cell]!);
  }
}

const handedIn = (cells: Float64Array, from: number): HandedRequest => ({
  key: cells[from + 1]!,
  tag: cells[from + 2]!,
  arrivalAt: cells[from + 3]!,
  deadline: cells[from + 4]!,
  code: cells[from + 5]!,
  kind: cells[from + 6]!,
  weight: cells[from + 7]!,
  dueAt: cells[from + 8]!,
  part: cells[from + 9]!,
  headStartUs: cells[from + 10]!,
});
