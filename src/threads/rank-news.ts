import { profileOf } from "../core/latency/latency.js";
import type { Learning } from "../core/latency/learner.js";
import type { SizeFactors } from "../core/latency/size-factors.js";
import type { NetworkDelays, QueueKey, QueueSpec } from "../core/policy.js";
import type { RankShare } from "../core/shared-numbers.js";
import type { AcceleratorId, AcceleratorTable } from "../core/tables/accelerator-table.js";
import type { Pace, RecordWriter } from "./channel.js";
import * as is from "./messages.js";

export interface RankNewsOptions {
  readonly network: NetworkDelays;
  readonly acceleratorsMax: number;
  readonly queuesMax: number;
  readonly learn: Learning;
}

/** An accelerator is granted to one queue at a time, and a queue is asked to look, and for its demand, once: and news. */
export const questionRoom = (queuesMax: number, acceleratorsMax: number): number =>
  2 * (2 * queuesMax + acceleratorsMax) + 64;

/** Scale of an accelerator that is not there. */
const ABSENT = 0;

/**
 * What the rank tells queue threads unasked: which accelerators there are and how fast, what was learnt, which queues are
 * forgotten, what the other threads' queues say.
 *
 * News may wait, and questions may not: it is told when there is room beside all that may be asked, the newest of it.
 */
export class RankNews {
  network: NetworkDelays;
  private readonly options: RankNewsOptions;
  private readonly accelerators: AcceleratorTable;
  private readonly specs: readonly (QueueSpec | undefined)[];
  private readonly threadOf: Int32Array;
  private readonly toQueues: readonly RecordWriter[];
  private readonly pace: Pace;
  private readonly share: RankShare | null;
  /** By thread: it runs; it must hear of the fleet. */
  private readonly isHere: Uint8Array;
  private readonly fleetDue: Uint8Array;
  /** By key: version of the profile that the queue was told, for learning. */
  private readonly toldVersion: Float64Array;
  /** By thread: the scales that it was told; null: nothing is shared yet. */
  private readonly toldScales: (Float64Array | null)[];
  private isLearnt = false;
  /** Queues that are forgotten and whose thread has not been told: [thread, key]. */
  private readonly forgotten: [number, QueueKey][] = [];

  /** @param specs of the queues by key, for learning. @param threadOf the thread that holds the queue, by key. */
  constructor(
    options: RankNewsOptions,
    accelerators: AcceleratorTable,
    specs: readonly (QueueSpec | undefined)[],
    threadOf: Int32Array,
    toQueues: readonly RecordWriter[],
    pace: Pace,
    share: RankShare | null,
  ) {
    this.options = options;
    this.network = options.network;
    this.accelerators = accelerators;
    this.specs = specs;
    this.threadOf = threadOf;
    this.toQueues = toQueues;
    this.pace = pace;
    this.share = share;
    this.isHere = new Uint8Array(toQueues.length);
    this.fleetDue = new Uint8Array(toQueues.length);
    this.toldVersion = new Float64Array(options.queuesMax);
    this.toldScales = toQueues.map(() => null);
  }

  threadStarted(thread: number): void {
    this.isHere[thread] = 1;
    this.fleetDue[thread] = 1;
    this.toldScales[thread] = null;
  }

  threadEnded(thread: number): void {
    this.isHere[thread] = 0;
    this.fleetDue[thread] = 0;
  }

  queueAdded(key: QueueKey): void {
    this.toldVersion[key] = 0;
  }

  /** No question about it can come any more; its thread is told, and then it is nowhere. */
  queueForgotten(thread: number, key: QueueKey): void {
    this.forgotten.push([thread, key]);
  }

  fleetChanged(): void {
    this.isLearnt = true;
    for (let thread = 0; thread < this.fleetDue.length; thread++) this.fleetDue[thread] = this.isHere[thread]!;
  }

  /** Told though nothing may have changed: from now on the queue says anew when it gives requests up. */
  released(key: QueueKey): void {
    this.toldVersion[key] = -1;
    this.isLearnt = true;
  }

  /** Before a question to a queue of the thread. */
  beforeQuestion(thread: number): void {
    const { share } = this;
    if (share?.isAskedFor !== true || !this.hasRoom(thread) || !share.isNews(thread)) return;
    const offset = this.claim(thread, is.OTHERS);
    share.writeOthers(thread, this.toQueues[thread]!.cells, offset + 1);
  }

