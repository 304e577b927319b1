import {
  LOG_ARRIVED,
  LOG_CANCELLED,
  LOG_DISPATCH,
  LOG_END,
  LOG_FAILED,
  LOG_FINISHED,
  LOG_HELD,
  LOG_JOINED,
  LOG_LEFT,
  LOG_NETWORK,
  LOG_NUMBERS,
  LOG_QUEUE_ADDED,
  LOG_QUEUE_FAILED,
  LOG_QUEUE_REMOVED,
  LOG_WOKEN,
  type LogGroup,
  queuedHandles,
} from "../../core/event-log.js";
import { invariant, violated } from "../../core/invariant.js";
import { ProfiledLatency } from "../../core/latency/latency.js";
import { type CommandSink, Scheduler } from "../../core/scheduler.js";
import { decodeWindow, type LiveQueueSpec, WINDOW_NUMBERS } from "../../policies/live.js";
import { groupPolicy } from "../../policies/registry.js";
import { RING_WIDTH, RingReader, RingWriter } from "../../wire/ring.js";
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
  SLOTS,
  STALL_US,
  STAT_ARRIVALS,
  STAT_BATCHES,
  STAT_DUE_TURNS,
  STAT_LAG_MAX_US,
  STAT_LAG_SUM_US,
  STAT_LIVE_BATCHES,
  STAT_LIVE_REQUESTS,
  STAT_STALLS,
  STAT_TURNS,
  STOP,
  STOPPED,
} from "./scheduler-protocol.js";
import { WindowObserver } from "./window-observer.js";

/** Where events and commands are recorded. */
export interface EventRecorder {
  row(kind: number, at: number, group: number, a: number, b: number, c: number, d: number, e: number): void;
}

/** Most records taken before the timers are looked at again. */
const LOT_MAX = 1024;

/**
 * The scheduler's side of the rings: records in, the schedulers' events; commands out, records. One turn at a time, so
 * that a thread, or a test without one, drives it. It reads no clock: whoever calls `turn` read it just before.
 *
 * Order within a turn, as everywhere: batches that ended, then the rest in the order of sending, then timers. After
 * each event what is due is done, so that requests sent at once are treated as if they came one after another.
 */
export class SchedulerLoop {
  private readonly reader: RingReader;
  private readonly writer: RingWriter;
  private readonly stats: Float64Array;
  private readonly schedulers: Scheduler[] = [];
  private readonly slotHandle: Int32Array;
  private readonly slotGroup: Uint16Array;
  private queueGroup = new Int32Array(64).fill(-1);
  private queueKey = new Int32Array(64);
  /** Per group: the main thread's number of a queue, by its key. */
  private readonly keyQueue: number[][];
  private readonly recorder: EventRecorder | null;
  /** Called when the ring to the main thread is full: blocks, or throws where nothing can be waited for. */
  private readonly waitForRoom: (writer: RingWriter) => void;
  /** Slot whose arrival is being handled; -1 when it has ended meanwhile, or none is. */
  private arriving = -1;
  private now = 0;
  private dueAt = Number.POSITIVE_INFINITY;
  private hasStopped = false;

  constructor(setup: SchedulerSetup, waitForRoom: (writer: RingWriter) => void, recorder: EventRecorder | null) {
    this.reader = new RingReader(setup.toScheduler);
    this.writer = new RingWriter(setup.fromScheduler);
    this.stats = new Float64Array(setup.stats);
    this.slotHandle = new Int32Array(setup.slots).fill(-1);
    this.slotGroup = new Uint16Array(setup.slots);
    this.keyQueue = setup.groups.map(() => []);
    this.waitForRoom = waitForRoom;
    this.recorder = recorder;
    for (let group = 0; group < setup.groups.length; group++) this.addGroup(setup.groups[group]!, group);
  }

  get isStopped(): boolean {
    return this.hasStopped;
  }

  /** Sleeps until a record is there or `timeoutMs` passed. */
  sleep(timeoutMs: number): void {
    this.reader.wait(timeoutMs);
  }

