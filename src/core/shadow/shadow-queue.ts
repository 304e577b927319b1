import { CLOSE_IDLE, DROP_EXPIRED, DROP_SKIPPED } from "../outcome.js";
import type { Queue, QueueKey, QueueSpec, QueueView } from "../policy.js";
import type { AcceleratorId } from "../tables/accelerator-table.js";
import type { BatchId } from "../tables/batch-table.js";
import { DISPATCHED, type RequestHandle } from "../tables/request-table.js";

/**
 * Requests of another queue that are run a second time, each alone, to learn what it takes (ORLOJ's online profiler, §3.2).
 *
 * Of the last rank: it offers nothing to the arbiter, and is granted an accelerator only when the arbiter has come to rest and
 * left one idle (ShadowRoom). Who does not get one by its deadline is dropped, and nobody is tried twice.
 */
export class ShadowQueue implements Queue {
  private readonly waiting: RequestHandle[] = [];
  private readonly key: QueueKey;
  private readonly spec: QueueSpec;
  private readonly core: QueueView & { alarm(key: QueueKey, at: number): void };

  constructor(key: QueueKey, spec: QueueSpec, core: ShadowQueue["core"]) {
    this.key = key;
    this.spec = spec;
    this.core = core;
  }

  get length(): number {
    return this.waiting.length;
  }

  /** The one that would run next; -1: nobody waits. */
  get first(): RequestHandle {
    return this.waiting[0] ?? -1;
  }

  arrived(request: RequestHandle, at: number): void {
    this.waiting.push(request);
    this.refresh(at);
  }

  returned(request: RequestHandle, _alone: boolean, at: number): void {
    this.core.drop(request, DROP_SKIPPED, at);
  }

  remove(request: RequestHandle): void {
    const index = this.waiting.indexOf(request);
    if (index >= 0) this.waiting.splice(index, 1);
  }

  refresh(at: number): void {
    const { waiting, core } = this;
    const { dueAt } = core.requests;
    while (waiting.length > 0 && dueAt[waiting[0]!]! <= at) core.drop(waiting.shift()!, DROP_EXPIRED, at);
    core.alarm(this.key, waiting.length > 0 ? dueAt[waiting[0]!]! : Number.POSITIVE_INFINITY);
  }

  planChanged(): void {}
  refreshDemand(): void {}

  take(accelerator: AcceleratorId, at: number): BatchId {
    const { core, key, spec } = this;
    const request = this.waiting.shift()!;
    core.requests.state[request] = DISPATCHED;
    core.requests.next[request] = -1;
    const { controlUs, dataUsPerRequest } = core.delaysOf(key);
    const execUs = Math.ceil(spec.latency.execUs[1]! * core.accelerators.scale[accelerator]!);
    this.refresh(at);
    return core.batches.add(key, request, 1, at + controlUs + dataUsPerRequest, execUs, CLOSE_IDLE);
  }
}
