import type { LogGroup } from "../../core/event-log.js";
import {
  applyEvent,
  LOG_ACCURACY,
  LOG_ARRIVED,
  LOG_CANCELLED,
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
  LOG_SHADOW_ADDED,
  LOG_TRAITS,
  LOG_WIDTH,
  LOG_WOKEN,
  putRow,
  ROW_NUMBERS,
  type RowSink,
  writeDispatch,
  writeEnd,
} from "../../core/event-rows.js";
import { violated } from "../../core/invariant.js";
import type { NetworkDelays } from "../../core/policy.js";
import { type CommandSink, Scheduler } from "../../core/scheduler.js";
import { PLAIN } from "../../core/tables/request-table.js";
import { encodeElastic } from "../../policies/known-elastic.js";
import { encodeKinds } from "../../policies/known-kinds.js";
import { encodeWindow, liveSpec, WINDOW_NUMBERS } from "../../policies/live.js";
import { groupPolicy } from "../../policies/registry.js";
import {
  blankDispatch,
  type DispatchRecord,
  type QueueRecord,
  type SchedulerEvents,
  type SchedulerRow,
  type ShadowScheduler,
} from "../live-scheduler.js";
import { WindowObserver } from "./window-observer.js";

/** Later than this to what was due, this process did not run. */
const STALL_US = 50_000;

/** Of a queue whose key is not given out yet (LOG_QUEUE_ADDED). */
const NO_KEY = -1;

/**
 * The schedulers of all accelerator groups, as the live server drives them: what is said between two turns waits as rows
 * of events, and a turn applies them; commands go out as calls. It reads no clock: whoever calls `turn` read it just before.
 *
 * Nothing is decided while it is told something, and what is said to it while it carries commands out waits for the next
 * turn. What waits is bounded by what is in flight: slots, batches, accelerators, queues.
 *
 * Order within a turn, as everywhere: batches that ended, then the rest in the order of saying, then timers. After
 * each event what is due is done, so that requests sent at once are treated as if they came one after another.
 */
export class SchedulerLoop implements ShadowScheduler {
  readonly shadows: ShadowScheduler = this;
  /** Counted as they happen. */
  private readonly counts = { turns: 0, stalls: 0, lagSumUs: 0, lagMaxUs: 0, dueTurns: 0 };
  private readonly schedulers: Scheduler[] = [];
  /** What was said since the last turn began; queues and slots are those of whoever said it until a row is applied. */
  private rows = new Float64Array(256 * LOG_WIDTH);
  private used = 0;
  /** What this turn applies. */
  private taken = new Float64Array(256 * LOG_WIDTH);
  private readonly slotHandle: Int32Array;
  private readonly slotGroup: Uint16Array;
  /** By the driver's number of a queue. */
  private readonly queueGroup: number[] = [];
  private readonly queueKey: number[] = [];
  /** Per group: the driver's number of a queue, by its key. */
  private readonly keyQueue: number[][] = [];
  private readonly events: Pick<SchedulerEvents, "dispatched" | "ended" | "predicted">;
  private readonly recorder: RowSink | null;
  private readonly record: DispatchRecord = blankDispatch();
  /** Slot whose arrival is being handled; -1 when it has ended meanwhile, or none is. */
  private arriving = -1;
  private now = 0;
  private dueAt = Number.POSITIVE_INFINITY;

  /** @param slots requests at once; each has one of [0, slots). @param recorder of events and commands. */
  constructor(
    groups: readonly LogGroup[],
    slots: number,
    events: Pick<SchedulerEvents, "dispatched" | "ended" | "predicted">,
    recorder: RowSink | null,
  ) {
    this.slotHandle = new Int32Array(slots).fill(-1);
    this.slotGroup = new Uint16Array(slots);
    this.events = events;
    this.recorder = recorder;
    for (let group = 0; group < groups.length; group++) this.addGroup(groups[group]!, group);
  }

  get measured(): SchedulerRow {
    let liveRequests = 0;
    let liveBatches = 0;
    for (const { requests, batches } of this.schedulers) {
      liveRequests += requests.live;
      liveBatches += batches.live;
    }
    return { ...this.counts, liveRequests, liveBatches };
  }

  /** Whether something was said that no turn has taken. */
  get hasWork(): boolean {
    return this.used > 0;
  }

  // What is said