  /**
   * Takes what came, does what is due.
   * @returns when the next turn is due if no record comes before; Infinity: only a record is waited for.
   */
  turn(clock: number): number {
    const { stats } = this;
    this.now = Math.max(this.now, clock);
    const now = this.now;
    stats[STAT_TURNS] = stats[STAT_TURNS]! + 1;
    if (this.dueAt <= now) this.noteLag(now - this.dueAt);
    const count = Math.min(this.reader.available, LOT_MAX);
    this.takeEnded(count, now);
    this.reader.release(this.takeRest(count, now));
    let dueAt = Number.POSITIVE_INFINITY;
    let liveRequests = 0;
    let liveBatches = 0;
    for (let group = 0; group < this.schedulers.length; group++) {
      const scheduler = this.schedulers[group]!;
      this.wakeDue(scheduler, group, now);
      dueAt = Math.min(dueAt, scheduler.nextWakeAt);
      liveRequests += scheduler.requests.live;
      liveBatches += scheduler.batches.live;
    }
    stats[STAT_LIVE_REQUESTS] = liveRequests;
    stats[STAT_LIVE_BATCHES] = liveBatches;
    this.writer.publish();
    this.dueAt = dueAt;
    return this.reader.available > 0 ? now : dueAt;
  }

  private noteLag(lagUs: number): void {
    const { stats } = this;
    stats[STAT_DUE_TURNS] = stats[STAT_DUE_TURNS]! + 1;
    stats[STAT_LAG_SUM_US] = stats[STAT_LAG_SUM_US]! + lagUs;
    if (lagUs > stats[STAT_LAG_MAX_US]!) stats[STAT_LAG_MAX_US] = lagUs;
    if (lagUs > STALL_US) stats[STAT_STALLS] = stats[STAT_STALLS]! + 1;
  }

  private wakeDue(scheduler: Scheduler, group: number, now: number): void {
    if (scheduler.nextWakeAt > now) return;
    this.recorder?.row(LOG_WOKEN, now, group, 0, 0, 0, 0, 0);
    scheduler.wake(now);
  }

  private takeEnded(count: number, now: number): void {
    const { cells } = this.reader;
    for (let index = 0; index < count; index++) {
      const at = this.reader.offsetAt(index);
      const kind = cells[at]!;
      if (kind !== BATCH_FINISHED && kind !== BATCH_FAILED) continue;
      const group = cells[at + 1]!;
      const batch = cells[at + 2]!;
      const scheduler = this.schedulers[group]!;
      if (kind === BATCH_FINISHED) {
        // The worker's clock reading may be a microsecond ahead of ours.
        const endAt = Math.min(cells[at + 4]!, now);
        const startAt = Math.min(cells[at + 3]!, endAt);
        this.recorder?.row(LOG_FINISHED, now, group, batch, startAt, endAt, 0, 0);
        scheduler.finished(batch, startAt, endAt, now);
      } else {
        const cause = cells[at + 3]!;
        const told = cells[at + 4]!;
        const hasBegun = told < 0 ? scheduler.isFirst(batch) : told === 1;
        this.recorder?.row(LOG_FAILED, now, group, batch, cause, hasBegun ? 1 : 0, 0, 0);
        scheduler.failed(batch, cause, now, hasBegun);
      }
    }
  }

  /** @returns records taken: `count`, or more when a message of several began before it. */
  private takeRest(count: number, now: number): number {
    const { cells } = this.reader;
    let index = 0;
    for (; index < count; index++) {
      const at = this.reader.offsetAt(index);
      switch (cells[at]!) {
        case ARRIVE:
          this.arrive(cells[at + 1]!, cells[at + 2]!, cells[at + 3]!, cells[at + 4]!, now);
          break;
        case CANCEL:
          this.cancel(cells[at + 1]!, now);
          break;
        case JOIN:
        case LEAVE:
          this.joinOrLeave(cells[at] === JOIN, cells[at + 1]!, cells[at + 2]!, cells[at + 3]!, now);
          break;
        case DELAYS:
          this.delaysChanged(cells[at + 1]!, cells[at + 2]!, cells[at + 3]!, cells[at + 4]!, now);
          break;
        case ADD_QUEUE:
          index = this.addQueue(index, now);
          break;
        case REMOVE_QUEUE:
          this.removeQueue(cells[at + 1]!, now);
          break;
        case FAIL_QUEUE:
          this.failQueue(cells[at + 1]!, cells[at + 2]!, now);
          break;
        case HOLD:
          this.hold(cells[at + 1]!, cells[at + 2]!, now);
          break;
        case STOP:
          this.hasStopped = true;
          this.claim(STOPPED);
          break;
      }
    }
    return index;
  }

