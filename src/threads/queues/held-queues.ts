import { invariant, violated } from "../../core/invariant.js";
import type { Learning } from "../../core/latency/learner.js";
import type { Queue, QueueKey, QueueView, SeparablePolicy } from "../../core/policy.js";
import type { QueueSide } from "../../core/queue-side.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import type { RequestHandle } from "../../core/tables/request-table.js";
import * as is from "../messages.js";
import { ArrivingTable, latencyOf } from "../table-records.js";
import type { OfferPoster } from "./offer-poster.js";
import type { QueueOutbox } from "./queue-outbox.js";

export interface HeldQueuesOptions {
  readonly policy: SeparablePolicy;
  /** Keys are in [0, queuesMax), over all threads. */
  readonly queuesMax: number;
  /** The rank learns from measured batches: it is told the profiles. */
  readonly learn: Learning;
}

/** A queue whose numbers are still coming: its rules, then its profile. */
interface AnnouncedQueue {
  readonly key: QueueKey;
  readonly sloUs: number;
  readonly lengthMax: number;
  readonly rules: number;
  readonly table: ArrivingTable;
}

/** To the front, which gives the request to whoever holds the queue next. */
type HandOver = (request: RequestHandle, isAlone: boolean) => void;

const OPEN = 0;
/** Handed its requests over; batches are in flight. */
const CLOSING = 1;
/** The rank has been told to forget it. */
const REMOVING = 2;

/** Which queues this thread holds: announced -> open -> closing -> removing -> gone, and perhaps announced again. */
export class HeldQueues {
  private readonly options: HeldQueuesOptions;
  private readonly side: QueueSide;
  private readonly view: QueueView;
  private readonly poster: OfferPoster;
  private readonly outbox: QueueOutbox;
  private readonly handOver: HandOver;
  private readonly state: Uint8Array;
  /** Batches in flight, by key. */
  private readonly inFlight: Int32Array;
  private announced: AnnouncedQueue | null = null;

  /** @param view what the policy's queues see. */
  constructor(
    options: HeldQueuesOptions,
    side: QueueSide,
    view: QueueView,
    poster: OfferPoster,
    outbox: QueueOutbox,
    handOver: HandOver,
  ) {
    this.options = options;
    this.side = side;
    this.view = view;
    this.poster = poster;
    this.outbox = outbox;
    this.handOver = handOver;
    this.state = new Uint8Array(options.queuesMax);
    this.inFlight = new Int32Array(options.queuesMax);
  }

  get isEmpty(): boolean {
    return this.side.queues.every((queue) => queue === undefined);
  }

  /** @param cells of an ADD_QUEUE record. */
  announce(cells: Float64Array, from: number): void {
    const rules = cells[from + 5]!;
    this.announced = {
      key: cells[from + 1]!,
      sloUs: cells[from + 2]!,
      lengthMax: cells[from + 3]!,
      rules,
      table: new ArrivingTable(rules + cells[from + 4]!, is.IN_WIDTH),
    };
  }

  /** The queue is open when all of its numbers are there. @param cells of a TABLE record. */
  takeTable(cells: Float64Array, from: number): void {
    const { announced } = this;
    if (announced === null) violated("a table came for no queue");
    if (!announced.table.take(cells, from)) return;
    this.announced = null;
    this.open(announced);
  }

  private open({ key, sloUs, lengthMax, rules, table: { numbers } }: AnnouncedQueue): void {
    const { side, options } = this;
    invariant(side.queues[key] === undefined, `queue ${key} must be closed before it is added again`);
    const us = numbers.subarray(rules);
    const spec = { latency: latencyOf(us), sloUs, lengthMax, rules: numbers.subarray(0, rules) };
    side.specs[key] = spec;
    this.state[key] = OPEN;
    this.inFlight[key] = 0;
    this.poster.reset(key);
    this.outbox.queueAdded(key, sloUs, options.learn ? us : null);
    side.queues[key] = options.policy.createQueue(key, spec, this.view);
  }

  dispatched(key: QueueKey): void {
    this.inFlight[key] = this.inFlight[key]! + 1;
  }

  /** A batch of it ended, its members have. */
  landed(key: QueueKey): void {
    this.inFlight[key] = this.inFlight[key]! - 1;
    this.removeWhenIdle(key);
  }

  /** The queue moves or goes: who waits is handed back to the front, and so is whoever comes back from a batch. */
  close(key: QueueKey, now: number): void {
    const { side } = this;
    const queue = side.queue(key);
    invariant(this.state[key] === OPEN, `queue ${key} is closing already`);
    if (queue.giveAway === undefined) violated(`queue ${key} cannot give its requests away`);
    queue.giveAway(this.handOver);
    side.queues[key] = new ClosingQueue(this.handOver);
    this.state[key] = CLOSING;
    this.poster.withdraw(key, now);
    this.removeWhenIdle(key);
  }

  private removeWhenIdle(key: QueueKey): void {
    if (this.state[key] !== CLOSING || this.inFlight[key]! > 0) return;
    this.state[key] = REMOVING;
    this.poster.settle(key);
    this.outbox.queueRemoved(key);
  }

  /** The rank has forgotten the queue: no question about it can come any more. */
  removed(key: QueueKey): void {
    invariant(this.state[key] === REMOVING && this.inFlight[key] === 0, `queue ${key} is not being removed`);
    this.state[key] = OPEN;
    this.side.forget(key);
    this.outbox.closed(key);
  }
}

/** Stands for a queue that has gone elsewhere while its last batches are out: whoever comes back follows it. */
class ClosingQueue implements Queue {
  readonly length = 0;
  private readonly handOver: HandOver;

  constructor(handOver: HandOver) {
    this.handOver = handOver;
  }

  arrived(request: RequestHandle): void {
    this.handOver(request, false);
  }
  returned(request: RequestHandle, alone: boolean): void {
    this.handOver(request, alone);
  }
  remove(): void {}
  refresh(): void {}
  planChanged(): void {}
  refreshDemand(): void {}
  take(): BatchId {
    return -1;
  }
}
