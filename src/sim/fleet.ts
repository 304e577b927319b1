/**
 * Autoscaling in the simulator: counts what happens between two decisions, asks the advisor, and, unless it is a dry
 * run, lets accelerators come after their start-up time and leave by draining.
 *
 * The accelerators of the lowest numbers are the ones wanted: the scheduler prefers them, so the highest are idle and
 * drain soonest. Decisions end with the arrivals.
 */
import type { ExpandedAutoscale, ExpandedScenario } from "../config/scenario/expand-scenario.js";
import { DROP_CANCELLED, DROPPED, FAIL_NO_ACCELERATOR, FAILED, FINISHED, LATE } from "../core/outcome.js";
import type { AutoscaleDecision, AutoscaleReport } from "../measure/report.js";
import { ScaleAdvisor } from "../scaling/advisor.js";
import { addWork, type GroupWork } from "../scaling/work.js";

/** What the fleet asks of the simulation. */
export interface FleetDriver {
  /** Takes batches from now on. */
  join(id: number, at: number): void;
  /** Takes no new batches; what it holds ends. */
  leave(id: number, at: number): void;
  /** Accelerator time spent executing since the start of the run. */
  busyUs(at: number): number;
  /** Holds batches. */
  holds(id: number): boolean;
  queueLength(model: number): number;
}

export class Fleet {
  private readonly scenario: ExpandedScenario;
  private readonly autoscale: ExpandedAutoscale;
  private readonly driver: FleetDriver;
  private readonly advisor: ScaleAdvisor;
  private readonly scale: number;
  private readonly decisions: AutoscaleDecision[] = [];
  /** Accelerators [0, wanted) are there, or come at joinsAt. */
  private wanted: number;
  private readonly joinsAt: Float64Array;
  private firstJoinAt = Number.POSITIVE_INFINITY;
  private nextDecisionAt: number;
  private decidedAt = 0;
  private busyUsBefore = 0;
  private readonly arrived: Float64Array;
  private readonly dropped: Float64Array;
  private good = 0;
  private bad = 0;
  private serving: number;
  private presentUs = 0;
  private presentSince = 0;
  private presentUsTotal = 0;

  constructor(scenario: ExpandedScenario, autoscale: ExpandedAutoscale, driver: FleetDriver) {
    const count = scenario.accelerators.length;
    this.scenario = scenario;
    this.autoscale = autoscale;
    this.driver = driver;
    this.wanted = autoscale.initial;
    this.advisor = new ScaleAdvisor(autoscale.options, autoscale.initial, 0);
    this.scale = scenario.accelerators.reduce((sum, accelerator) => sum + accelerator.scale, 0) / count;
    this.joinsAt = new Float64Array(count).fill(Number.POSITIVE_INFINITY);
    this.arrived = new Float64Array(scenario.models.length);
    this.dropped = new Float64Array(scenario.models.length);
    const { intervalUs } = autoscale.options;
    this.nextDecisionAt = intervalUs <= scenario.durationUs ? intervalUs : Number.POSITIVE_INFINITY;
    this.serving = 0;
  }

  /** When `step` has something to do. */
  get nextAt(): number {
    return Math.min(this.firstJoinAt, this.nextDecisionAt);
  }

  /** May the accelerator be there, as far as the fleet is concerned? */
  isWanted(id: number): boolean {
    return this.autoscale.isDry || (id < this.wanted && this.joinsAt[id] === Number.POSITIVE_INFINITY);
  }

  countArrival(model: number): void {
    this.arrived[model] = this.arrived[model]! + 1;
  }

  countEnd(model: number, outcome: number, reason: number): void {
    if (outcome === FINISHED) this.good++;
    else if (outcome === LATE) this.bad++;
    else if (
      (outcome === DROPPED && reason !== DROP_CANCELLED) ||
      (outcome === FAILED && reason === FAIL_NO_ACCELERATOR)
    ) {
      this.bad++;
      this.dropped[model] = this.dropped[model]! + 1;
    }
  }

  /** The number of accelerators that take batches changed. */
  countServing(change: 1 | -1, at: number): void {
    this.notePresent(at);
    this.serving += change;
  }

  step(at: number): void {
    if (this.firstJoinAt <= at) this.joinDue(at);
    if (this.nextDecisionAt <= at) this.decide(at);
  }

