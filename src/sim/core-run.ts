/**
 * The scheduling core alone under Symphony's load for scheduler throughput, in virtual time: Poisson arrivals, emulated
 * accelerators, nothing recorded but a digest of what was decided. For its cost per event and for Figure 13.
 */

import { EmulatedAccelerators } from "../core/emulated-accelerators.js";
import { violated } from "../core/invariant.js";
import { linearTable, ProfiledLatency } from "../core/latency/latency.js";
import { FINISHED } from "../core/outcome.js";
import { type CommandSink, NO_DELAYS, Scheduler } from "../core/scheduler.js";
import { createPolicy } from "../policies/registry.js";
import { stream, type Uniform } from "./random.js";

/** Symphony's profile for scheduler throughput: SLO 100 ms, one accelerator per 750 requests/s. */
export const ALPHA_MS = 1.082;
export const BETA_MS = 5.204;
export const SLO_MS = 100;
export const BATCH_MAX = Math.floor((SLO_MS - BETA_MS) / ALPHA_MS);
export const RATE_PER_ACCELERATOR = 750;

/** Arrivals of a run for neighbours. */
const RUN = 20_000;

/** Poisson arrivals, each of a random model (so every model's are Poisson too), accelerators that take as long as profiled, and a count of what happened. */
export class CoreRun implements CommandSink {
  finished = 0;
  /** Times that the scheduler was woken because time had passed. */
  wakes = 0;
  batches = 0;
  members = 0;
  private hash = 0x811c9dc5;
  private readonly scheduler: Scheduler;
  private readonly accelerators: EmulatedAccelerators;
  private readonly table = linearTable(ALPHA_MS * 1000, BETA_MS * 1000, BATCH_MAX);
  private readonly uniform: Uniform = stream(1, "bench/arrivals");
  private readonly models: number;
  private readonly neighbours: number;
  private firstNeighbour = 0;
  private drawn = 0;
  private readonly meanGapUs: number;
  private readonly requests: number;

  /**
   * @param neighbours arrivals come in runs for so many models that lie beside each other, each run elsewhere: as many
   * queues, but those in use fit the cache. 0: for any model at any time.
   */
  constructor(models: number, accelerators: number, requests: number, neighbours = 0) {
    this.requests = requests;
    this.models = models;
    this.neighbours = neighbours;
    this.meanGapUs = 1e6 / (accelerators * RATE_PER_ACCELERATOR);
    this.accelerators = new EmulatedAccelerators(accelerators);
    this.scheduler = new Scheduler(createPolicy("deferred", {}), this, {
      network: NO_DELAYS,
      acceleratorsMax: accelerators,
      requestsMax: 4_000_000,
      retriesMax: 0,
      learn: false,
    });
    const sloUs = SLO_MS * 1000;
    for (let model = 0; model < models; model++) {
      this.scheduler.addQueue({ latency: new ProfiledLatency(this.table), sloUs, lengthMax: 1_000_000 });
    }
    for (let id = 0; id < accelerators; id++) {
      this.accelerators.up[id] = 1;
      this.scheduler.join(id, 1, 0);
    }
  }

  get digest(): string {
    return (this.hash >>> 0).toString(16).padStart(8, "0");
  }

  /** Where a run that was halted goes on: time, moment of the next arrival, requests that arrived. */
  private now = 0;
  /** In an array, so that it is never boxed. */
  private readonly exactAt = new Float64Array(1);
  private arrived = 0;

  /** @param until halts when this many requests have arrived. */
  run(until = Number.POSITIVE_INFINITY): void {
    const { scheduler, accelerators, models, uniform, exactAt, neighbours } = this;
    let { now, arrived } = this;
    if (arrived === 0) exactAt[0] = this.gap();
    for (;;) {
      if (arrived >= until) {
        this.now = now;
        this.arrived = arrived;
        return;
      }
      const endAt = accelerators.nextEndAt;
      const wakeAt = Math.max(now, scheduler.nextWakeAt);
      const arrivalAt = arrived < this.requests ? Math.floor(exactAt[0]!) : Number.POSITIVE_INFINITY;
      if (endAt <= arrivalAt && endAt <= wakeAt) {
        if (endAt === Number.POSITIVE_INFINITY) return;
        now = Math.max(now, endAt);
        const id = accelerators.nextToEnd;
        const batch = accelerators.running[id]!;
        const startedAt = accelerators.startedAt[id]!;
        accelerators.ended(id, now);
        scheduler.finished(batch, startedAt, now, now);
      } else if (arrivalAt <= wakeAt) {
        // A small integer: V8 keeps it in place, where a double passed on is a box of 16 bytes.
        now = Math.max(now, arrivalAt) | 0;
        const model = models === 1 ? 0 : neighbours === 0 ? Math.floor(uniform() * models) : this.near(uniform());
        scheduler.arrive(model, arrived++, now, now + SLO_MS * 1000, now);
        exactAt[0] = exactAt[0]! + this.gap();
      } else {
        now = wakeAt;
        this.wakes++;
        scheduler.wake(now);
      }
    }
  }

  dispatch(batch: number, accelerator: number, at: number): void {
    const { batches } = this.scheduler;
    const size = batches.size[batch]!;
    this.batches++;
    this.members += size;
    this.hash = Math.imul(this.hash ^ accelerator ^ (size << 16), 0x01000193);
    this.hash = Math.imul(this.hash ^ (at | 0) ^ batches.queue[batch]!, 0x01000193);
    this.accelerators.run(accelerator, batch, batches.execAt[batch]!, this.table[size]!, at);
  }

  end(_request: number, outcome: number): void {
    if (outcome === FINISHED) this.finished++;
  }

  batchEnded(): void {}

  preempt(): void {
    violated("this policy does not preempt");
  }

  /** A model among the neighbours whose turn it is. */
  private near(u: number): number {
    const { models, neighbours } = this;
    if (this.drawn++ % RUN === 0) this.firstNeighbour = Math.floor(this.uniform() * (models - neighbours + 1));
    return this.firstNeighbour + Math.floor(u * neighbours);
  }

  private gap(): number {
    return -Math.log1p(-this.uniform()) * this.meanGapUs;
  }
}