  arrive(slot: number, queue: number, arrivalAt: number, deadline: number, traits = PLAIN): boolean {
    const group = this.queueGroup[queue]!;
    this.slotGroup[slot] = group;
    this.slotHandle[slot] = -1;
    if (traits !== PLAIN) this.say(LOG_TRAITS, group, traits.kind, traits.weight, traits.dueBy, traits.headStartUs);
    this.say(LOG_ARRIVED, group, queue, slot, arrivalAt, deadline);
    return true;
  }

  cancel(slot: number): void {
    this.say(LOG_CANCELLED, this.slotGroup[slot]!, slot);
  }

  finished(group: number, batch: number, startAt: number, endAt: number): void {
    this.say(LOG_FINISHED, group, batch, startAt, endAt);
  }

  failed(group: number, batch: number, cause: number, hasBegun: boolean | null): void {
    this.say(LOG_FAILED, group, batch, cause, hasBegun === null ? -1 : hasBegun ? 1 : 0);
  }

  join(group: number, accelerator: number, scale: number): void {
    this.say(LOG_JOINED, group, accelerator, scale);
  }

  leave(group: number, accelerator: number): void {
    this.say(LOG_LEFT, group, accelerator);
  }

  delays(queue: number, { controlUs, dataUsPerRequest, responseUs }: NetworkDelays): void {
    this.say(LOG_NETWORK, this.queueGroup[queue]!, controlUs, dataUsPerRequest, responseUs, queue);
  }

  addQueue(queueRecord: QueueRecord): boolean {
    const { group, queue, sloUs, lengthMax, window, timesUs } = queueRecord;
    this.queueGroup[queue] = group;
    const known = [...encodeKinds(queueRecord), ...encodeElastic(queueRecord.elastic)];
    const ofPolicy = WINDOW_NUMBERS + known.length;
    const numbers = new Float64Array(ofPolicy + timesUs.length);
    encodeWindow(window, numbers, 0);
    numbers.set(known, WINDOW_NUMBERS);
    numbers.set(Array.from(timesUs), ofPolicy);
    this.say(LOG_QUEUE_ADDED, group, queue, sloUs, lengthMax, timesUs.length, ofPolicy);
    this.sayNumbers(group, numbers);
    return true;
  }

  /** Nothing where the queue's policy goes by the profile. */
  accuracies(queue: number, accuracy: readonly ArrayLike<number>[]): void {
    const group = this.queueGroup[queue]!;
    const key = this.queueKey[queue];
    if (key === undefined || !this.schedulers[group]!.takesAccuracy(key)) return;
    const variants = Math.max(...accuracy.map(({ length }) => length));
    const numbers = accuracy.flatMap((row) => Array.from({ length: variants }, (_, index) => row[index] ?? Number.NaN));
    this.say(LOG_ACCURACY, group, queue, numbers.length, variants);
    this.sayNumbers(group, numbers);
  }

  private sayNumbers(group: number, numbers: ArrayLike<number>): void {
    for (let at = 0; at < numbers.length; at += ROW_NUMBERS)
      this.say(LOG_NUMBERS, group, numbers[at]!, numbers[at + 1], numbers[at + 2], numbers[at + 3], numbers[at + 4]);
  }

  addShadow(queue: number, of: number): void {
    this.queueGroup[queue] = this.queueGroup[of]!;
    this.say(LOG_SHADOW_ADDED, this.queueGroup[of]!, queue, of);
  }

  wantedAloneUs(queue: number, kind: number, observations: number): number {
    return this.schedulers[this.queueGroup[queue]!]!.wantedAloneUs(this.queueKey[queue]!, kind, observations);
  }

  removeQueue(queue: number): void {
    this.say(LOG_QUEUE_REMOVED, this.queueGroup[queue]!, queue);
  }

  failQueue(queue: number, cause: number): void {
    this.say(LOG_QUEUE_FAILED, this.queueGroup[queue]!, queue, cause);
  }

  hold(queue: number, isHeld: boolean): void {
    this.say(LOG_HELD, this.queueGroup[queue]!, queue, isHeld ? 1 : 0);
  }

  private say(kind: number, group: number, a: number, b = 0, c = 0, d = 0, e = 0): void {
    if (this.used === this.rows.length) {
      const grown = new Float64Array(this.rows.length * 2);
      grown.set(this.rows);
      this.rows = grown;
    }
    const { rows, used } = this;
    putRow(rows, used, kind, group, a, b, c, d, e);
    this.used = used + LOG_WIDTH;
    if (used === 0) this.said();
  }

