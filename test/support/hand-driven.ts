import { violated } from "../../src/core/invariant.js";
import type { ElasticProfile } from "../../src/core/latency/elastic.js";
import { linearTable, ProfiledLatency } from "../../src/core/latency/latency.js";
import {
  CLOSE_REASONS,
  DROP_REASONS,
  DROPPED,
  FAIL_CAUSES,
  FAIL_MODEL_ERROR,
  FAILED,
  OUTCOMES,
} from "../../src/core/outcome.js";
import type { KindTimes, NetworkDelays, Policy } from "../../src/core/policy.js";
import { type CommandSink, NO_DELAYS, Scheduler } from "../../src/core/scheduler.js";
import type { AcceleratorId } from "../../src/core/tables/accelerator-table.js";
import type { BatchId } from "../../src/core/tables/batch-table.js";
import { PLAIN, type RequestHandle, type RequestTraits } from "../../src/core/tables/request-table.js";

export interface HandDrivenOptions {
  readonly policy: Policy;
  readonly accelerators?: number;
  readonly models?: number;
  /** l(b) = 10 b + 90 µs. */
  readonly sizeMax?: number;
  readonly lengthMax?: number;
  readonly network?: NetworkDelays;
  /** Batches that an accelerator may hold. Default 1: the policy commits nothing behind a running batch. */
  readonly depth?: number;
  /** What is known of kinds of requests. */
  readonly kinds?: readonly KindTimes[];
  /** Ways of running the models. */
  readonly elastic?: ElasticProfile;
}

/** l(b) of every model here, µs. */
export const execUs = (size: number): number => 10 * size + 90;

/**
 * A scheduler driven by hand, in microseconds: a test says what happens when, and reads what was dispatched and how each
 * request ended. A request is a letter or a number. Batches take as long as planned. Order at one moment: ends, what
 * the test does, timers. It asserts the promises of every policy: at most one end a request, one batch an accelerator.
 */
export class HandDriven implements CommandSink {
  readonly scheduler: Scheduler;
  /** `time:members`, with `model/` before the members where there are several models. */
  readonly dispatches: string[] = [];
  readonly executedUs: number[] = [];
  /** BatchTable.variant of each batch. */
  readonly variants: number[] = [];
  readonly closes: string[] = [];
  /** `time:request`, each time one entered a batch that is gathered. */
  readonly joins: string[] = [];
  readonly order: AcceleratorId[] = [];
  /** `time:accelerator` of each batch that was stopped. */
  readonly preempts: string[] = [];
  /** Outcome by request: finished, late, dropped expired, failed worker-crashed, ... */
  readonly ended = new Map<string | number, string>();
  readonly endedAt = new Map<string | number, number>();
  /** Of those that were dropped by an estimate. */
  readonly lateByUs = new Map<string | number, number>();
  private readonly names: (string | number)[] = [];
  private readonly running: { readonly batch: BatchId; startAt: number; endAt: number }[] = [];
  private readonly isSeveral: boolean;
  private readonly depth: number;
  private now = 0;

  constructor(options: HandDrivenOptions) {
    const count = options.accelerators ?? 1;
    this.isSeveral = (options.models ?? 1) > 1;
    this.depth = options.depth ?? 1;
    this.scheduler = new Scheduler(options.policy, this, {
      network: options.network ?? NO_DELAYS,
      acceleratorsMax: count,
      requestsMax: 100_000,
      retriesMax: 1,
      learn: false,
    });
    for (let model = 0; model < (options.models ?? 1); model++) {
      this.scheduler.addQueue({
        latency: new ProfiledLatency(linearTable(10, 90, options.sizeMax ?? 8)),
        sloUs: 1000,
        lengthMax: options.lengthMax ?? 1000,
        ...(options.kinds === undefined ? {} : { kinds: options.kinds }),
        ...(options.elastic === undefined ? {} : { elastic: options.elastic }),
      });
    }
    for (let id = 0; id < count; id++) this.scheduler.join(id, 1, 0);
  }

  /** Everything up to and including `at`, timers too. */
  until(at: number): this {
    this.runTo(at, true);
    return this;
  }

  /** Each letter is a request; timers of this very moment have not run yet when they arrive. */
  arrive(at: number, letters: string | number, model = 0, deadline = 1e9, kind = 0, weight = 1): this {
    this.runTo(at, false);
    for (const name of typeof letters === "string" ? letters : [letters]) {
      const traits = kind === 0 && weight === 1 ? PLAIN : { ...PLAIN, kind, weight };
      this.come(name, at, model, deadline, traits);
    }
    return this;
  }

  /** The same, of a pipeline whose other modules follow. */
  arrivePart(at: number, letters: string, model = 0, dueBy = 1e9, kind = 0, headStartUs = 0): this {
    this.runTo(at, false);
    for (const name of letters) this.come(name, at, model, dueBy + 1, { ...PLAIN, kind, dueBy, headStartUs });
    return this;
  }

  /** The same, whose modules before it ran on these accelerators. */
  arriveBegun(at: number, letters: string, model = 0, dueBy = 1e9, kind = 0): this {
    return this.arrivePart(at, letters, model, dueBy, kind, 1);
  }

