import { Worker } from "node:worker_threads";
import { invariant } from "../../core/invariant.js";
import type { NetworkDelays } from "../../core/policy.js";
import { encodeWindow, WINDOW_NUMBERS } from "../../policies/live.js";
import { createRing, RING_WIDTH, RingReader, RingWriter } from "../../wire/ring.js";
import { threadFile } from "../../wire/thread-file.js";
import { InlineScheduler } from "./inline-scheduler.js";
import {
  blankDispatch,
  type DispatchRecord,
  type LiveScheduler,
  type LiveSchedulerOptions,
  type QueueRecord,
  type SchedulerEvents,
  type SchedulerRow,
} from "./live-scheduler.js";
import {
  ADD_QUEUE,
  ARRIVE,
  BATCH_FAILED,
  BATCH_FINISHED,
  CANCEL,
  DELAYS,
  DISPATCH,
  END,
  FAIL_QUEUE,
  HOLD,
  JOIN,
  LEAVE,
  NUMBERS,
  REMOVE_QUEUE,
  type SchedulerSetup,
  STAT_DUE_TURNS,
  STAT_LAG_MAX_US,
  STAT_LAG_SUM_US,
  STAT_LIVE_BATCHES,
  STAT_LIVE_REQUESTS,
  STAT_STALLS,
  STAT_TURNS,
  STATS_LENGTH,
  STOP,
  STOPPED,
} from "./scheduler-protocol.js";

export interface SchedulerClientOptions extends LiveSchedulerOptions {
  /** inline: between the callbacks of this thread. thread: on one of its own; see InlineScheduler. */
  readonly mode: "thread" | "inline";
  /** Records a ring holds; default 16384. */
  readonly ringRecords?: number;
}

const RING_RECORDS = 16_384;

/**
 * The main thread's end of the rings, whether the scheduler is on this thread or on its own. Only arrivals are refused
 * when the ring is full: every other record waits in a backlog.
 */
export class SchedulerClient implements LiveScheduler {
  private readonly stats: Float64Array;
  private readonly writer: RingWriter;
  private readonly reader: RingReader;
  private readonly events: SchedulerEvents;
  private readonly setup: SchedulerSetup;
  private readonly mode: "thread" | "inline";
  private inline: InlineScheduler | null = null;
  private readonly backlog: number[][] = [];
  private threadEnded: Promise<unknown> = Promise.resolve();
  private isPublishing = false;
  private hasStopped = false;
  private onStopped: (() => void) | null = null;
  private readonly record: DispatchRecord = blankDispatch();

  constructor(options: SchedulerClientOptions, events: SchedulerEvents) {
    const records = options.ringRecords ?? RING_RECORDS;
    this.setup = {
      groups: options.groups,
      slots: options.slots,
      toScheduler: createRing(records),
      fromScheduler: createRing(records),
      stats: new SharedArrayBuffer(STATS_LENGTH * Float64Array.BYTES_PER_ELEMENT),
      eventLog: options.eventLog,
    };
    this.mode = options.mode;
    this.stats = new Float64Array(this.setup.stats);
    this.writer = new RingWriter(this.setup.toScheduler);
    this.reader = new RingReader(this.setup.fromScheduler);
    this.events = events;
  }

  get measured(): SchedulerRow {
    const { stats } = this;
    return {
      turns: stats[STAT_TURNS]!,
      stalls: stats[STAT_STALLS]!,
      lagSumUs: stats[STAT_LAG_SUM_US]!,
      lagMaxUs: stats[STAT_LAG_MAX_US]!,
      dueTurns: stats[STAT_DUE_TURNS]!,
      liveRequests: stats[STAT_LIVE_REQUESTS]!,
      liveBatches: stats[STAT_LIVE_BATCHES]!,
    };
  }

  problemOf(): string | null {
    return null;
  }

  start(): Promise<void> {
    if (this.mode === "thread") {
      const thread = new Worker(threadFile(import.meta.url, "./scheduler-thread.js"), {
        workerData: this.setup,
        name: "scheduler",
      });
      thread.on("error", (error) => this.broke(error));
      thread.on("message", (text: string) => this.events.warned(text));
      thread.on("exit", (code) => {
        // Its last word may still be in the ring: the end of a thread can be known before that is read.
        try {
          this.drain();
        } catch (error) {
          this.broke(error);
        }
        if (!this.hasStopped) this.broke(new Error(`the scheduler's thread ended with code ${code}`));
      });
      this.threadEnded = new Promise((resolve) => thread.once("exit", resolve));
      void this.listen();
      return Promise.resolve();
    }
    this.inline = new InlineScheduler(this.setup, {
      drain: () => this.drain(),
      warned: (text) => this.events.warned(text),
      broke: (error) => this.broke(error),
    });
    this.threadEnded = this.inline.ended;
    this.publishSoon();
    return Promise.resolve();
  }

  arrive(slot: number, queue: number, arrivalAt: number, deadline: number): boolean {
    if (this.backlog.length > 0) return false;
    const offset = this.writer.claim();
    if (offset < 0) return false;
    const { cells } = this.writer;
    cells[offset] = ARRIVE;
    cells[offset + 1] = slot;
    cells[offset + 2] = queue;
    cells[offset + 3] = arrivalAt;
    cells[offset + 4] = deadline;
    this.publishSoon();
    return true;
  }

  cancel(slot: number): void {
    this.send(CANCEL, slot);
  }

  finished(group: number, batch: number, startAt: number, endAt: number): void {
    this.send(BATCH_FINISHED, group, batch, startAt, endAt);
  }

  failed(group: number, batch: number, cause: number, hasBegun: boolean | null): void {
    this.send(BATCH_FAILED, group, batch, cause, hasBegun === null ? -1 : hasBegun ? 1 : 0);
  }

