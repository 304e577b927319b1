/**
 * Open-loop load on a threaded scheduler in real time: Poisson arrivals and emulated accelerators in the calling thread,
 * everything else in the scheduler's own. Used by `rubato bench scheduler` and by tests.
 */

import { EmulatedAccelerators } from "../../core/emulated-accelerators.js";
import { linearTable } from "../../core/latency/latency.js";
import { FINISHED } from "../../core/outcome.js";
import type { NetworkDelays } from "../../core/policy.js";
import { stream } from "../../sim/random.js";
import { type ActorReport, WorkerHost } from "../../threads/hosts.js";
import { createMemory } from "../../threads/memory.js";
import type { RunOptions, RunRecord } from "../../threads/run-record.js";
import { ThreadedScheduler, type ThreadedSink } from "../../threads/threaded-scheduler.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";

export interface ThreadedLoadOptions {
  readonly alphaMs: number;
  readonly betaMs: number;
  readonly sloMs: number;
  readonly batchMax: number;
  readonly models: number;
  /** Queues that each model is split into, dealt out over the threads. */
  readonly queuesPerModel: number;
  readonly accelerators: number;
  /** Requests per second over all models. */
  readonly rateRps: number;
  readonly threads: number;
  /** See RunOptions. */
  readonly rankWithin?: boolean;
  readonly network: NetworkDelays;
  /** How often this end looks and speaks; the scheduler's threads are woken by what is said. */
  readonly lotUs: number;
  /** See WorkerHostOptions. */
  readonly pollUs: number;
  /** Not measured, then measured. */
  readonly warmupS: number;
  readonly seconds: number;
  readonly seed: number;
  /** Most rows of an actor's turn log; 0: nothing is recorded. */
  readonly rowsMax: number;
}

export interface ThreadedLoadResult {
  /** In the measured time. */
  readonly arrived: number;
  readonly finished: number;
  readonly batches: number;
  /** Processor time of all threads in the measured time, s, and its length. */
  readonly cpuS: number;
  readonly wallS: number;
  /** Of the whole run. */
  readonly rank: ActorReport;
  readonly threads: readonly ActorReport[];
  readonly record: RunRecord | null;
}

/** Drawn beforehand and gone through again and again: a logarithm for each request cost as much as what is measured. */
const GAPS = 2 ** 16;
/** Of another length, so that a gap does not belong to a model. */
const PICKS = 65_521;

const WARMING = 0;
const MEASURED = 1;
const OVER = 2;
const PHASES = 3;

export async function runThreadedLoad(options: ThreadedLoadOptions): Promise<ThreadedLoadResult> {
  return await new ThreadedLoad(options).run();
}

class ThreadedLoad implements ThreadedSink {
  private readonly options: ThreadedLoadOptions;
  private readonly accelerators: EmulatedAccelerators;
  private readonly front: ThreadedScheduler;
  private readonly table: Float64Array;
  private readonly gaps: Float64Array;
  private readonly picks: Uint16Array;
  private nextGap = 0;
  private nextPick = 0;
  private readonly originUs = monotonicNow();
  private readonly freeTags: Int32Array;
  private freeCount: number;
  /** Counted by when a request arrived, and alike in all phases: a branch that is new is compiled anew just then. */
  private readonly phaseOf: Uint8Array;
  private phase = WARMING;
  private readonly arrived = new Float64Array(PHASES);
  private readonly finished = new Float64Array(PHASES);
  private readonly batches = new Float64Array(PHASES);
  /** Moment of the next arrival; in an array, so that it is never boxed. */
  private readonly exactAt = new Float64Array(1);
  private live = 0;
  private now = 0;
  private error: Error | null = null;

  constructor(options: ThreadedLoadOptions) {
    this.options = options;
    const { accelerators, threads, models, queuesPerModel, rateRps, sloMs } = options;
    const sloUs = sloMs * 1000;
    // Four times what can be under way when nobody is late.
    const tagsMax = Math.ceil((4 * rateRps * sloMs) / 1000) + 1000;
    const run: RunOptions = {
      network: options.network,
      acceleratorsMax: accelerators,
      queuesMax: models * queuesPerModel,
      requestsMax: tagsMax,
      tagsMax,
      retriesMax: 0,
      learn: false,
      oneAtATime: false,
      threadsMax: threads,
      rankWithin: options.rankWithin === true,
    };
    this.freeTags = Int32Array.from({ length: tagsMax }, (_, tag) => tag);
    this.freeCount = tagsMax;
    this.phaseOf = new Uint8Array(tagsMax);
    this.accelerators = new EmulatedAccelerators(accelerators);
    const uniform = stream(options.seed, "bench/arrivals");
    this.gaps = Float64Array.from({ length: GAPS }, () => (-Math.log1p(-uniform()) * 1e6) / rateRps);
    const pick = stream(options.seed, "bench/models");
    this.picks = Uint16Array.from({ length: PICKS }, () => Math.floor(pick() * models));
    this.table = linearTable(options.alphaMs * 1000, options.betaMs * 1000, options.batchMax);
    const memory = createMemory(run);
    const host = new WorkerHost(
      { options: run, memory, rowsMax: options.rowsMax },
      {
        policy: "deferred",
        policyOptions: {},
        originUs: this.originUs,
        pollUs: options.pollUs,
        onError: (error) => {
          this.error = error;
        },
      },
    );
    this.front = new ThreadedScheduler(run, memory, host, this, options.rowsMax > 0);
    for (let thread = 0; thread < threads; thread++) this.front.startThread();
    const execUs = [...this.table.subarray(1, options.batchMax + 1)];
    for (let model = 0; model < models; model++) {
      const on = Array.from({ length: queuesPerModel }, (_, queue) => (model + queue) % threads);
      this.front.addModel({ execUs, sloUs, lengthMax: tagsMax }, on);
    }
    for (let id = 0; id < accelerators; id++) {
      this.accelerators.up[id] = 1;
      this.front.join(id, 1);
    }
    this.front.show();
  }

