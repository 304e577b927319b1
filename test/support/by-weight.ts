import { CLOSE_EAGER } from "../../src/core/outcome.js";
import type { Queue, QueueKey, QueueSpec, QueueView, SeparablePolicy } from "../../src/core/policy.js";
import type { RequestHandle } from "../../src/core/tables/request-table.js";
import { BatchTimes } from "../../src/policies/batch-times.js";
import { RankArbiter } from "../../src/policies/deferred/rank-arbiter.js";
import { WaitingRequests } from "../../src/policies/waiting-requests.js";

/** No end is too late for it. */
const WINDOW_US = 1e9;

/**
 * Reads all that a request says of itself: who weighs most goes first, of equal ones who is due first less its head start, at once and as many
 * as fit; the variant of a batch is the kind of its first member. It gives up nobody.
 */
class ByWeightQueue implements Queue {
  private readonly waiting: WaitingRequests;
  private readonly times: BatchTimes;

  constructor(
    private readonly key: QueueKey,
    private readonly spec: QueueSpec,
    private readonly core: QueueView,
  ) {
    this.times = new BatchTimes(key, spec, core);
    this.waiting = new WaitingRequests(core, (request) => {
      const { weight, dueAt, headStartUs } = core.requests;
      return dueAt[request]! - (headStartUs?.[request] ?? 0) - weight[request]! * 1e9;
    });
  }

  get length(): number {
    return this.waiting.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.joined(request);
    this.refresh(at);
  }

  joined(request: RequestHandle): void {
    this.waiting.push(request);
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
    const { batches, requests } = this.core;
    const { pending, retries } = this.waiting;
    const size = retries.length > 0 ? retries.partLength : Math.min(pending.length, this.spec.latency.sizeMax);
    if (size === 0) return -1;
    const startAt = Math.max(at, this.times.freeAt(accelerator, at));
    const batch = this.times.add(this.waiting.take(size), size, accelerator, startAt, CLOSE_EAGER);
    batches.variant[batch] = requests.kind[batches.first[batch]!]!;
    this.refresh(at);
    return batch;
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.waiting.giveAway(to);
  }
}

export const byWeight = (): SeparablePolicy => ({
  name: "by-weight",
  createQueue: (key, spec, core) => new ByWeightQueue(key, spec, core),
  createArbiter: (core) => new RankArbiter(core, { idleDispatch: false }),
});