  join(group: number, accelerator: number, scale: number): void {
    this.send(JOIN, group, accelerator, scale);
  }

  leave(group: number, accelerator: number): void {
    this.send(LEAVE, group, accelerator);
  }

  delays(queue: number, { controlUs, dataUsPerRequest, responseUs }: NetworkDelays): void {
    this.send(DELAYS, queue, controlUs, dataUsPerRequest, responseUs);
  }

  addQueue(record: QueueRecord): boolean {
    const { timesUs } = record;
    const numbers = new Float64Array(WINDOW_NUMBERS + timesUs.length);
    encodeWindow(record.window, numbers, 0);
    numbers.set(Array.from(timesUs), WINDOW_NUMBERS);
    const { group, queue, sloUs, lengthMax } = record;
    const message = [[ADD_QUEUE, group, queue, sloUs, lengthMax, timesUs.length]];
    for (let at = 0; at < numbers.length; at += RING_WIDTH - 1)
      message.push([NUMBERS, ...numbers.subarray(at, at + RING_WIDTH - 1)]);
    invariant(message.length < this.writer.capacity, `queue of ${timesUs.length} sizes must fit the ring`);
    // Its records are shown together: the scheduler reads them as one.
    if (this.backlog.length > 0 || this.writer.free < message.length) this.backlog.push(message.flatMap(padded));
    else for (const part of message) this.write(part);
    this.publishSoon();
    return true;
  }

  removeQueue(queue: number): void {
    this.send(REMOVE_QUEUE, queue);
  }

  failQueue(queue: number, cause: number): void {
    this.send(FAIL_QUEUE, queue, cause);
  }

  hold(queue: number, isHeld: boolean): void {
    this.send(HOLD, queue, isHeld ? 1 : 0);
  }

  async stop(): Promise<void> {
    if (this.hasStopped) return;
    await new Promise<void>((resolve) => {
      this.onStopped = resolve;
      this.send(STOP);
    });
    await this.threadEnded;
  }

  private send(...record: number[]): void {
    if (this.backlog.length > 0 || this.writer.free === 0) this.backlog.push(padded(record));
    else this.write(record);
    this.publishSoon();
  }

  private write(record: readonly number[]): void {
    const offset = this.writer.claim();
    for (let cell = 0; cell < record.length; cell++) this.writer.cells[offset + cell] = record[cell]!;
  }

  private publishSoon(): void {
    if (this.isPublishing) return;
    this.isPublishing = true;
    queueMicrotask(this.publish);
  }

  private readonly publish = (): void => {
    this.isPublishing = false;
    while (this.backlog.length > 0) {
      const message = this.backlog[0]!;
      if (this.writer.free < message.length / RING_WIDTH) break;
      this.backlog.shift();
      for (let at = 0; at < message.length; at += RING_WIDTH) this.write(message.slice(at, at + RING_WIDTH));
    }
    this.writer.publish();
    this.inline?.turn();
    if (this.backlog.length > 0 && !this.hasStopped) {
      this.isPublishing = true;
      setTimeout(this.publish, 1);
    }
  };

  private async listen(): Promise<void> {
    try {
      while (!this.hasStopped) {
        this.drain();
        const rung = this.reader.waitAsync();
        if (rung !== null) await rung;
        // Something is there already: other callbacks get their turn first.
        else await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (error) {
      this.broke(error);
    }
  }

  private drain(): void {
    if (this.hasStopped) return;
    const { reader } = this;
    const { cells } = reader;
    for (let available = reader.available; available > 0; available = reader.available) {
      const offset = reader.offsetAt(0);
      const kind = cells[offset]!;
      if (kind === END) {
        const slot = cells[offset + 1]!;
        const outcome = cells[offset + 2]!;
        const reason = cells[offset + 3]!;
        const execStartAt = cells[offset + 4]!;
        const at = cells[offset + 5]!;
        reader.release(1);
        this.events.ended(slot, outcome, reason, execStartAt, at);
      } else if (kind === DISPATCH) {
        const parts = 1 + Math.ceil(cells[offset + 5]! / (RING_WIDTH - 1));
        // The rest of it is still being written when the ring was full in the middle of it.
        if (available < parts) return;
        this.readDispatch(offset, parts);
        reader.release(parts);
        this.events.dispatched(this.record);
      } else {
        invariant(kind === STOPPED, `unknown record ${kind} from the scheduler`);
        reader.release(1);
        this.hasStopped = true;
        this.onStopped?.();
        return;
      }
    }
  }

  private readDispatch(offset: number, parts: number): void {
    const { record, reader } = this;
    const { cells } = reader;
    record.group = cells[offset + 1]!;
    record.batch = cells[offset + 2]!;
    record.accelerator = cells[offset + 3]!;
    record.queue = cells[offset + 4]!;
    const size = cells[offset + 5]!;
    record.execAt = cells[offset + 6]!;
    record.execUs = cells[offset + 7]!;
    record.close = cells[offset + 8]!;
    record.at = cells[offset + 9]!;
    record.openedAt = cells[offset + 10]!;
    record.slots.length = 0;
    for (let part = 1; part < parts; part++) {
      const at = reader.offsetAt(part);
      for (let cell = 1; cell < RING_WIDTH && record.slots.length < size; cell++) record.slots.push(cells[at + cell]!);
    }
  }

  private broke(error: unknown): void {
    if (this.hasStopped) return;
    this.hasStopped = true;
    this.onStopped?.();
    this.events.broke(error);
  }
}

function padded(record: readonly number[]): number[] {
  return [...record, ...new Array<number>(RING_WIDTH - record.length).fill(0)];
}