  /** Something waits for a turn that did not before. */
  protected said(): void {}

  // Turns

  /**
   * Applies what was said, does what is due.
   * @returns when the next turn is due if nothing is said before; Infinity: only that is waited for.
   */
  turn(clock: number): number {
    this.now = Math.max(this.now, clock);
    const { now, counts, rows, used, taken } = this;
    counts.turns++;
    if (this.dueAt <= now) this.noteLag(now - this.dueAt);
    this.rows = taken;
    this.taken = rows;
    this.used = 0;
    for (let from = 0; from < used; from += LOG_WIDTH) this.applyEnded(rows, from);
    for (let from = 0; from < used; ) from += this.applyRest(rows, from) * LOG_WIDTH;
    let dueAt = Number.POSITIVE_INFINITY;
    for (let group = 0; group < this.schedulers.length; group++) {
      this.wakeDue(group);
      dueAt = Math.min(dueAt, this.schedulers[group]!.nextWakeAt);
    }
    this.dueAt = dueAt;
    return this.used > 0 ? now : dueAt;
  }

  private noteLag(lagUs: number): void {
    const { counts } = this;
    counts.dueTurns++;
    counts.lagSumUs += lagUs;
    counts.lagMaxUs = Math.max(counts.lagMaxUs, lagUs);
    if (lagUs > STALL_US) counts.stalls++;
  }

  private wakeDue(group: number): void {
    const { now } = this;
    const scheduler = this.schedulers[group]!;
    if (scheduler.nextWakeAt > now) return;
    this.recorder?.row(LOG_WOKEN, now, group, 0, 0, 0, 0, 0);
    scheduler.wake(now);
  }

  private applyEnded(rows: Float64Array, from: number): void {
    const kind = rows[from];
    if (kind === LOG_FINISHED) {
      // The worker's clock reading may be a microsecond ahead of ours.
      const endAt = Math.min(rows[from + 5]!, this.now);
      rows[from + 5] = endAt;
      rows[from + 4] = Math.min(rows[from + 4]!, endAt);
    } else if (kind === LOG_FAILED) {
      const scheduler = this.schedulers[rows[from + 2]!]!;
      if (rows[from + 5]! < 0) rows[from + 5] = scheduler.isFirst(rows[from + 3]!) ? 1 : 0;
    } else return;
    this.apply(rows, from);
  }

  /** @returns rows that it has. */
  private applyRest(rows: Float64Array, from: number): number {
    const said = rows[from + 3]!;
    switch (rows[from]) {
      case LOG_FINISHED:
      case LOG_FAILED:
        return 1; // Applied before.
      case LOG_ARRIVED:
        this.applyArrival(rows, from, 1);
        break;
      case LOG_TRAITS:
        this.applyArrival(rows, from, 2);
        // With a budget it is a part of a pipeline's request: what one module hands on at once comes at once to the next.
        if (rows[from + 5]! === Number.POSITIVE_INFINITY) this.wakeDue(rows[from + 2]!);
        return 2;
      case LOG_CANCELLED:
        if (this.slotHandle[said]! < 0) return 1; // It ended while the cancellation was on its way.
        rows[from + 3] = this.slotHandle[said]!;
        this.apply(rows, from);
        break;
      case LOG_SHADOW_ADDED:
        rows[from + 4] = this.queueKey[rows[from + 4]!]!;
        return this.applyQueueAdded(rows, from);
      case LOG_QUEUE_ADDED:
        return this.applyQueueAdded(rows, from);
      case LOG_ACCURACY: {
        const count = 1 + Math.ceil(rows[from + 4]! / ROW_NUMBERS);
        rows[from + 3] = this.queueKey[said]!;
        this.apply(rows, from, count);
        this.wakeDue(rows[from + 2]!);
        return count;
      }
      case LOG_NETWORK:
        rows[from + 6] = this.queueKey[rows[from + 6]!]! + 1;
        this.apply(rows, from);
        break;
      case LOG_JOINED:
      case LOG_LEFT:
        this.apply(rows, from);
        break;
      default: // All others name a queue.
        rows[from + 3] = this.queueKey[said]!;
        this.apply(rows, from);
    }
    this.wakeDue(rows[from + 2]!);
    return 1;
  }