  async run(): Promise<ThreadedLoadResult> {
    const { options, front } = this;
    const { models, lotUs } = options;
    // Threads start when this one lets them; their load begins when all are there.
    await new Promise((resolve) => setTimeout(resolve, 300));
    const startAt = this.clock();
    const measureAt = startAt + options.warmupS * 1e6;
    const endAt = measureAt + options.seconds * 1e6;
    this.exactAt[0] = startAt + this.gap();
    let cpu = process.cpuUsage();
    let used = cpu;
    let measuredFrom = startAt;
    let measuredTo = startAt;
    let isOver = false;
    while (!isOver || this.live > 0) {
      if (this.error !== null) throw this.error;
      this.now = this.clock();
      if (this.phase === WARMING && this.now >= measureAt) {
        this.phase = MEASURED;
        measuredFrom = this.now;
        cpu = process.cpuUsage();
      }
      if (!isOver && this.now >= endAt) {
        isOver = true;
        this.phase = OVER;
        measuredTo = this.now;
        used = process.cpuUsage(cpu);
      }
      if (!isOver) this.generate();
      front.poll(this.now);
      this.endDue();
      front.show();
      front.pause(lotUs / 1000);
    }
    for (let model = 0; model < models; model++) front.removeModel(model);
    for (const thread of front.threads) await this.stop(thread);
    front.stopRank();
    const { threads, rank } = await front.ended();
    return {
      arrived: this.arrived[MEASURED]!,
      finished: this.finished[MEASURED]!,
      batches: this.batches[MEASURED]!,
      cpuS: (used.user + used.system) / 1e6,
      wallS: (measuredTo - measuredFrom) / 1e6,
      rank,
      threads,
      record: await front.record(),
    };
  }

  private clock(): number {
    return monotonicNow() - this.originUs;
  }

  /** A method of its own: the loop of the run is compiled anew when it first takes the branches of a new phase. */
  private generate(): void {
    const { front, options, exactAt, arrived, phase, now, picks } = this;
    const sloUs = options.sloMs * 1000;
    for (; exactAt[0]! <= now; exactAt[0] = exactAt[0]! + this.gap()) {
      const arrivalAt = Math.floor(exactAt[0]!);
      const model = picks[this.nextPick]!;
      this.nextPick = this.nextPick + 1 === PICKS ? 0 : this.nextPick + 1;
      arrived[phase] = arrived[phase]! + 1;
      if (this.freeCount === 0) continue;
      const tag = this.freeTags[this.freeCount - 1]!;
      if (!front.arrive(model, tag, arrivalAt, arrivalAt + sloUs)) continue;
      this.freeCount--;
      this.live++;
      this.phaseOf[tag] = phase;
    }
  }

  private gap(): number {
    const gap = this.gaps[this.nextGap]!;
    this.nextGap = (this.nextGap + 1) & (GAPS - 1);
    return gap;
  }

  private endDue(): void {
    const { accelerators, now } = this;
    while (accelerators.nextEndAt <= now) {
      const endAt = accelerators.nextEndAt;
      const id = accelerators.nextToEnd;
      const batch = accelerators.running[id]!;
      const startAt = accelerators.startedAt[id]!;
      accelerators.ended(id, endAt);
      this.front.finished(batch, startAt, endAt);
    }
  }

  /** Its queues close first. */
  private async stop(thread: number): Promise<void> {
    const { front } = this;
    for (let isAsked = false; front.threads.includes(thread) || front.isRunning(thread); ) {
      if (!isAsked && front.queuesOn(thread) === 0) {
        front.stopThread(thread);
        isAsked = true;
      }
      front.show();
      await new Promise((resolve) => setTimeout(resolve, 1));
      front.poll(this.clock());
    }
  }

  // ThreadedSink

  dispatch(
    batch: number,
    _model: number,
    { accelerator, size, execAt }: Parameters<ThreadedSink["dispatch"]>[2],
  ): void {
    this.batches[this.phase] = this.batches[this.phase]! + 1;
    this.accelerators.run(accelerator, batch, execAt, this.table[size]!, this.now);
  }

  end(tag: number, outcome: number): void {
    const phase = this.phaseOf[tag]!;
    this.finished[phase] = this.finished[phase]! + (outcome === FINISHED ? 1 : 0);
    this.live--;
    this.freeTags[this.freeCount++] = tag;
  }

  batchEnded(): void {}
}
