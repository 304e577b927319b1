import { DeadlineQueue } from "../../core/deadline-queue.js";
import { CLOSE_FULL, CLOSE_RETRY, CLOSE_WINDOW, DROP_EXPIRED, DROP_INFEASIBLE } from "../../core/outcome.js";
import type { Queue, QueueKey, QueueSpec, QueueView } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import type { RequestHandle } from "../../core/tables/request-table.js";
import { RankArbiter } from "../deferred/rank-arbiter.js";
import { definePolicy } from "../descriptor.js";
import { linkFront } from "../link-members.js";
import { Retries } from "../retries.js";

/**
 * The policy that docs/add-a-policy.md walks through: earliest deadline first, in batches of one size.
 *
 * A batch leaves when as many wait as it is to hold, or when its earliest deadline lets it wait no longer. Nothing is
 * measured and nothing is learnt: what such counting costs beside a policy that looks at deadlines is what it is good for.
 */
class FixedSizeQueue implements Queue {
  private readonly pending = new DeadlineQueue();
  private readonly retries: Retries;
  /** Requests that a batch is to hold: the option's, never above the model's. */
  private readonly full: number;
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: QueueView;

  constructor(key: QueueKey, spec: QueueSpec, core: QueueView, size: number) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.full = Math.min(size, spec.latency.sizeMax);
    this.retries = new Retries(core);
  }

  get length(): number {
    return this.pending.length + this.retries.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.pending.push(request, this.core.requests.dueAt[request]!);
    this.refresh(at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    if (alone) this.retries.push(request);
    else this.pending.push(request, this.core.requests.dueAt[request]!);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    if (!this.retries.remove(request)) this.pending.remove(request, this.core.requests.dueAt[request]!);
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
    const { accelerators, batches, requests } = this.core;
    this.dropLate(at);
    const isRetry = this.retries.length > 0;
    // An accelerator that is tried anew gets one request.
    const size = isRetry || accelerators.isOnTrial(accelerator) ? Math.min(1, this.length) : this.size;
    let batch = -1;
    if (size > 0) {
      const freeAt = accelerators.inFlight(accelerator) === 0 ? at : accelerators.freeAt[accelerator]!;
      const first = isRetry ? this.retries.take() : linkFront(this.pending, size, requests);
      const execUs = Math.ceil(this.spec.latency.execUs[size]! * accelerators.scale[accelerator]!);
      const close = isRetry ? CLOSE_RETRY : size === this.full ? CLOSE_FULL : CLOSE_WINDOW;
      batch = batches.add(this.key, first, size, Math.max(at + this.leadUs(size), freeAt), execUs, close);
    }
    this.refresh(at);
    return batch;
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.retries.giveAway((request) => to(request, true));
    for (let index = 0; index < this.pending.length; index++) to(this.pending.handleAt(index), false);
    this.pending.removeFront(this.pending.length);
  }

  /** Of the batch that would leave now. */
  private get size(): number {
    return Math.min(this.full, this.pending.length);
  }

  private leadUs(size: number): number {
    const { controlUs, dataUsPerRequest } = this.core.delaysOf(this.key);
    return controlUs + size * dataUsPerRequest;
  }

  private execUs(size: number): number {
    return Math.ceil(this.spec.latency.execUs[size]! * this.core.accelerators.fastestScale);
  }

  private dropLate(at: number): void {
    const { pending, core } = this;
    const endAt = at + this.leadUs(1) + this.execUs(1);
    this.retries.dropLate(endAt, at);
    const late = pending.firstNotBefore(endAt);
    for (let index = 0; index < late; index++)
      core.drop(pending.handleAt(index), pending.deadlineAt(index) < at ? DROP_EXPIRED : DROP_INFEASIBLE, at, endAt);
    pending.removeFront(late);
  }

  private publish(at: number): void {
    const { offers } = this.core;
    const { key } = this;
    const isRetry = this.retries.length > 0;
    const size = isRetry ? 1 : this.size;
    offers.size[key] = size;
    if (size === 0) return;
    const dueAt = isRetry ? this.retries.dueAt : this.pending.deadlineAt(0);
    const lead = this.leadUs(size);
    const waitsUntil = isRetry || size === this.full ? at + lead : dueAt - this.execUs(size);
    offers.leadUs[key] = lead;
    offers.opensAt[key] = Math.max(at + lead, waitsUntil);
    // Nobody is late before not even one alone is in time.
    offers.latestAt[key] = dueAt - this.execUs(1) - this.leadUs(1) + lead;
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