  /** @param count rows that it has: its traits come first. */
  private applyArrival(rows: Float64Array, from: number, count: number): void {
    const last = from + (count - 1) * LOG_WIDTH;
    const slot = rows[last + 4]!;
    rows[last + 3] = this.queueKey[rows[last + 3]!]!;
    rows[last + 5] = Math.min(rows[last + 5]!, this.now);
    rows[last + 1] = this.now;
    // Its handle is known only afterwards, and it may end within the call: then there is none to keep.
    this.arriving = slot;
    this.apply(rows, from, count);
    if (this.arriving === slot) this.slotHandle[slot] = this.schedulers[rows[from + 2]!]!.requests.lastAdded;
    this.arriving = -1;
  }

  private applyQueueAdded(rows: Float64Array, from: number): number {
    const queue = rows[from + 3]!;
    const group = rows[from + 2]!;
    rows[from + 1] = this.now;
    rows[from + 3] = NO_KEY;
    const count = applyEvent(this.schedulers[group]!, rows, from, liveSpec);
    const key = rows[from + 3]!;
    this.queueKey[queue] = key;
    this.keyQueue[group]![key] = queue;
    for (let row = 0; row < count; row++) this.note(rows, from + row * LOG_WIDTH);
    return count;
  }

  private apply(rows: Float64Array, from: number, count = 1): void {
    rows[from + 1] = this.now;
    for (let row = 0; row < count; row++) this.note(rows, from + row * LOG_WIDTH);
    applyEvent(this.schedulers[rows[from + 2]!]!, rows, from, liveSpec);
  }

  private note(rows: Float64Array, from: number): void {
    this.recorder?.row(
      rows[from]!,
      this.now,
      rows[from + 2]!,
      rows[from + 3]!,
      rows[from + 4]!,
      rows[from + 5]!,
      rows[from + 6]!,
      rows[from + 7]!,
    );
  }

  // Commands

  private addGroup(options: LogGroup, group: number): void {
    const observer = new WindowObserver();
    const sink: CommandSink = {
      dispatch: (batch, accelerator, at) => this.dispatch(group, observer, batch, accelerator, at),
      end: (handle, outcome, reason, execStartAt, at, lateByUs) =>
        this.end(group, handle, outcome, reason, execStartAt, at, lateByUs),
      batchEnded: (batch, startAt, endAt) => {
        const scheduler = this.schedulers[group]!;
        const key = scheduler.batches.queue[batch]!;
        if (scheduler.isShadow(key)) return;
        const quantile = scheduler.quantileOf(batch, endAt - startAt);
        if (!Number.isNaN(quantile)) this.events.predicted(this.keyQueue[group]![key]!, quantile);
      },
      preempt: (batch) => violated(`batch ${batch}: a live policy does not preempt`),
    };
    this.keyQueue.push([]);
    this.schedulers.push(new Scheduler(observer.observe(groupPolicy(options)), sink, options));
  }

  private dispatch(group: number, observer: WindowObserver, batch: number, accelerator: number, at: number): void {
    const scheduler = this.schedulers[group]!;
    if (this.recorder !== null) writeDispatch(this.recorder, group, scheduler, batch, at);
    const { batches, requests } = scheduler;
    const { record } = this;
    const key = batches.queue[batch]!;
    record.group = group;
    record.batch = batch;
    record.accelerator = accelerator;
    record.queue = this.keyQueue[group]![key]!;
    record.execAt = batches.execAt[batch]!;
    record.execUs = batches.execUs[batch]!;
    record.close = batches.close[batch]!;
    record.at = at;
    record.openedAt = observer.openedAt(key, at);
    record.variant = batches.variant[batch]!;
    record.slots.length = 0;
    for (let handle = batches.first[batch]!; handle >= 0; handle = requests.next[handle]!)
      record.slots.push(requests.tag[handle]!);
    this.events.dispatched(record);
  }

  private end(
    group: number,
    handle: number,
    outcome: number,
    reason: number,
    execStartAt: number,
    at: number,
    lateByUs: number,
  ): void {
    const slot = this.schedulers[group]!.requests.tag[handle]!;
    this.slotHandle[slot] = -1;
    if (this.arriving === slot) this.arriving = -1;
    if (this.recorder !== null) writeEnd(this.recorder, group, slot, outcome, reason, execStartAt, at, lateByUs);
    this.events.ended(slot, outcome, reason, execStartAt, at, lateByUs);
  }
}