  private arrive(slot: number, queue: number, receivedAt: number, deadline: number, now: number): void {
    const group = this.queueGroup[queue]!;
    const scheduler = this.schedulers[group]!;
    const arrivalAt = Math.min(receivedAt, now);
    const key = this.queueKey[queue]!;
    this.stats[STAT_ARRIVALS] = this.stats[STAT_ARRIVALS]! + 1;
    this.slotGroup[slot] = group;
    this.recorder?.row(LOG_ARRIVED, now, group, key, slot, arrivalAt, deadline, 0);
    // Its handle is known only afterwards, and it may end within the call: then there is none to keep.
    this.slotHandle[slot] = -1;
    this.arriving = slot;
    const isIn = scheduler.arrive(key, slot, arrivalAt, deadline, now);
    invariant(isIn, `scheduler table must hold every slot; full at slot ${slot}`);
    if (this.arriving === slot) this.slotHandle[slot] = scheduler.requests.lastAdded;
    this.arriving = -1;
    this.wakeDue(scheduler, group, now);
  }

  private cancel(slot: number, now: number): void {
    const handle = this.slotHandle[slot]!;
    if (handle < 0) return; // It ended while the cancellation was on its way.
    const group = this.slotGroup[slot]!;
    this.recorder?.row(LOG_CANCELLED, now, group, handle, 0, 0, 0, 0);
    this.schedulers[group]!.cancel(handle, now);
    this.wakeDue(this.schedulers[group]!, group, now);
  }

  private joinOrLeave(isJoin: boolean, group: number, accelerator: number, scale: number, now: number): void {
    const scheduler = this.schedulers[group]!;
    this.recorder?.row(isJoin ? LOG_JOINED : LOG_LEFT, now, group, accelerator, isJoin ? scale : 0, 0, 0, 0);
    if (isJoin) scheduler.join(accelerator, scale, now);
    else scheduler.leave(accelerator, now);
    this.wakeDue(scheduler, group, now);
  }

  private hold(queue: number, isHeld: number, now: number): void {
    const group = this.queueGroup[queue]!;
    const scheduler = this.schedulers[group]!;
    this.recorder?.row(LOG_HELD, now, group, this.queueKey[queue]!, isHeld, 0, 0, 0);
    scheduler.hold(this.queueKey[queue]!, isHeld === 1, now);
    this.wakeDue(scheduler, group, now);
  }

  private delaysChanged(
    queue: number,
    controlUs: number,
    dataUsPerRequest: number,
    responseUs: number,
    now: number,
  ): void {
    const group = this.queueGroup[queue]!;
    const key = this.queueKey[queue]!;
    const scheduler = this.schedulers[group]!;
    this.recorder?.row(LOG_NETWORK, now, group, controlUs, dataUsPerRequest, responseUs, key + 1, 0);
    scheduler.networkChanged({ controlUs, dataUsPerRequest, responseUs }, now, key);
    this.wakeDue(scheduler, group, now);
  }

  /** @returns index of the last record that belongs to it. */
  private addQueue(first: number, now: number): number {
    const { cells } = this.reader;
    const head = this.reader.offsetAt(first);
    const group = cells[head + 1]!;
    const queue = cells[head + 2]!;
    const sloUs = cells[head + 3]!;
    const lengthMax = cells[head + 4]!;
    const sizeMax = cells[head + 5]!;
    const numbers = new Float64Array(WINDOW_NUMBERS + sizeMax);
    let index = first;
    for (let taken = 0; taken < numbers.length; ) {
      const at = this.reader.offsetAt(++index);
      invariant(cells[at] === NUMBERS, `record after ADD_QUEUE must be NUMBERS; was ${cells[at]}`);
      for (let cell = 1; cell < RING_WIDTH && taken < numbers.length; cell++) numbers[taken++] = cells[at + cell]!;
    }
    const table = new Float64Array(sizeMax + 2);
    table.set(numbers.subarray(WINDOW_NUMBERS), 1);
    table[sizeMax + 1] = Number.POSITIVE_INFINITY;
    const spec: LiveQueueSpec = {
      latency: new ProfiledLatency(table),
      sloUs,
      lengthMax,
      window: decodeWindow(numbers, 0),
    };
    const key = this.schedulers[group]!.addQueue(spec);
    if (queue >= this.queueGroup.length) this.growQueues(queue);
    this.queueGroup[queue] = group;
    this.queueKey[queue] = key;
    this.keyQueue[group]![key] = queue;
    const { recorder } = this;
    if (recorder !== null) {
      recorder.row(LOG_QUEUE_ADDED, now, group, key, sloUs, lengthMax, sizeMax, WINDOW_NUMBERS);
      const number = (at: number): number => numbers[at] ?? 0;
      for (let at = 0; at < numbers.length; at += 5)
        recorder.row(
          LOG_NUMBERS,
          now,
          group,
          number(at),
          number(at + 1),
          number(at + 2),
          number(at + 3),
          number(at + 4),
        );
    }
    return index;
  }

