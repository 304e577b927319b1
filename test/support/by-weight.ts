import { DeadlineQueue } from "../../src/core/deadline-queue.js";
import { CLOSE_EAGER } from "../../src/core/outcome.js";
import type { Queue, QueueKey, QueueSpec, QueueView, SeparablePolicy } from "../../src/core/policy.js";
import type { RequestHandle } from "../../src/core/tables/request-table.js";
import { RankArbiter } from "../../src/policies/deferred/rank-arbiter.js";
import { linkFront } from "../../src/policies/link-members.js";
import { Retries } from "../../src/policies/retries.js";

/** No end is too late for it. */
const WINDOW_US = 1e9;

/**
 * Reads all that a request says of itself: who weighs most goes first, of equal ones who is due first, at once and as many
 * as fit; the variant of a batch is the kind of its first member. It gives up nobody.
 */
class ByWeightQueue implements Queue {
  private readonly pending = new DeadlineQueue();
  private readonly retries: Retries;

  constructor(
    private readonly key: QueueKey,
    private readonly spec: QueueSpec,
    private readonly core: QueueView,
  ) {
    this.retries = new Retries(core);
  }

  get length(): number {
    return this.pending.length + this.retries.length;
  }

  private orderOf(request: RequestHandle): number {
    const { weight, dueAt } = this.core.requests;
    return dueAt[request]! - weight[request]! * 1e9;
  }

  arrived(request: RequestHandle, at: number): void {
    this.joined(request);
    this.refresh(at);
  }

  joined(request: RequestHandle): void {
    this.pending.push(request, this.orderOf(request));
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    if (alone) this.retries.push(request);
    else this.joined(request);
    this.refresh(at);
  }

  remove(request: RequestHandle, at: number): void {
    if (!this.retries.remove(request)) this.pending.remove(request, this.orderOf(request));
    this.refresh(at);
  }

  refresh(at: number): void {
    const { offers } = this.core;
    const { key } = this;
    offers.size[key] = Math.min(this.length, this.spec.latency.sizeMax);
    offers.opensAt[key] = at;
    offers.latestAt[key] = at + WINDOW_US;
    offers.rank[key] = at;
    this.core.offerChanged(key, at);
  }

  planChanged(at: number): void {
    this.refresh(at);
  }

  refreshDemand(): void {}

  take(accelerator: number, at: number): number {
    const { accelerators, batches, requests } = this.core;
    const isRetry = this.retries.length > 0;
    const size = isRetry ? this.retries.partLength : Math.min(this.pending.length, this.spec.latency.sizeMax);
    if (size === 0) return -1;
    const freeAt = accelerators.inFlight(accelerator) === 0 ? at : Math.max(at, accelerators.freeAt[accelerator]!);
    const first = isRetry ? this.retries.take(size) : linkFront(this.pending, size, requests);
    const execUs = Math.ceil(this.spec.latency.execUs[size]! * accelerators.scale[accelerator]!);
    const variant = requests.kind[first]!;
    const batch = batches.add(this.key, first, size, freeAt, execUs, CLOSE_EAGER, size, variant);
    this.refresh(at);
    return batch;
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.retries.giveAway((request) => to(request, true));
    for (let index = 0; index < this.pending.length; index++) to(this.pending.handleAt(index), false);
    this.pending.removeFront(this.pending.length);
  }
}

export const byWeight = (): SeparablePolicy => ({
  name: "by-weight",
  createQueue: (key, spec, core) => new ByWeightQueue(key, spec, core),
  createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
});
