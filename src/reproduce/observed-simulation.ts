import type { ExpandedScenario } from "../config/scenario/scenario.js";
import { FINISHED } from "../core/outcome.js";
import type { BatchId } from "../core/tables/batch-table.js";
import type { RequestHandle } from "../core/tables/request-table.js";
import { createPolicy } from "../policies/registry.js";
import { Simulation } from "../sim/simulation.js";
import type { Choice, SeriesResult, TimelineResult } from "./point.js";

/** A run of more requests than this is no timeline that anybody looks at. */
const TIMELINE_REQUESTS_MAX = 100_000;

/** A simulated run that tells of its batches and requests as they end. */
abstract class ObservedSimulation extends Simulation {
  constructor(scenario: ExpandedScenario, choice: Choice, seed: number) {
    super(scenario, createPolicy(choice.policy, choice.options), seed);
  }

  override end(request: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number): void {
    const { requests } = this.scheduler;
    this.requestEnded(
      requests.tag[request]!,
      this.groups[0]!.models[requests.queue[request]!]!,
      outcome === FINISHED,
      requests.arrivalAt[request]!,
      at,
    );
    super.end(request, outcome, reason, execStartAt, at);
  }

  override batchEnded(batch: BatchId, startAt: number, endAt: number): void {
    this.batchRan(batch, startAt, endAt);
    super.batchEnded(batch, startAt, endAt);
  }

  /** @param number from 0 in order of arrival. */
  protected abstract requestEnded(
    number: number,
    model: number,
    isFinished: boolean,
    arrivalAt: number,
    at: number,
  ): void;
  protected abstract batchRan(batch: BatchId, startAt: number, endAt: number): void;
}

/** Records every batch and every request. */
export class Timeline extends ObservedSimulation {
  private readonly batches: TimelineResult["batches"][number][] = [];
  private readonly arrivals: TimelineResult["arrivals"][number][] = [];

  result(): TimelineResult {
    return {
      batches: this.batches.sort((a, b) => a.start_us - b.start_us || a.accelerator - b.accelerator),
      arrivals: this.arrivals.sort((a, b) => a.request - b.request),
    };
  }

  protected requestEnded(number: number, _model: number, isFinished: boolean, arrivalAt: number): void {
    if (this.arrivals.length >= TIMELINE_REQUESTS_MAX) return;
    this.arrivals.push({ request: number + 1, at_us: arrivalAt, dropped: !isFinished });
  }

  protected batchRan(batch: BatchId, startAt: number, endAt: number): void {
    if (this.batches.length >= TIMELINE_REQUESTS_MAX) return;
    const { batches, requests } = this.scheduler;
    const members: number[] = [];
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!)
      members.push(requests.tag[member]! + 1);
    this.batches.push({
      accelerator: batches.accelerator[batch]!,
      start_us: startAt,
      end_us: endAt,
      size: batches.size[batch]!,
      requests: members.sort((a, b) => a - b),
    });
  }
}

/** Counts by slice of time: requests by their arrival, accelerators by when they were busy. */
export class Series extends ObservedSimulation {
  private readonly everyUs: number;
  private readonly slices: number;
  private readonly names: readonly string[];
  private readonly offered: Float64Array;
  private readonly good: Float64Array;
  private readonly busyUs: Float64Array;
  /** used[slice * accelerators + id] = 1 if it ran anything then. */
  private readonly used: Uint8Array;
  private readonly accelerators_: number;

  constructor(scenario: ExpandedScenario, choice: Choice, seed: number, everyS: number) {
    super(scenario, choice, seed);
    this.everyUs = everyS * 1e6;
    this.slices = Math.ceil(scenario.durationUs / this.everyUs);
    this.names = scenario.models.map(({ name }) => name);
    this.accelerators_ = scenario.accelerators.length;
    this.offered = new Float64Array(this.slices * this.names.length);
    this.good = new Float64Array(this.slices * this.names.length);
    this.busyUs = new Float64Array(this.slices);
    this.used = new Uint8Array(this.slices * this.accelerators_);
  }

  series(): Pick<SeriesResult, "models" | "slices"> {
    const everyS = this.everyUs / 1e6;
    return {
      models: this.names,
      slices: Array.from({ length: this.slices }, (_, slice) => {
        const of = (counts: Float64Array) =>
          Array.from(counts.subarray(slice * this.names.length, (slice + 1) * this.names.length), (n) => n / everyS);
        const offered = of(this.offered);
        const good = of(this.good);
        const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
        const row = this.used.subarray(slice * this.accelerators_, (slice + 1) * this.accelerators_);
        return {
          at_s: slice * everyS,
          offered_rps: offered,
          good_rps: good,
          bad_rate: sum(offered) === 0 ? 0 : 1 - sum(good) / sum(offered),
          used: row.reduce((all, isUsed) => all + isUsed, 0),
          busy: this.busyUs[slice]! / this.everyUs,
        };
      }),
    };
  }

  protected requestEnded(_number: number, model: number, isFinished: boolean, arrivalAt: number): void {
    const slice = Math.floor(arrivalAt / this.everyUs);
    this.offered[slice * this.names.length + model]! += 1;
    if (isFinished) this.good[slice * this.names.length + model]! += 1;
  }

  protected batchRan(batch: BatchId, startAt: number, endAt: number): void {
    const accelerator = this.scheduler.batches.accelerator[batch]!;
    const last = Math.min(this.slices - 1, Math.floor(endAt / this.everyUs));
    for (let slice = Math.floor(startAt / this.everyUs); slice <= last; slice++) {
      const from = Math.max(startAt, slice * this.everyUs);
      const to = Math.min(endAt, (slice + 1) * this.everyUs);
      if (to <= from) continue;
      this.busyUs[slice]! += to - from;
      this.used[slice * this.accelerators_ + accelerator] = 1;
    }
  }
}