  private growQueues(queue: number): void {
    const capacity = Math.max(queue + 1, this.queueGroup.length * 2);
    const groups = new Int32Array(capacity).fill(-1);
    groups.set(this.queueGroup);
    const keys = new Int32Array(capacity);
    keys.set(this.queueKey);
    this.queueGroup = groups;
    this.queueKey = keys;
  }

  private removeQueue(queue: number, now: number): void {
    const group = this.queueGroup[queue]!;
    const key = this.queueKey[queue]!;
    this.recorder?.row(LOG_QUEUE_REMOVED, now, group, key, 0, 0, 0, 0);
    this.schedulers[group]!.removeQueue(key);
    this.queueGroup[queue] = -1;
  }

  private failQueue(queue: number, cause: number, now: number): void {
    const group = this.queueGroup[queue]!;
    const key = this.queueKey[queue]!;
    const scheduler = this.schedulers[group]!;
    this.recorder?.row(LOG_QUEUE_FAILED, now, group, key, cause, 0, 0, 0);
    scheduler.failQueued(key, [...queuedHandles(scheduler, key)], now, cause);
  }

  private addGroup(options: LogGroup, group: number): void {
    const observer = new WindowObserver();
    const sink: CommandSink = {
      dispatch: (batch, accelerator, at) => this.dispatch(group, observer, batch, accelerator, at),
      end: (handle, outcome, reason, execStartAt, at) => this.end(group, handle, outcome, reason, execStartAt, at),
      batchEnded: () => {},
      preempt: (batch) => violated(`batch ${batch}: a live policy does not preempt`),
    };
    this.schedulers.push(new Scheduler(observer.observe(groupPolicy(options)), sink, options));
  }

  private dispatch(group: number, observer: WindowObserver, batch: number, accelerator: number, at: number): void {
    const { batches, requests } = this.schedulers[group]!;
    const key = batches.queue[batch]!;
    const size = batches.size[batch]!;
    this.stats[STAT_BATCHES] = this.stats[STAT_BATCHES]! + 1;
    this.recorder?.row(LOG_DISPATCH, at, group, batch, accelerator, key, size, batches.execAt[batch]!);
    const { cells } = this.writer;
    let offset = this.claim(DISPATCH);
    cells[offset + 1] = group;
    cells[offset + 2] = batch;
    cells[offset + 3] = accelerator;
    cells[offset + 4] = this.keyQueue[group]![key]!;
    cells[offset + 5] = size;
    cells[offset + 6] = batches.execAt[batch]!;
    cells[offset + 7] = batches.execUs[batch]!;
    cells[offset + 8] = batches.close[batch]!;
    cells[offset + 9] = at;
    cells[offset + 10] = observer.openedAt(key, at);
    let cell = RING_WIDTH;
    for (let handle = batches.first[batch]!; handle >= 0; handle = requests.next[handle]!) {
      if (cell === RING_WIDTH) {
        offset = this.claim(SLOTS);
        cell = 1;
      }
      cells[offset + cell++] = requests.tag[handle]!;
    }
  }

  private end(group: number, handle: number, outcome: number, reason: number, execStartAt: number, at: number): void {
    const slot = this.schedulers[group]!.requests.tag[handle]!;
    this.slotHandle[slot] = -1;
    if (this.arriving === slot) this.arriving = -1;
    this.recorder?.row(LOG_END, at, group, slot, outcome, reason, execStartAt, 0);
    const { cells } = this.writer;
    const offset = this.claim(END);
    cells[offset + 1] = slot;
    cells[offset + 2] = outcome;
    cells[offset + 3] = reason;
    cells[offset + 4] = execStartAt;
    cells[offset + 5] = at;
  }

  private claim(kind: number): number {
    let offset = this.writer.claim();
    while (offset < 0) {
      this.writer.publish();
      this.waitForRoom(this.writer);
      offset = this.writer.claim();
    }
    this.writer.cells[offset] = kind;
    return offset;
  }
}