  private come(name: string | number, at: number, model: number, deadline: number, traits: RequestTraits): void {
    const tag = this.names.push(name) - 1;
    if (!this.scheduler.arrive(model, tag, at, deadline, at, traits)) violated(`request ${name} did not fit`);
  }

  /** Nothing happens if it has ended. */
  cancel(at: number, name: string | number): this {
    this.runTo(at, false);
    const { requests } = this.scheduler;
    const tag = this.names.indexOf(name);
    for (let handle = 0; handle < requests.state.length; handle++) {
      if (requests.state[handle] !== 0 && requests.tag[handle] === tag) {
        this.scheduler.cancel(handle, at);
        break;
      }
    }
    return this;
  }

  /** The batch on this accelerator fails; unless the model refused it, the accelerator leaves. */
  fail(at: number, id: AcceleratorId, cause: number): this {
    this.runTo(at, false);
    const index = this.running.findIndex(({ batch }) => this.scheduler.batches.accelerator[batch] === id);
    if (cause !== FAIL_MODEL_ERROR) this.scheduler.leave(id, at);
    if (index >= 0) this.scheduler.failed(this.running.splice(index, 1)[0]!.batch, cause, at);
    this.replanned();
    return this;
  }

  join(at: number, id: AcceleratorId): this {
    this.runTo(at, false);
    this.scheduler.join(id, 1, at);
    return this;
  }

  leave(at: number, id: AcceleratorId): this {
    this.runTo(at, false);
    this.scheduler.leave(id, at);
    return this;
  }

  isPresent(id: AcceleratorId): boolean {
    return this.scheduler.accelerators.present[id] === 1;
  }

  // CommandSink

  joinedBatch(request: RequestHandle, at: number): void {
    this.joins.push(`${at}:${this.names[this.scheduler.requests.tag[request]!]}`);
  }

  dispatch(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    const { accelerators, batches, requests } = this.scheduler;
    const held = accelerators.inFlight(accelerator);
    if (held > this.depth) violated(`accelerator ${accelerator} was given ${held} batches`);
    if (!this.isPresent(accelerator)) violated(`accelerator ${accelerator} is not here`);
    const members: (string | number)[] = [];
    for (let handle = batches.first[batch]!; handle >= 0; handle = requests.next[handle]!)
      members.push(this.names[requests.tag[handle]!]!);
    if (members.length !== batches.size[batch])
      violated(`batch of ${batches.size[batch]} had ${members.length} members`);
    this.dispatches.push(`${at}:${this.isSeveral ? `${batches.queue[batch]}/` : ""}${members.join("")}`);
    this.executedUs.push(batches.execUs[batch]!);
    this.variants.push(batches.variant[batch]!);
    this.closes.push(CLOSE_REASONS[batches.close[batch]!]!);
    this.order.push(accelerator);
    this.running.push({ batch, startAt: batches.execAt[batch]!, endAt: batches.finishAt[batch]! });
    this.running.sort((a, b) => a.endAt - b.endAt);
  }

  preempt(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    const index = this.running.findIndex((run) => run.batch === batch);
    if (index < 0) violated(`batch ${batch} was preempted though it does not run`);
    this.running.splice(index, 1);
    this.preempts.push(`${at}:${accelerator}`);
  }

  /** What waits behind a batch that failed begins earlier. */
  private replanned(): void {
    const { batches } = this.scheduler;
    for (const run of this.running) {
      run.endAt = batches.finishAt[run.batch]!;
      run.startAt = run.endAt - batches.execUs[run.batch]!;
    }
    this.running.sort((a, b) => a.endAt - b.endAt);
  }

  end(
    request: RequestHandle,
    outcome: number,
    reason: number,
    _execStartAt: number,
    at: number,
    lateByUs: number,
  ): void {
    const name = this.names[this.scheduler.requests.tag[request]!]!;
    if (this.ended.has(name)) violated(`request ${name} ended twice`);
    const detail =
      outcome === DROPPED ? ` ${DROP_REASONS[reason]}` : outcome === FAILED ? ` ${FAIL_CAUSES[reason]}` : "";
    this.ended.set(name, `${OUTCOMES[outcome]}${detail}`);
    this.endedAt.set(name, at);
    if (lateByUs !== 0) this.lateByUs.set(name, lateByUs);
  }

  batchEnded(): void {}

  private runTo(at: number, withTimers: boolean): void {
    const { scheduler } = this;
    for (;;) {
      const endAt = this.running[0]?.endAt ?? Number.POSITIVE_INFINITY;
      const wakeAt = Math.max(this.now, scheduler.nextWakeAt);
      if (endAt <= wakeAt && endAt <= at) {
        const { batch, startAt } = this.running.shift()!;
        this.now = endAt;
        scheduler.finished(batch, startAt, endAt, endAt);
      } else if (wakeAt < at || (withTimers && wakeAt === at)) {
        this.now = wakeAt;
        scheduler.wake(wakeAt);
      } else {
        this.now = at;
        return;
      }
    }
  }
}
