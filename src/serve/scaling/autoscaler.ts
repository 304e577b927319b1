/**
 * Autoscaling of a live server: every interval the counts of each group go to the advisor (scaling/advisor.ts); its
 * advice is shown in metrics and to KEDA, and, where the group's `autoscale.act` says so, followed by the pool.
 */
import { type AcceleratorGroupSpec, startCount } from "../../config/model.js";
import { timeUs } from "../../core/time.js";
import { SCALE_DEFAULTS, type ScaleAdvice, ScaleAdvisor } from "../../scaling/advisor.js";
import { addWork, type GroupWork } from "../../scaling/work.js";
import type { Alarm, Clock } from "../../wire/clock/clock.js";
import type { GroupScaling } from "../group-scaling.js";
import type { AcceleratorGroup } from "../groups/accelerator-group.js";
import type { ServedModels } from "../models/served-models.js";
import type { Log } from "../observation/log.js";
import type { LiveBatches } from "../requests/live-batches.js";
import type { LiveDriver } from "../scheduling/live-driver.js";
import type { WorkerPool } from "../workers/worker-pool.js";

const INTERVAL_US = 10_000_000;

export class Autoscaler {
  private readonly groups: readonly GroupAutoscaler[];

  constructor(driver: LiveDriver, pool: WorkerPool, log: Log, clock: Clock) {
    this.groups = driver.groups.map(
      (group) => new GroupAutoscaler(group, driver.models, driver.batches, pool, log, clock),
    );
  }

  start(): void {
    for (const group of this.groups) group.start();
  }

  stop(): void {
    for (const group of this.groups) group.stop();
  }

  view(): GroupScaling[] {
    return this.groups.map((group) => group.view());
  }
}

class GroupAutoscaler {
  private readonly group: AcceleratorGroup;
  private readonly models: ServedModels;
  private readonly batches: LiveBatches;
  private readonly spec: AcceleratorGroupSpec;
  private readonly pool: WorkerPool;
  private readonly log: Log;
  private readonly intervalUs: number;
  private readonly quietUs: number;
  private advisor: ScaleAdvisor;
  private readonly clock: Clock;
  private readonly alarm: Alarm;
  private sampledAt = 0;
  private busyUs = 0;
  private activeAt = Number.NEGATIVE_INFINITY;
  private last: ScaleAdvice | null = null;
  private raised = 0;
  private lowered = 0;

  constructor(
    group: AcceleratorGroup,
    models: ServedModels,
    batches: LiveBatches,
    pool: WorkerPool,
    log: Log,
    clock: Clock,
  ) {
    this.clock = clock;
    this.alarm = clock.alarm(() => this.decideNow()).unref();
    this.group = group;
    this.models = models;
    this.batches = batches;
    this.spec = group.spec;
    this.pool = pool;
    this.log = log;
    this.intervalUs = this.spec.autoscale?.options.intervalUs ?? INTERVAL_US;
    this.quietUs = this.options.downCooldownUs;
    this.advisor = new ScaleAdvisor(this.options, startCount(this.spec), 0);
  }

  private get options() {
    return this.spec.autoscale?.options ?? SCALE_DEFAULTS;
  }

  private get acts(): boolean {
    return this.spec.autoscale?.act === true;
  }

  /** What happened before (models were loaded and measured) is no load. */
  start(): void {
    const now = this.clock.now();
    this.advisor = new ScaleAdvisor(this.options, startCount(this.spec), now);
    this.sampledAt = now;
    this.busyUs = this.busyUsUntil(now);
    this.group.load.take(now);
    for (const queue of this.models.queuesOf(this.group)) Object.assign(queue, { arrived: 0, dropped: 0 });
    this.alarm.set(timeUs(now + this.intervalUs));
  }

  stop(): void {
    this.alarm.clear();
  }

