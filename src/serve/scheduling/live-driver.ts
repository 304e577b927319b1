import type { AcceleratorGroupSpec } from "../../config/model.js";
import type { LogGroup } from "../../core/event-log.js";
import { assertNever, invariant } from "../../core/invariant.js";
import { FAIL_NO_ACCELERATOR } from "../../core/outcome.js";
import type { NetworkDelays } from "../../core/policy.js";
import { Profiler, type ProfilerOptions } from "../../core/shadow/profiler.js";
import { type Clock, systemClock } from "../../wire/clock/clock.js";
import type { GroupScaling } from "../group-scaling.js";
import { AcceleratorGroup } from "../groups/accelerator-group.js";
import type { LiveScheduler, SchedulerDeployment } from "../live-scheduler.js";
import type { ServedModel } from "../models/served-model.js";
import { BATCH_MAX, ServedModels, type ServedModelsOptions } from "../models/served-models.js";
import { Metrics } from "../observation/metrics.js";
import { LiveProfiler } from "../profiling/live-profiler.js";
import { LiveBatches, type LiveBatchesOptions } from "../requests/live-batches.js";
import { LiveRequests, type LiveRequestsOptions } from "../requests/live-requests.js";
import type { PoolEvent } from "../workers/worker-pool.js";
import { createLiveScheduler } from "./deployment.js";

export interface LiveDriverOptions extends LiveRequestsOptions, LiveBatchesOptions, ServedModelsOptions {
  /** Failures of its batch that a request survives. */
  readonly retriesMax: number;
  readonly eventLog: { readonly file: string; readonly bytesMax: number } | null;
  /** Default inline. */
  readonly schedulerMode?: SchedulerDeployment;
  /** Default: the host's. */
  readonly clock?: Clock;
  /** Null, or absent: nothing is run again. Never with schedulers on queue threads. */
  readonly profiler?: ProfilerOptions | null;
  /** Numbers in [0, 1): which requests the profiler picks. Default: Math.random. */
  readonly random?: () => number;
  /** A bug: the server cannot go on. */
  readonly onBroken: (error: unknown) => void;
}

/** Until delays are measured. */
const NETWORK: NetworkDelays = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };

/**
 * Requests in, batches out: joins the scheduler with the pool of workers. The scheduler decides and sees numbers only;
 * the parts of the driver hold what the numbers stand for.
 *
 * A request enters through `requests`, which gives it to the queue that `models` has for it; the scheduler dispatches it
 * in one of the `batches`, which go to the accelerators of `groups` and come back; `requests` answers it and ends it.
 */
export class LiveDriver {
  readonly metrics: Metrics;
  readonly groups: readonly AcceleratorGroup[];
  readonly models: ServedModels;
  readonly requests: LiveRequests;
  readonly batches: LiveBatches;
  /** What the autoscaler advises, for metrics. */
  scaling: () => readonly GroupScaling[] = () => [];
  private readonly options: LiveDriverOptions;
  private readonly clock: Clock;
  private readonly scheduler: LiveScheduler;
  /** By group. */
  private readonly profilers: readonly (LiveProfiler | null)[];
  private readonly waiting: (() => void)[] = [];

  constructor(options: LiveDriverOptions) {
    this.options = options;
    this.clock = options.clock ?? systemClock;
    this.metrics = new Metrics({
      models: () => this.models.rows(),
      accelerators: () => this.acceleratorRows(),
      scheduler: () => this.scheduler.measured,
      scaling: () => this.scaling(),
    });
    this.groups = this.createGroups();
    this.scheduler = this.createScheduler();
    const tellIdle = (model: ServedModel): void => this.tellIdle(model);
    const hasThreads = (options.schedulerMode ?? "inline") !== "inline";
    this.models = new ServedModels({ ...options, hasThreads }, this.groups, this.scheduler, this.metrics);
    this.requests = new LiveRequests(options, this.clock, this.models, this.scheduler, this.metrics, tellIdle);
    this.batches = new LiveBatches(options, this.clock, this.models, this.requests, this.scheduler, tellIdle);
    this.profilers = this.groups.map((group) => this.createProfiler(group, tellIdle));
    this.batches.profilers = this.profilers;
    this.models.onLeaving = (model) => this.profilers[model.group.index]?.cancel(model);
    this.metrics.profiler.shares = () => this.profilerShares();
  }

