import type { LatencyModel } from "../latency/latency.js";
import type { CoreView, QueueKey, QueueSpec } from "../policy.js";
import type { AcceleratorId } from "../tables/accelerator-table.js";
import { ShadowQueue } from "./shadow-queue.js";
import { ShadowRoom } from "./shadow-room.js";

/** A run is taken to have ended by this quantile of what its kind takes alone. */
const SURE = 0.99;

export const aloneUs = (latency: LatencyModel, kind: number): number =>
  latency.aloneQuantileUs?.(kind, SURE) ?? latency.quantileUs(1, SURE);

/** The shadow queues of a scheduler: which of them gets which accelerator when nobody else wants it. */
export class ShadowRuns {
  /** The accelerator for the queue that `next` says. */
  accelerator: AcceleratorId = -1;
  private readonly room: ShadowRoom;
  private readonly queues = new Map<QueueKey, ShadowQueue>();
  private readonly core: CoreView;
  private readonly specs: readonly (QueueSpec | undefined)[];
  private readonly timesOf: (key: QueueKey) => LatencyModel;
  private isDue = false;

  /** @param specs of all queues of the scheduler, by key; undefined: removed. @param timesOf what is known by kind, by the key of a shadow queue. */
  constructor(core: CoreView, specs: ShadowRuns["specs"], timesOf: ShadowRuns["timesOf"]) {
    this.timesOf = timesOf;
    this.core = core;
    this.specs = specs;
    this.room = new ShadowRoom(core.accelerators, core.offers);
  }

  /** @param spec with the latency model of the queue that it shadows. */
  add(key: QueueKey, spec: QueueSpec): ShadowQueue {
    const queue = new ShadowQueue(key, spec, this.core);
    this.queues.set(key, queue);
    return queue;
  }

  /** Its requests count nowhere: also while one runs of a queue that was removed. */
  has(key: QueueKey): boolean {
    return this.queues.has(key);
  }

  /** The key is given out again. */
  forget(key: QueueKey): void {
    this.queues.delete(key);
  }

  /** Something changed by which one may start: a request came, or an accelerator came free. */
  look(): void {
    for (const queue of this.queues.values()) this.isDue ||= queue.length > 0;
  }

  /** `next` has something to say. */
  get lookAt(): number {
    return this.isDue ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }

  /** A request of another queue ended; see ShadowRoom. */
  requestEnded(slackUs: number): void {
    this.room.requestEnded(slackUs);
  }

  /** An accelerator ran others, or has just come. */
  used(id: AcceleratorId): void {
    this.room.used(id);
  }

  /** The queue whose first request starts now, on `accelerator`; -1: none. */
  next(at: number): QueueKey {
    this.isDue = false;
    const { room, core, specs } = this;
    for (const [key, { first }] of this.queues) {
      if (first < 0) continue;
      const id = room.idle;
      if (id < 0) return -1;
      const { controlUs, dataUsPerRequest } = core.delaysOf(key);
      const kind = core.requests.kind[first]!;
      const us = controlUs + dataUsPerRequest + aloneUs(this.timesOf(key), kind) * core.accelerators.scale[id]!;
      if (!room.isFree(id, us, at, specs)) continue;
      this.accelerator = id;
      return key;
    }
    return -1;
  }
}