  view(): GroupScaling {
    const { spec, group, last, raised, lowered, acts } = this;
    return {
      group: spec.name,
      acts,
      advice: this.advisor.advice,
      serving: group.presentCount,
      configured: startCount(spec),
      isActive: this.isActive(this.clock.now()),
      last,
      raised,
      lowered,
    };
  }

  private isActive(now: number): boolean {
    for (const queue of this.models.queuesOf(this.group)) if (queue.live > 0 || queue.arrived > 0) return true;
    return now - this.activeAt <= this.quietUs;
  }

  private decideNow(): void {
    const now = this.clock.now();
    this.decide(now);
    this.alarm.set(timeUs(now + this.intervalUs));
  }

  private decide(now: number): void {
    const { group } = this;
    const intervalUs = Math.max(1, now - this.sampledAt);
    const work: GroupWork = { arrivedWorkUs: 0, droppedWorkUs: 0, queuedAccelerators: 0 };
    const onAccelerators = new Map<number, number>();
    for (const { queue, size } of this.batches.on(group))
      onAccelerators.set(queue.id, (onAccelerators.get(queue.id) ?? 0) + size);
    const wanted = this.acts ? this.advisor.advice : group.spec.count;
    const scale = this.meanScale(wanted);
    for (const queue of this.models.queuesOf(group)) {
      const { execUs, arrived, dropped, live } = queue;
      if (arrived > 0 || live > 0) this.activeAt = now;
      const { sloUs, defaultTimeoutUs } = queue.model.spec;
      const waiting = Math.max(0, live - (onAccelerators.get(queue.id) ?? 0));
      const promisedUs = sloUs ?? defaultTimeoutUs;
      // Who asks for less than the model promises asks for no more accelerators.
      const allowedUs = Math.max(promisedUs, live === 0 ? 0 : queue.allowedUs / live);
      addWork(work, { execUs, sloUs: promisedUs, arrived, dropped, waiting, allowedUs }, intervalUs, scale);
      queue.arrived = 0;
      queue.dropped = 0;
    }
    const busyUs = this.busyUsUntil(now);
    const { good, bad, presentUs } = group.load.take(now);
    const advice = this.advisor.decide(
      {
        intervalUs,
        good,
        bad,
        ...work,
        busyUs: Math.max(0, busyUs - this.busyUs),
        presentUs,
        serving: group.presentCount,
        starting: this.acts ? Math.max(0, wanted - group.presentCount) : 0,
      },
      now,
    );
    this.sampledAt = now;
    this.busyUs = busyUs;
    this.last = advice;
    if (advice.change !== 0) this.changed(advice);
  }

  private changed(advice: ScaleAdvice): void {
    if (advice.change > 0) this.raised++;
    else this.lowered++;
    const { change, reason, demand, badRate, idleFraction } = advice;
    this.log.info(
      {
        group: this.spec.name,
        from: advice.advice - change,
        to: advice.advice,
        reason,
        demand: round(demand),
        badRate: round(badRate),
        idleFraction: round(idleFraction),
      },
      this.acts ? "the group is scaled" : "the advice for the group's size changed",
    );
    if (this.acts) this.pool.resize(this.spec.name, advice.advice);
  }

  /** Execution time on the group's accelerators since the start, that of what runs now included. */
  private busyUsUntil(now: number): number {
    let us = 0;
    for (const each of this.group.busyUs) us += each;
    const since = new Map<number, number>();
    for (const { accelerator, execAt } of this.batches.on(this.group))
      since.set(accelerator, Math.min(execAt, since.get(accelerator) ?? Number.POSITIVE_INFINITY));
    for (const at of since.values()) us += Math.max(0, now - at);
    return us;
  }

  private meanScale(count: number): number {
    const scales = this.spec.scales.slice(0, Math.max(1, Math.min(count, this.spec.scales.length)));
    return scales.reduce((sum, scale) => sum + scale, 0) / scales.length;
  }
}

const round = (value: number): number => Math.round(value * 1000) / 1000;