  /** Before a grant. @returns how many times were told; -1: none, for the queue need not know or the ring is full. */
  tellFreeTimes(share: RankShare, thread: number, key: QueueKey, granted: AcceleratorId, at: number): number {
    const times = share.othersFreeAt(key, granted, at);
    const records = times === null ? 0 : Math.ceil(times.length / (is.RANK_WIDTH - 1));
    if (times === null || !this.hasRoom(thread, records)) return -1;
    for (let index = 0; index < times.length; ) {
      const offset = this.claim(thread, is.FREE_AT);
      const { cells } = this.toQueues[thread]!;
      for (let cell = 1; cell < is.RANK_WIDTH; cell++)
        cells[offset + cell] = index < times.length ? times[index++]! : -1;
    }
    return times.length;
  }

  tell(): void {
    while (this.forgotten.length > 0) {
      const [thread, key] = this.forgotten[0]!;
      if (!this.hasRoom(thread)) break;
      const offset = this.claim(thread, is.REMOVED);
      this.toQueues[thread]!.cells[offset + 1] = key;
      this.threadOf[key] = is.NOWHERE;
      this.forgotten.shift();
    }
    if (this.isLearnt) this.isLearnt = this.options.learn !== false && !this.tellLatencies();
    for (let thread = 0; thread < this.fleetDue.length; thread++) {
      if (this.fleetDue[thread] === 0 || !this.tellScales(thread) || !this.hasRoom(thread)) continue;
      this.fleetDue[thread] = 0;
      const offset = this.claim(thread, is.FLEET);
      const { cells } = this.toQueues[thread]!;
      cells[offset + 1] = this.accelerators.count;
      cells[offset + 2] = this.accelerators.fastestScale;
      cells[offset + 3] = this.network.controlUs;
      cells[offset + 4] = this.network.dataUsPerRequest;
      cells[offset + 5] = this.network.responseUs;
      cells[offset + 6] = this.network.decisionUs ?? 0;
    }
  }

  /** @returns false when some must wait for room. */
  private tellLatencies(): boolean {
    let isAllTold = true;
    for (let key = 0; key < this.specs.length; key++) {
      const latency = profileOf(this.specs[key]);
      if (latency === undefined || latency.version === this.toldVersion[key]) continue;
      const thread = this.threadOf[key]!;
      if (!this.hasRoom(thread, 2)) {
        isAllTold = false;
        continue;
      }
      this.toldVersion[key] = latency.version;
      if (latency.sizes.isAny) this.tellSizes(thread, key, latency.sizes);
      const offset = this.claim(thread, is.LATENCY);
      const { cells } = this.toQueues[thread]!;
      cells[offset + 1] = key;
      cells[offset + 2] = latency.multiple;
    }
    return isAllTold;
  }

  private tellSizes(thread: number, key: QueueKey, sizes: SizeFactors): void {
    const offset = this.claim(thread, is.LATENCY_SIZES);
    const { cells } = this.toQueues[thread]!;
    cells[offset + 1] = key;
    for (let cell = 2, bin = 0; cell < is.RANK_WIDTH; cell++, bin++)
      cells[offset + cell] = bin < sizes.bins ? sizes.ofBin(bin) : -1;
  }

  /** Those that are other ones than the thread was told, where something is shared. @returns false when some must wait for room. */
  private tellScales(thread: number): boolean {
    if (this.share?.isAskedFor !== true) return true;
    const { present, scale, capacity } = this.accelerators;
    this.toldScales[thread] ??= new Float64Array(capacity).fill(ABSENT);
    const told = this.toldScales[thread];
    for (let id = 0; id < capacity; ) {
      const isNow = present[id] === 1 ? scale[id]! : ABSENT;
      if (told[id] === isNow) {
        id++;
        continue;
      }
      if (!this.hasRoom(thread)) return false;
      const offset = this.claim(thread, is.SCALES);
      const { cells } = this.toQueues[thread]!;
      let cell = 1;
      for (; id < capacity && cell < is.RANK_WIDTH - 1; id++) {
        const isNow = present[id] === 1 ? scale[id]! : ABSENT;
        if (told[id] === isNow) continue;
        told[id] = isNow;
        cells[offset + cell] = id;
        cells[offset + cell + 1] = isNow;
        cell += 2;
      }
      if (cell < is.RANK_WIDTH) cells[offset + cell] = -1;
    }
    return true;
  }

  private claim(thread: number, kind: number): number {
    const writer = this.toQueues[thread]!;
    const offset = writer.claim();
    writer.cells[offset] = kind;
    return offset;
  }

  /** Beside all questions that there may be. */
  private hasRoom(thread: number, records = 1): boolean {
    const { queuesMax, acceleratorsMax } = this.options;
    const { free } = this.toQueues[thread]!;
    return this.pace.room(thread, free >= 2 * queuesMax + acceleratorsMax + records);
  }
}