  /** @returns null: what it takes is known beforehand, or nothing is to be run again. */
  private createProfiler(group: AcceleratorGroup, onEnded: (model: ServedModel) => void): LiveProfiler | null {
    const { options, scheduler, models, metrics } = this;
    const { shadows } = scheduler;
    if (!this.isProfiled(group.spec) || shadows === null) return null;
    const profiler = new Profiler(options.profiler!, options.random ?? Math.random);
    const slot = options.slots + group.index;
    const live = new LiveProfiler(profiler, slot, scheduler, shadows, models, metrics.profiler, onEnded);
    group.onPresence = (count, now) => live.present(count, now);
    return live;
  }

  private isProfiled({ kind }: AcceleratorGroupSpec): boolean {
    return (this.options.profiler ?? null) !== null && kind !== "emulated";
  }

  private createGroups(): AcceleratorGroup[] {
    const { pool, network } = this.options;
    let first = 0;
    return pool.groups.map((spec, index) => {
      const delays = this.metrics.delaysOf(spec.name);
      const group = new AcceleratorGroup(spec, index, first, network ?? NETWORK, delays);
      first += spec.count;
      return group;
    });
  }

  private createScheduler(): LiveScheduler {
    const { options } = this;
    const { slots, eventLog } = options;
    const groups = options.pool.groups.map(
      (spec): LogGroup => ({
        name: spec.name,
        network: options.network ?? NETWORK,
        acceleratorsMax: spec.count,
        // A cancelled request that runs leaves its slot before its batch ends.
        requestsMax: slots + spec.count * 2 * BATCH_MAX + (this.isProfiled(spec) ? 1 : 0),
        retriesMax: options.retriesMax,
        learn: spec.kind === "emulated" ? false : "sizes",
        ...(spec.policy === undefined ? {} : { policy: spec.policy }),
      }),
    );
    return createLiveScheduler(
      options.schedulerMode ?? "inline",
      { groups, slots: slots + (this.options.profiler == null ? 0 : groups.length), eventLog, clock: this.clock },
      {
        dispatched: (record) => this.batches.dispatched(record),
        ended: (slot, outcome, reason, _execStartAt, at, lateByUs) => {
          if (slot < slots) this.requests.ended(slot, outcome, reason, at, lateByUs);
          else this.profilers[slot - slots]!.ended(outcome, reason);
        },
        predicted: (queue, quantile) => this.batches.predicted(queue, quantile),
        broke: (error) => options.onBroken(error),
        warned: (text) => options.log.warn(text),
      },
    );
  }

  /** Starts the scheduler and every worker. */
  async start(): Promise<void> {
    await Promise.all([this.scheduler.start(), this.options.pool.start((event) => this.poolEvent(event))]);
  }

  /** Ends the scheduler. */
  async stop(): Promise<void> {
    this.requests.stop();
    await this.scheduler.stop();
    for (const profiler of this.profilers) profiler?.stop();
  }

  /** Nothing is run again from now on. */
  stopProfiling(): void {
    for (const profiler of this.profilers) profiler?.close();
  }

  private get isIdle(): boolean {
    return this.requests.count === 0 && this.batches.count === 0;
  }

