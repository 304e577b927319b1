/**
 * How fast is the scheduling core? For comparing versions of it on one machine, and with Symphony's published rates.
 *
 * `core`: arrivals scheduled per CPU-second by the core alone, with its load generator and emulated accelerators, in
 * virtual time: no doors, no threads, no report. It says nothing about the latency of a decision, nor about a server.
 * `simulate`: simulated requests per wall second with the whole report, as `rubato simulate` runs.
 *
 * Each result has a digest of the answer, so that nobody speeds it up by changing the answer.
 */
import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import { ZOO } from "../../config/scenario/zoo.js";
import { violated } from "../../core/invariant.js";
import { linearTable, ProfiledLatency } from "../../core/latency/latency.js";
import { FINISHED } from "../../core/outcome.js";
import { type CommandSink, NO_DELAYS, Scheduler } from "../../core/scheduler.js";
import { durationUs } from "../../core/time.js";
import { createPolicy } from "../../policies/registry.js";
import { EmulatedAccelerators } from "../../sim/emulated-accelerators.js";
import { stream, type Uniform } from "../../sim/random.js";
import { simulate } from "../../sim/simulate.js";

export interface BenchResult {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** Setting and side figures, for people. */
  readonly detail: string;
  /** The same value means the same answer. */
  readonly digest: string;
  /** Further figures, by name, for machines; units are in the names. */
  readonly figures?: Readonly<Record<string, number>>;
}

export interface BenchSize {
  /** Work relative to the full size; CI runs it tiny. Default 1. */
  readonly size?: number;
}

/** Symphony's profile for scheduler throughput: SLO 100 ms, one accelerator per 750 requests/s. */
export const ALPHA_MS = 1.082;
export const BETA_MS = 5.204;
export const SLO_MS = 100;
export const BATCH_MAX = Math.floor((SLO_MS - BETA_MS) / ALPHA_MS);
export const RATE_PER_ACCELERATOR = 750;

/** @returns arrivals scheduled per CPU-second, three sizes. Best of three runs each: the least disturbed one. */
export function benchCore({ size = 1 }: BenchSize = {}): BenchResult[] {
  return [
    measureCore("core-1-model", 1, 32, Math.ceil(3_000_000 * size)),
    measureCore("core-64-models", 64, 512, Math.ceil(3_000_000 * size)),
    measureCore("core-1000-models", 1000, 4096, Math.ceil(4_000_000 * size)),
  ];
}

/** Arrivals that the core decides per CPU-second with one setting; the machine must do nothing else in this process. */
export function coreThroughput(models: number, accelerators: number, requests: number): number {
  return measureCore("core", models, accelerators, requests).value;
}

function measureCore(name: string, models: number, accelerators: number, requests: number): BenchResult {
  let bestS = Number.POSITIVE_INFINITY;
  let run = new CoreRun(models, accelerators, requests);
  for (let round = 0; round < 3; round++) {
    if (round > 0) run = new CoreRun(models, accelerators, requests);
    const before = process.cpuUsage();
    run.run();
    const used = process.cpuUsage(before);
    bestS = Math.min(bestS, (used.user + used.system) / 1e6);
  }
  const meanBatch = run.batches === 0 ? 0 : run.members / run.batches;
  return {
    name,
    value: requests / bestS,
    unit: "arrivals/CPU-s",
    detail: `${models} models, ${accelerators} accelerators, mean batch ${meanBatch.toFixed(1)}, finished ${((100 * run.finished) / requests).toFixed(2)} %`,
    digest: run.digest,
  };
}

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

/** @returns simulated requests per wall second, report included: one model on 8 accelerators, 37 of the zoo on 64. */
export function benchSimulate({ size = 1 }: BenchSize = {}): BenchResult[] {
  const resnet = { name: "ResNet50", alphaMs: 1.053, betaMs: 5.072, sloMs: 25 };
  return [
    measureSimulate("simulate-1-model", [resnet], 8, 5000, 400 * size),
    measureSimulate("simulate-37-models", ZOO.a100, 64, 16_000, 100 * size),
  ];
}

function measureSimulate(
  name: string,
  models: readonly { name: string; alphaMs: number; betaMs: number; sloMs: number }[],
  accelerators: number,
  rateRps: number,
  seconds: number,
): BenchResult {
  const scenario: ExpandedScenario = {
    name,
    file: name,
    seed: 1,
    durationUs: durationUs(Math.ceil(seconds * 1e6)),
    warmupUs: durationUs(0),
    models: models.map(({ name: model, alphaMs, betaMs, sloMs }) => {
      const batchSizeMax = Math.max(1, Math.floor((sloMs - betaMs) / alphaMs));
      const execUs = linearTable(alphaMs * 1000, betaMs * 1000, batchSizeMax);
      return { name: model, execUs, batchSizeMax, sloUs: durationUs(sloMs * 1000), rateRps: rateRps / models.length };
    }),
    accelerators: Array.from({ length: accelerators }, () => ({ kind: "emulated", scale: 1, present: true })),
    network: { controlUs: durationUs(0), dataUsPerRequest: durationUs(0), responseUs: durationUs(0) },
    arrivals: { kind: "renewal", gaps: "gamma", shape: 1, modulation: null, missing: [] },
    faults: [],
    policy: "deferred",
    policyOptions: {},
  };
  let bestS = Number.POSITIVE_INFINITY;
  let report = simulate(scenario);
  for (let round = 0; round < 2; round++) {
    const before = process.hrtime.bigint();
    report = simulate(scenario);
    bestS = Math.min(bestS, Number(process.hrtime.bigint() - before) / 1e9);
  }
  const { arrived, finished, late, dropped, bad_rate: badRate, utilization, batch_size: batch } = report;
  return {
    name,
    value: arrived / bestS,
    unit: "requests/s",
    detail: `${models.length} models, ${accelerators} accelerators, ${rateRps} r/s, bad ${(100 * badRate).toFixed(2)} %, utilization ${utilization.toFixed(3)}, mean batch ${(batch.mean ?? 0).toFixed(1)}`,
    digest: [arrived, finished, late, dropped].map((count) => count.toString(36)).join("-"),
  };
}
