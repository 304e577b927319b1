import type { ExpandedFault } from "../config/scenario/expand-faults.js";
import type { ExpandedAutoscale, ExpandedScenario } from "../config/scenario/expand-scenario.js";
import { assertNever } from "../core/invariant.js";
import { ProfiledLatency } from "../core/latency/latency.js";
import { DROP_QUEUE_FULL, DROPPED, FAIL_WORKER_CRASHED } from "../core/outcome.js";
import type { Policy } from "../core/policy.js";
import { type CommandSink, Scheduler } from "../core/scheduler.js";
import type { AcceleratorId } from "../core/tables/accelerator-table.js";
import type { BatchId } from "../core/tables/batch-table.js";
import { ABANDONED, type RequestHandle } from "../core/tables/request-table.js";
import { type CollectorSnapshot, OutcomeCollector } from "../measure/collector.js";
import type { Report } from "../measure/report.js";
import { createPolicy } from "../policies/registry.js";
import { createArrivals } from "./arrivals.js";
import { EmulatedAccelerators } from "./emulated-accelerators.js";
import { Fleet } from "./fleet.js";

export interface SimulateOptions {
  /** Default: the scenario's. */
  readonly policy?: string;
  /** Default: the scenario's when the policy is the scenario's, else the policy's own. */
  readonly policyOptions?: Readonly<Record<string, unknown>>;
  /** Default: the scenario's. */
  readonly seed?: number;
}

/** Waiting requests of one model beyond which a simulated queue is full; far above what deadlines let wait. */
const QUEUE_LENGTH_MAX = 1_000_000;
const REQUESTS_MAX = 4_000_000;
const RETRIES_MAX = 1;

/** One simulated run: a function of (scenario, policy, seed). */
export function simulate(scenario: ExpandedScenario, options: SimulateOptions = {}): Report {
  const seed = options.seed ?? scenario.seed;
  const simulation = new Simulation(scenario, policyOf(scenario, options), seed);
  simulation.run();
  return simulation.report(seed);
}

/** The same run with all that was counted: distributions, and not only their quantiles. */
export function simulateOutcomes(
  scenario: ExpandedScenario,
  options: SimulateOptions = {},
): { report: Report; outcomes: CollectorSnapshot } {
  const seed = options.seed ?? scenario.seed;
  const simulation = new Simulation(scenario, policyOf(scenario, options), seed);
  simulation.run();
  return { report: simulation.report(seed), outcomes: simulation.snapshot() };
}

/** The same run when only each model's bad rate and number of arrivals are asked for: what a search for the peak reads. */
export function simulateBadRates(
  scenario: ExpandedScenario,
  options: SimulateOptions = {},
): { badRates: number[]; arrived: number[] } {
  const simulation = new Simulation(scenario, policyOf(scenario, options), options.seed ?? scenario.seed);
  simulation.run();
  return simulation.badRates();
}

function policyOf(scenario: ExpandedScenario, options: SimulateOptions): Policy {
  const name = options.policy ?? scenario.policy;
  return createPolicy(name, options.policyOptions ?? (name === scenario.policy ? scenario.policyOptions : {}));
}

/**
 * The simulated driver: events in order of time, emulated accelerators, the scheduler's commands carried out.
 *
 * Simultaneous events are taken as: finished, fault, autoscaling, arrival, timer; then by accelerator or model number.
 * After the last arrival the run drains.
 */
export class Simulation implements CommandSink {
  readonly scheduler: Scheduler;
  protected readonly accelerators: EmulatedAccelerators;
  protected readonly collector: OutcomeCollector;
  private readonly scenario: ExpandedScenario;
  private readonly policyName: string;
  private readonly seed: number;
  private readonly fleet: Fleet | null;
  private readonly isFailed: Uint8Array;
  private tags = 0;