  report(): AutoscaleReport {
    const endAt = this.scenario.durationUs;
    this.notePresent(Math.max(this.presentSince, endAt));
    const { decisions } = this;
    let direction = 0;
    let turns = 0;
    let changes = 0;
    for (const { change } of decisions) {
      if (change === 0) continue;
      changes++;
      if (direction !== 0 && Math.sign(change) !== direction) turns++;
      direction = Math.sign(change);
    }
    return {
      dry_run: this.autoscale.isDry,
      interval_s: this.autoscale.options.intervalUs / 1e6,
      accelerators_mean: this.presentUsTotal / Math.max(1, this.presentSince),
      changes,
      changes_of_direction: turns,
      decisions,
    };
  }

  private notePresent(at: number): void {
    const us = this.serving * (at - this.presentSince);
    this.presentUs += us;
    this.presentUsTotal += us;
    this.presentSince = at;
  }

  private decide(at: number): void {
    const { driver, scenario } = this;
    const nextAt = at + this.autoscale.options.intervalUs;
    this.nextDecisionAt = nextAt <= this.scenario.durationUs ? nextAt : Number.POSITIVE_INFINITY;
    const intervalUs = at - this.decidedAt;
    const work: GroupWork = { arrivedWorkUs: 0, droppedWorkUs: 0, queuedAccelerators: 0 };
    scenario.models.forEach(({ execUs, sloUs }, model) => {
      const counts = {
        execUs,
        sloUs,
        arrived: this.arrived[model]!,
        dropped: this.dropped[model]!,
        waiting: driver.queueLength(model),
      };
      addWork(work, counts, intervalUs, this.scale);
    });
    this.notePresent(at);
    const busyUs = driver.busyUs(at);
    const { serving } = this;
    const starting = this.autoscale.isDry ? 0 : this.startingCount();
    const advice = this.advisor.decide(
      {
        intervalUs,
        good: this.good,
        bad: this.bad,
        ...work,
        busyUs: busyUs - this.busyUsBefore,
        presentUs: this.presentUs,
        serving,
        starting,
      },
      at,
    );
    const size = this.autoscale.isDry ? this.wanted : advice.advice;
    this.decisions.push({
      at_s: at / 1e6,
      accelerators: serving,
      starting,
      draining: this.drainingCount(size),
      needed: advice.needed,
      advice: advice.advice,
      change: advice.change,
      reason: advice.reason,
      bad_rate: advice.badRate,
      idle_fraction: advice.idleFraction,
      demand: advice.demand,
      queued: work.queuedAccelerators,
    });
    this.arrived.fill(0);
    this.dropped.fill(0);
    this.good = 0;
    this.bad = 0;
    this.presentUs = 0;
    this.busyUsBefore = busyUs;
    this.decidedAt = at;
    if (!this.autoscale.isDry) this.resize(advice.advice, at);
  }

  private resize(size: number, at: number): void {
    const before = this.wanted;
    this.wanted = size;
    for (let id = size; id < before; id++) {
      if (this.joinsAt[id] !== Number.POSITIVE_INFINITY) this.joinsAt[id] = Number.POSITIVE_INFINITY;
      else this.driver.leave(id, at);
    }
    for (let id = before; id < size; id++) this.joinsAt[id] = at + this.autoscale.startupUs;
    this.planJoins();
    if (this.firstJoinAt <= at) this.joinDue(at);
  }

  private joinDue(at: number): void {
    for (let id = 0; id < this.wanted; id++) {
      if (this.joinsAt[id]! > at) continue;
      this.joinsAt[id] = Number.POSITIVE_INFINITY;
      this.driver.join(id, at);
    }
    this.planJoins();
  }

  private planJoins(): void {
    let first = Number.POSITIVE_INFINITY;
    for (const at of this.joinsAt) if (at < first) first = at;
    this.firstJoinAt = first;
  }

  private startingCount(): number {
    let count = 0;
    for (const at of this.joinsAt) if (at !== Number.POSITIVE_INFINITY) count++;
    return count;
  }

  /** Those that hold batches and are not, or with this decision no longer, wanted. */
  private drainingCount(wanted: number): number {
    let count = 0;
    for (let id = wanted; id < this.joinsAt.length; id++) if (this.driver.holds(id)) count++;
    return count;
  }
}
