import { CLOSE_FULL, CLOSE_RETRY, CLOSE_WINDOW } from "../../core/outcome.js";
import type { Queue, QueueKey, QueueSpec, QueueView } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import type { RequestHandle } from "../../core/tables/request-table.js";
import { BatchTimes } from "../batch-times.js";
import { RankArbiter } from "../deferred/rank-arbiter.js";
import { definePolicy } from "../descriptor.js";
import { WaitingRequests } from "../waiting-requests.js";

/**
 * The policy that docs/add-a-policy.md walks through: earliest deadline first, in batches of one size.
 *
 * A batch leaves when as many wait as it is to hold, or when its earliest deadline lets it wait no longer. Nothing is
 * measured and nothing is learnt: what such counting costs beside a policy that looks at deadlines is what it is good for.
 */
class FixedSizeQueue implements Queue {
  private readonly waiting: WaitingRequests;
  private readonly times: BatchTimes;
  /** Requests that a batch is to hold: the option's, never above the model's. */
  private readonly full: number;
  private readonly key: QueueKey;
  private readonly core: QueueView;

  constructor(key: QueueKey, spec: QueueSpec, core: QueueView, size: number) {
    this.key = key;
    this.core = core;
    this.full = Math.min(size, spec.latency.sizeMax);
    this.waiting = new WaitingRequests(core);
    this.times = new BatchTimes(key, spec, core);
  }

  get length(): number {
    return this.waiting.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.waiting.push(request);
    this.refresh(at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    this.waiting.takeBack(request, alone);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    this.waiting.remove(request);
    this.refresh(at);
  }

  refresh(at: number): void {
    this.dropLate(at);
    this.publish(at);
    this.core.offerChanged(this.key, at);
  }

  planChanged(at: number): void {
    this.refresh(at);
  }

  refreshDemand(_at: number): void {}

  take(accelerator: AcceleratorId, at: number): BatchId {
    const { waiting, times } = this;
    this.dropLate(at);
    const size = Math.min(this.size, times.sizeMaxOn(accelerator));
    let batch = -1;
    if (size > 0) {
      const close = this.isRetry ? CLOSE_RETRY : size === this.full ? CLOSE_FULL : CLOSE_WINDOW;
      const startAt = times.startOf(size, at, times.freeAt(accelerator, at));
      batch = times.add(waiting.take(size), size, accelerator, startAt, close);
    }
    this.refresh(at);
    return batch;
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.waiting.giveAway(to);
  }

  private get isRetry(): boolean {
    return this.waiting.retries.length > 0;
  }

  /** Of the batch that would leave now. */
  private get size(): number {
    return this.isRetry ? 1 : Math.min(this.full, this.waiting.pending.length);
  }

  /** Nobody waits who would be late even alone. */
  private dropLate(at: number): void {
    this.waiting.dropLate(this.times.endOf(1, at), at);
  }

  private publish(at: number): void {
    const { offers } = this.core;
    const { key, size, times, waiting } = this;
    offers.size[key] = size;
    if (size === 0) return;
    const dueAt = this.isRetry ? waiting.retries.dueAt : waiting.pending.deadlineAt(0);
    const lead = times.leadUs(size);
    const waitsUntil = this.isRetry || size === this.full ? at + lead : dueAt - times.execUs(size);
    offers.leadUs[key] = lead;
    offers.opensAt[key] = Math.max(at + lead, waitsUntil);
    // Nobody is late before not even one alone is in time.
    offers.latestAt[key] = dueAt - times.execUs(1) - times.leadUs(1) + lead;
    offers.rank[key] = dueAt;
  }
}

export const fixedSizePolicy = definePolicy({
  name: "fixed-size",
  summary: "Earliest deadline first in batches of one size, which leave when they are full or can wait no longer.",
  isSeparable: false,
  options: {
    batch_size: {
      type: "integer",
      min: 1,
      max: 65_536,
      default: 8,
      meaning: "Requests that a batch is to hold; a model's own largest batch bounds it.",
    },
  },
  create: ({ batch_size }) => ({
    name: "fixed-size",
    createQueue: (key, spec, core) => new FixedSizeQueue(key, spec, core, batch_size),
    createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
  }),
});