  constructor(scenario: ExpandedScenario, policy: Policy, seed: number) {
    this.scenario = scenario;
    this.policyName = policy.name;
    this.seed = seed;
    const count = scenario.accelerators.length;
    this.accelerators = new EmulatedAccelerators(count, policy.depth);
    this.collector = new OutcomeCollector({
      models: scenario.models.map((model) => model.name),
      warmupUs: scenario.warmupUs,
      endUs: scenario.durationUs,
      accelerators: count,
    });
    this.scheduler = new Scheduler(policy, this, {
      network: scenario.network,
      acceleratorsMax: count,
      requestsMax: REQUESTS_MAX,
      retriesMax: RETRIES_MAX,
      learn: scenario.learn ?? false,
    });
    // Queue keys are model numbers: added in order.
    for (const model of scenario.models) {
      this.scheduler.addQueue({
        latency: new ProfiledLatency(model.execUs),
        sloUs: model.sloUs,
        lengthMax: QUEUE_LENGTH_MAX,
      });
    }
    this.isFailed = new Uint8Array(count);
    this.fleet = scenario.autoscale === undefined ? null : this.createFleet(scenario.autoscale);
    scenario.accelerators.forEach((accelerator, id) => {
      this.accelerators.scale[id] = accelerator.scale;
      if (accelerator.present && (this.fleet?.isWanted(id) ?? true)) this.join(id, 0);
    });
  }

  run(): void {
    const { scheduler, accelerators, scenario } = this;
    const { faults, models } = scenario;
    const sloUs = Float64Array.from(models, (model) => model.sloUs);
    const arrivals = createArrivals(scenario, this.seed);
    let nextFault = 0;
    let now = 0;
    for (;;) {
      const endAt = accelerators.nextEndAt;
      // What is due already is due now: simultaneous ends and arrivals come first.
      const wakeAt = Math.max(now, scheduler.nextWakeAt);
      const faultAt = nextFault < faults.length ? faults[nextFault]!.at : Number.POSITIVE_INFINITY;
      const arrivalAt = arrivals.at;
      const fleetAt = this.fleet === null ? Number.POSITIVE_INFINITY : this.fleet.nextAt;
      if (endAt <= arrivalAt && endAt <= wakeAt && endAt <= faultAt && endAt <= fleetAt) {
        if (endAt === Number.POSITIVE_INFINITY) {
          this.failWaiting(now);
          return;
        }
        now = Math.max(now, endAt);
        this.batchFinished(accelerators.nextToEnd, now);
      } else if (faultAt <= arrivalAt && faultAt <= wakeAt && faultAt <= fleetAt) {
        now = Math.max(now, faultAt);
        this.fault(faults[nextFault++]!, now);
      } else if (fleetAt <= arrivalAt && fleetAt <= wakeAt) {
        now = Math.max(now, fleetAt);
        this.fleet!.step(now);
      } else if (arrivalAt <= wakeAt) {
        now = Math.max(now, arrivalAt);
        const { model } = arrivals;
        this.fleet?.countArrival(model);
        if (!scheduler.arrive(model, this.tags++, now, now + sloUs[model]!, now)) {
          this.collector.end(model, DROPPED, DROP_QUEUE_FULL, now, -1, now);
          this.fleet?.countEnd(model, DROPPED, DROP_QUEUE_FULL);
        }
        arrivals.advance();
      } else {
        now = Math.max(now, wakeAt);
        scheduler.wake(now);
      }
    }
  }

  report(seed: number): Report {
    const report = this.collector.report({ policy: this.policyName, seed });
    return this.fleet === null ? report : { ...report, autoscale: this.fleet.report() };
  }

  snapshot(): CollectorSnapshot {
    return this.collector.snapshot();
  }

  badRates(): { badRates: number[]; arrived: number[] } {
    const badRates = this.scenario.models.map((_, model) => this.collector.badRate(model));
    const arrived = this.scenario.models.map((_, model) => this.collector.arrived(model));
    return { badRates, arrived };
  }

  // CommandSink

  dispatch(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    const { batches } = this.scheduler;
    const profiledUs = this.scenario.models[batches.queue[batch]!]!.execUs[batches.executedSize[batch]!]!;
    this.accelerators.run(accelerator, batch, batches.execAt[batch]!, profiledUs, at);
  }

  end(request: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number): void {
    const { requests } = this.scheduler;
    const model = requests.queue[request]!;
    this.collector.end(model, outcome as 0, reason, requests.arrivalAt[request]!, execStartAt, at);
    this.fleet?.countEnd(model, outcome, reason);
  }

