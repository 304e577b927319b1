import { EmulatedAccelerators } from "../core/emulated-accelerators.js";
import type { Learning } from "../core/latency/learner.js";
import { FAIL_WORKER_CRASHED } from "../core/outcome.js";
import type { NetworkDelays, Policy } from "../core/policy.js";
import { type CommandSink, Scheduler } from "../core/scheduler.js";
import type { AcceleratorId } from "../core/tables/accelerator-table.js";
import type { BatchId } from "../core/tables/batch-table.js";
import type { RequestHandle } from "../core/tables/request-table.js";
import type { OutcomeCollector } from "../measure/collector.js";
import type { SimulatedProfiler } from "./simulated-profiler.js";

/** What a group's scheduler tells, with the group it comes from. */
export interface GroupSink {
  dispatch(batch: BatchId, accelerator: AcceleratorId, at: number, group: SimulatedGroup): void;
  end(
    request: RequestHandle,
    outcome: number,
    reason: number,
    execStartAt: number,
    at: number,
    group: SimulatedGroup,
  ): void;
  batchEnded(batch: BatchId, startAt: number, endAt: number, group: SimulatedGroup): void;
  /** A request is in the batch that its queue gathers. */
  joinedBatch(request: RequestHandle, at: number, group: SimulatedGroup): void;
  /** It was given up, or its accelerator was lost: what ran of it since `startAt` was for nothing. */
  batchLost(batch: BatchId, startAt: number, at: number, group: SimulatedGroup): void;
}

const REQUESTS_MAX = 4_000_000;
const RETRIES_MAX = 1;

export interface SimulatedGroupOptions {
  readonly name: string;
  readonly policy: Policy;
  readonly network: NetworkDelays;
  /** Of its accelerators among all. */
  readonly first: number;
  readonly count: number;
  readonly learn: Learning;
}

/** A group of emulated accelerators and its scheduler. Accelerators are numbered from 0 in it; `first` is added outside. */
export class SimulatedGroup implements CommandSink {
  readonly name: string;
  readonly policyName: string;
  readonly first: number;
  readonly scheduler: Scheduler;
  readonly accelerators: EmulatedAccelerators;
  /** Its models, by queue: several may be of one model (sessions). */
  readonly models: number[] = [];
  /** Null: nothing is run again. What it runs is told to nobody else here, so that it counts nowhere. */
  profiler: SimulatedProfiler | null = null;
  /** An accelerator runs requests beside each other, so that none has its time alone. */
  readonly isShared: boolean = false;
  private readonly sink: GroupSink;

  constructor(options: SimulatedGroupOptions, sink: GroupSink) {
    const { policy, count } = options;
    this.name = options.name;
    this.policyName = policy.name;
    this.first = options.first;
    this.sink = sink;
    this.accelerators = new EmulatedAccelerators(count, policy.depth);
    this.scheduler = new Scheduler(policy, this, {
      network: options.network,
      acceleratorsMax: count,
      requestsMax: REQUESTS_MAX,
      retriesMax: RETRIES_MAX,
      learn: options.learn,
    });
  }

  /** When something of what it runs ends next. */
  get nextEndAt(): number {
    return this.accelerators.nextEndAt;
  }

  /** That moment has come. */
  endNext(at: number): void {
    this.batchFinished(this.accelerators.nextToEnd, at);
  }

  /** Accelerator time of a batch that ran, as far as it is counted, µs. Asked once. */
  countedUs(batch: BatchId, startAt: number, endAt: number, collector: OutcomeCollector): number {
    return collector.occupied(this.acceleratorOf(batch), startAt, endAt);
  }

  /** Among all accelerators. */
  acceleratorOf(batch: BatchId): number {
    return this.first + this.scheduler.batches.accelerator[batch]!;
  }

  dispatch(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    if (this.isShadow(batch)) this.profiler!.dispatched(at);
    this.sink.dispatch(batch, accelerator, at, this);
  }
  end(request: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number): void {
    const { queue, kind } = this.scheduler.requests;
    const key = queue[request]!;
    if (this.scheduler.isShadow(key)) this.profiler!.ended(key, kind[request]!, outcome, reason);
    else this.sink.end(request, outcome, reason, execStartAt, at, this);
  }
  batchEnded(batch: BatchId, startAt: number, endAt: number): void {
    if (this.isShadow(batch)) this.profiler!.ran(startAt, endAt);
    else {
      this.profiler?.pick(batch, endAt);
      this.sink.batchEnded(batch, startAt, endAt, this);
    }
  }
  joinedBatch(request: RequestHandle, at: number): void {
    this.sink.joinedBatch(request, at, this);
  }
  preempt(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    this.lost(batch, accelerator, at);
    this.accelerators.ended(accelerator, at);
  }

  /** Takes batches from now on. @param scale what the scheduler is told. */
  join(id: AcceleratorId, scale: number, at: number): void {
    this.accelerators.up[id] = 1;
    this.scheduler.join(id, scale, at);
    this.profiler?.present(at);
  }

  /** Takes no new batches; what it holds ends. */
  leave(id: AcceleratorId, at: number): void {
    this.accelerators.up[id] = 0;
    this.scheduler.leave(id, at);
    this.profiler?.present(at);
  }

  /** Time that the accelerators executed for those who came. */
  busyUs(at: number): number {
    return this.accelerators.busyUs(at) - (this.profiler?.busyUs(at) ?? 0);
  }

  /** Leaves, and what it holds is lost. */
  fail(id: AcceleratorId, at: number): void {
    const { accelerators, scheduler } = this;
    const running = accelerators.running[id]!;
    const waiting = accelerators.waitingFromLast(id);
    accelerators.clear(id, at);
    this.leave(id, at);
    for (const batch of waiting) scheduler.failed(batch, FAIL_WORKER_CRASHED, at);
    if (running < 0) return;
    this.lost(running, id, at);
    scheduler.failed(running, FAIL_WORKER_CRASHED, at);
  }

  private batchFinished(id: AcceleratorId, at: number): void {
    const batch = this.accelerators.running[id]!;
    const startedAt = this.accelerators.startedAt[id]!;
    this.accelerators.ended(id, at);
    this.scheduler.finished(batch, startedAt, at, at);
    this.profiler?.follow(at);
    // What follows may have its turn too late: the accelerator refuses it.
    for (;;) {
      const following = this.accelerators.running[id]!;
      if (following < 0 || this.accelerators.startedAt[id]! <= this.scheduler.batches.latestAt[following]!) return;
      this.accelerators.ended(id, at);
      this.scheduler.rejected(following, at);
    }
  }

  private lost(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    const startedAt = this.accelerators.startedAt[accelerator]!;
    if (this.isShadow(batch)) this.profiler!.ran(startedAt, at);
    else if (startedAt < at) this.sink.batchLost(batch, startedAt, at, this);
  }

  private isShadow(batch: BatchId): boolean {
    return this.scheduler.isShadow(this.scheduler.batches.queue[batch]!);
  }
}