  /** Resolves when nothing is in flight; at once when nothing is. */
  idle(): Promise<void> {
    if (this.isIdle) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /** A request or a batch of the model ended: whoever waits for it, or for all of them, may be told. */
  private tellIdle(model: ServedModel): void {
    model.tellIdle();
    if (this.waiting.length === 0 || !this.isIdle) return;
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  // The pool's events

  private poolEvent(event: PoolEvent): void {
    switch (event.kind) {
      case "joined":
        this.joined(event);
        break;
      case "draining":
        this.draining(event);
        break;
      case "left":
        this.left(event);
        break;
      case "overdue":
        this.overdue(event);
        break;
      case "recovered":
        this.recovered(event);
        break;
      case "confined":
        this.batches.confine(event.model, event.to);
        break;
      case "finished":
        this.batches.finished(event);
        break;
      case "failed":
        this.batches.failed(event);
        break;
      default:
        assertNever(event);
    }
  }

  private joined(event: PoolEvent & { kind: "joined" }): void {
    const group = this.groupOf(event.accelerator);
    this.join(group, event.accelerator - group.first, event.scale);
  }

  private join(group: AcceleratorGroup, accelerator: number, scale: number): void {
    group.joined(accelerator, this.clock.now());
    this.scheduler.join(group.index, accelerator, scale);
    this.batches.groupChanged(group);
  }

  /** What waits there goes elsewhere, and nothing more goes there, as long as there is another place. */
  private overdue(event: PoolEvent & { kind: "overdue" }): void {
    const group = this.groupOf(event.accelerator);
    const accelerator = event.accelerator - group.first;
    if (!group.isPresent(accelerator) || group.presentCount === 1) return;
    group.overdue(accelerator, this.clock.now());
    this.scheduler.leave(group.index, accelerator);
    this.batches.takeBack(group, accelerator, event.batch);
    this.batches.groupChanged(group);
  }

  private recovered(event: PoolEvent & { kind: "recovered" }): void {
    const group = this.groupOf(event.accelerator);
    const accelerator = event.accelerator - group.first;
    if (group.isOverdue(accelerator)) this.join(group, accelerator, event.scale);
  }

  private draining(event: PoolEvent & { kind: "draining" }): void {
    const group = this.groupOf(event.accelerator);
    const accelerator = event.accelerator - group.first;
    if (group.isPresent(accelerator)) this.scheduler.leave(group.index, accelerator);
    group.draining(accelerator, this.clock.now());
  }

  private left({ accelerator: index, cause, willRestart }: PoolEvent & { kind: "left" }): void {
    const group = this.groupOf(index);
    const { name } = group.spec;
    const accelerator = index - group.first;
    if (group.isPresent(accelerator)) this.scheduler.leave(group.index, accelerator);
    group.left(accelerator, willRestart, this.clock.now());
    this.batches.groupChanged(group);
    if (cause === "draining") return;
    this.metrics.countWorkerExit(name, cause);
    this.options.log.warn({ group: name, accelerator, cause, willRestart }, "an accelerator left");
    if (!group.isDeserted) return;
    this.options.log.error({ group: name }, "no accelerator of the group is left: its requests fail");
    this.models.failWaiting(FAIL_NO_ACCELERATOR, group);
  }

  private groupOf(accelerator: number): AcceleratorGroup {
    const group = this.groups.find(({ first, spec }) => accelerator >= first && accelerator < first + spec.count);
    invariant(group !== undefined, `accelerator ${accelerator} does not exist`);
    return group;
  }

  private *profilerShares() {
    const now = this.clock.now();
    for (const { index, spec, presentCount } of this.groups) {
      const profiler = this.profilers[index] ?? null;
      if (profiler !== null) yield { group: spec.name, share: profiler.share(presentCount, now) };
    }
  }

  private *acceleratorRows() {
    for (const group of this.groups)
      for (let accelerator = 0; accelerator < group.spec.count; accelerator++)
        yield {
          group: group.spec.name,
          accelerator,
          present: group.isPresent(accelerator),
          busyUs: group.busyUs[accelerator]!,
        };
  }
}