  batchEnded(batch: BatchId, startAt: number, endAt: number): void {
    const { batches, requests } = this.scheduler;
    let invalid = 0;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!) {
      if (requests.latestEndAt[member]! < endAt || requests.state[member] === ABANDONED) invalid++;
    }
    this.collector.batch(
      batches.queue[batch]!,
      batches.accelerator[batch]!,
      batches.size[batch]!,
      startAt,
      endAt,
      invalid,
    );
  }

  preempt(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    this.wasted(batch, accelerator, at);
    this.accelerators.ended(accelerator, at);
  }

  /** What ran of the batch until now was for nothing. */
  private wasted(batch: BatchId, accelerator: AcceleratorId, at: number): void {
    const { batches } = this.scheduler;
    const startedAt = this.accelerators.startedAt[accelerator]!;
    const size = batches.size[batch]!;
    if (startedAt < at) this.collector.batch(batches.queue[batch]!, accelerator, size, startedAt, at, size);
  }

  // Faults

  private fault(fault: ExpandedFault, at: number): void {
    const id = fault.accelerator;
    switch (fault.kind) {
      case "fail":
        this.isFailed[id] = 1;
        this.fail(id, at);
        return;
      case "leave":
        this.leave(id, at);
        return;
      case "recover":
      case "join":
        this.isFailed[id] = 0;
        if (this.fleet?.isWanted(id) ?? true) this.join(id, at);
        return;
      case "slow":
        // The scheduler is not told: it learns from measured batches.
        this.accelerators.scale[id] = this.scenario.accelerators[id]!.scale * fault.factor;
        return;
      default:
        assertNever(fault.kind);
    }
  }

  /** Nothing will happen any more: what waits under a policy that drops nobody has no accelerator left. */
  private failWaiting(at: number): void {
    const { requests } = this.scheduler;
    if (requests.live === 0) return;
    const handles = Array.from(requests.state.keys());
    for (let model = 0; model < this.scenario.models.length; model++) this.scheduler.failQueued(model, handles, at);
  }

  private createFleet(autoscale: ExpandedAutoscale): Fleet {
    const { accelerators, scheduler } = this;
    return new Fleet(this.scenario, autoscale, {
      join: (id, at) => this.isFailed[id] === 0 && this.join(id, at),
      leave: (id, at) => this.leave(id, at),
      busyUs: (at) => accelerators.busyUs(at),
      holds: (id) => accelerators.running[id]! >= 0,
      queueLength: (model) => scheduler.queueLength(model),
    });
  }

  private leave(id: AcceleratorId, at: number): void {
    if (this.accelerators.up[id] === 1) this.fleet?.countServing(-1, at);
    this.accelerators.up[id] = 0;
    this.scheduler.leave(id, at);
  }

  private join(id: AcceleratorId, at: number): void {
    if (this.accelerators.up[id] === 0) this.fleet?.countServing(1, at);
    this.accelerators.up[id] = 1;
    this.scheduler.join(id, this.scenario.accelerators[id]!.scale, at);
  }

  private fail(id: AcceleratorId, at: number): void {
    const { accelerators, scheduler } = this;
    const running = accelerators.running[id]!;
    const waiting = accelerators.waitingFromLast(id);
    accelerators.clear(id, at);
    this.leave(id, at);
    for (const batch of waiting) scheduler.failed(batch, FAIL_WORKER_CRASHED, at);
    if (running < 0) return;
    this.wasted(running, id, at);
    scheduler.failed(running, FAIL_WORKER_CRASHED, at);
  }

  private batchFinished(id: AcceleratorId, at: number): void {
    const batch = this.accelerators.running[id]!;
    const startedAt = this.accelerators.startedAt[id]!;
    this.accelerators.ended(id, at);
    this.scheduler.finished(batch, startedAt, at, at);
    // What follows may have its turn too late: the accelerator refuses it.
    for (;;) {
      const following = this.accelerators.running[id]!;
      if (following < 0 || this.accelerators.startedAt[id]! <= this.scheduler.batches.latestAt[following]!) return;
      this.accelerators.ended(id, at);
      this.scheduler.rejected(following, at);
    }
  }
}
