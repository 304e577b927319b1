import type { CoreView, QueueKey, QueueSpec } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import { NexusPlan } from "./nexus-plan.js";

export interface NexusPlannerOptions {
  /** epochs: re-planned from measured rates; static: every model on every accelerator, for ever. */
  readonly plan: "epochs" | "static";
  /** Batch of the static plan; null: the largest within half the SLO. */
  readonly staticBatch: number | null;
  readonly epochUs: number;
  /** Least time between epochs when a rate leaves its plan. */
  readonly epochMinUs: number;
  /** Profiles are taken as this many times longer in plans. */
  readonly profileMultiplier: number;
  /** Rates are planned for as this many times what is measured. */
  readonly rateMargin: number;
  /** Taken off the SLO in plans, µs. */
  readonly allowanceUs: number;
}

const SAMPLE_US = 1_000_000;
/** Weight of a one-second sample in the moving average of a rate. */
const EWMA_WEIGHT = 1 - Math.exp(-1 / 10);
/** A rate outside this range of its planned throughput calls for an epoch before its time. */
const BELOW = 0.8;
const ABOVE = 1.1;

interface Model {
  readonly key: QueueKey;
  readonly spec: QueueSpec;
  arrivals: number;
  /** Per µs; NaN before the first sample. */
  rate: number;
  /** Rates are known and the plan holds it. Before, it is on every accelerator. */
  isPlanned: boolean;
}

/**
 * Nexus's global scheduler: measures the rates of the models, and each epoch decides which accelerators serve which.
 *
 * It has no timer of its own: what is due is done when the next request arrives, before anything is decided about it.
 * A model whose rate is not known yet is on every accelerator, with the largest batch (Nexus gives it one accelerator).
 */
export class NexusPlanner {
  /** Changes with the plan. */
  version = 0;
  private readonly models = new Map<QueueKey, Model>();
  private readonly plan: NexusPlan;
  private present: AcceleratorId[] = [];
  private scales: number[] = [];
  private sampleEndsAt = Number.NaN;
  private plannedAt = 0;
  private readonly core: CoreView;
  private readonly options: NexusPlannerOptions;

  constructor(core: CoreView, options: NexusPlannerOptions) {
    this.core = core;
    this.options = options;
    this.plan = new NexusPlan(core.accelerators.capacity, {
      us: (key, batch, id) =>
        this.models.get(key)!.spec.latency.execUs[batch]! * core.accelerators.scale[id]! * options.profileMultiplier,
      sizeMax: (key) => this.models.get(key)!.spec.latency.sizeMax,
      budgetUs: (key) => Math.max(0, this.models.get(key)!.spec.sloUs - options.allowanceUs),
      sloUs: (key) => this.models.get(key)!.spec.sloUs,
    });
  }

  add(key: QueueKey, spec: QueueSpec): void {
    this.models.set(key, { key, spec, arrivals: 0, rate: Number.NaN, isPlanned: false });
    this.version++;
  }

  remove(key: QueueKey): void {
    this.plan.forget(key);
    this.models.delete(key);
  }

  /** One request of this model arrives. Epochs that are due come first; the queues are told. */
  arriving(key: QueueKey, at: number): void {
    if (this.options.plan === "epochs") this.advance(at);
    this.models.get(key)!.arrivals++;
  }

  /** Accelerators may have come, gone, or become faster or slower: then the plan is made anew at once. */
  acceleratorsChanged(at: number): void {
    const { accelerators } = this.core;
    const present: AcceleratorId[] = [];
    const scales: number[] = [];
    for (let id = 0; id < accelerators.capacity; id++) {
      if (accelerators.present[id] === 0) continue;
      present.push(id);
      scales.push(accelerators.scale[id]!);
    }
    const isSame =
      present.length === this.present.length &&
      present.every((id, index) => id === this.present[index] && scales[index] === this.scales[index]);
    if (isSame) return;
    this.present = present;
    this.scales = scales;
    this.replan(at);
  }

  /** Planned batch of a model on an accelerator; 0: it is not served there. */
  batchOn(key: QueueKey, id: AcceleratorId): number {
    const { accelerators } = this.core;
    if (accelerators.present[id] === 0) return 0;
    const model = this.models.get(key)!;
    if (model.isPlanned) return this.plan.loadOf(key, id)?.batch ?? 0;
    const { staticBatch } = this.options;
    return staticBatch === null ? this.plan.largestBatch(key, id) : Math.min(staticBatch, model.spec.latency.sizeMax);
  }

  /** Share of a model's requests that an accelerator gets, relative to its others: its planned throughput. */
  weightOn(key: QueueKey, id: AcceleratorId): number {
    if (this.models.get(key)!.isPlanned) return this.plan.loadOf(key, id)?.throughput ?? 0;
    return this.core.accelerators.present[id] === 0 ? 0 : this.plan.capacity(key, id);
  }

  private advance(at: number): void {
    if (Number.isNaN(this.sampleEndsAt)) {
      this.sampleEndsAt = at + SAMPLE_US;
      this.plannedAt = at;
      return;
    }
    if (at < this.sampleEndsAt) return;
    const ended = Math.floor((at - this.sampleEndsAt) / SAMPLE_US) + 1;
    this.sampleEndsAt += ended * SAMPLE_US;
    for (const model of this.models.values()) {
      const sample = model.arrivals / SAMPLE_US;
      model.arrivals = 0;
      if (Number.isNaN(model.rate)) model.rate = sample;
      else model.rate += EWMA_WEIGHT * (sample - model.rate);
      // Seconds in which nothing at all arrived.
      if (ended > 1) model.rate *= (1 - EWMA_WEIGHT) ** (ended - 1);
    }
    const sinceUs = at - this.plannedAt;
    if (sinceUs >= this.options.epochUs || (sinceUs >= this.options.epochMinUs && this.isOffPlan())) this.replan(at);
  }

  private isOffPlan(): boolean {
    for (const { key, rate, isPlanned } of this.models.values()) {
      if (!isPlanned) continue;
      const planned = this.plan.throughput(key);
      const wanted = rate * this.options.rateMargin;
      if (wanted < BELOW * planned || wanted > ABOVE * planned) return true;
    }
    return false;
  }

  private replan(at: number): void {
    if (this.options.plan === "epochs" && this.present.length > 0) {
      const rates = new Map<QueueKey, number>();
      for (const model of this.models.values()) {
        if (Number.isNaN(model.rate)) continue;
        rates.set(model.key, model.rate * this.options.rateMargin);
        model.isPlanned = true;
      }
      this.plan.replan(rates, this.present);
      this.plannedAt = at;
    }
    this.version++;
    for (const key of this.models.keys()) this.core.expired(key, at);
  }
}
