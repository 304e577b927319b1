/**
 * A live server whose workers follow a load in steps: real worker processes with emulated accelerators, real time,
 * Poisson arrivals; every request's end is kept. The server is in this process and without doors: they are no part of it.
 */
import type { GroupAutoscale, ModelSpec } from "../config/model.js";
import { durationUs } from "../core/time.js";
import { SCALE_DEFAULTS, type ScaleOptions } from "../scaling/advisor.js";
import { profileOfEmulated } from "../serve/models/model-profile.js";
import { ModelTimes } from "../serve/models/model-times.js";
import { silentLog } from "../serve/observation/log.js";
import { Server } from "../serve/server.js";
import { ProcessPool } from "../serve/workers/process-pool.js";
import { stream } from "../sim/random.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { ServingError } from "../wire/serving-error.js";

export interface LoadStepsOptions {
  /** Requests per second of each step, in order, and how long one lasts. */
  readonly ratesRps: readonly number[];
  readonly stepMs: number;
  readonly min: number;
  readonly max: number;
  readonly start: number;
  readonly intervalMs: number;
  readonly downCooldownMs: number;
  readonly keepWarmMs: number;
  readonly seed: number;
  /** Between samples. */
  readonly sampleMs: number;
  readonly onSample?: (sample: LoadSample) => void;
}

export interface LoadSample {
  /** From the start of the load. */
  readonly atMs: number;
  readonly rateRps: number;
  /** Accelerators that take batches; processes that are there, warm ones included. */
  readonly workers: number;
  readonly processes: number;
  readonly advice: number;
  readonly reason: string;
}

export interface RequestEnd {
  /** When it was sent, from the start of the load. */
  readonly atMs: number;
  readonly step: number;
  /** "finished", or the reason of the error. */
  readonly end: string;
}

export interface LoadSteps {
  readonly samples: readonly LoadSample[];
  readonly ends: readonly RequestEnd[];
  readonly sent: number;
  /** Answers beyond the first of a request. */
  readonly extraAnswers: number;
  /** Of the whole run, by the server's own count. */
  readonly workerExits: number;
  /** Processes that are left when the server has stopped. */
  readonly processesLeft: number;
}

const GROUP = "workers";
const MODEL: ModelSpec = {
  name: "m",
  version: "1",
  versions: ["1"],
  platform: "rubato_emulated",
  file: null,
  folder: "",
  inputs: [{ name: "x", datatype: "FP32", shape: [-1, 1], batchAxis: 0, variable: null, optional: false }],
  outputs: [{ name: "y", datatype: "FP32", shape: [-1, 1], batchAxis: 0, variable: null, optional: false }],
  batchSizeMax: 32,
  batchSizeFixed: null,
  sloUs: durationUs(300_000),
  defaultTimeoutUs: durationUs(300_000),
  timeoutMaxUs: durationUs(10_000_000),
  policy: "deferred",
  policyOptions: {},
  group: GROUP,
  queueRequestsMax: 10_000,
  queueBytesMax: 1 << 28,
  // About 75 requests per second and accelerator in batches of 11.
  emulated: { alphaMs: 10, betaMs: 40, tableMs: null },
  apps: [],
  parameters: {},
};

export async function runLoadSteps(options: LoadStepsOptions): Promise<LoadSteps> {
  const { ratesRps, stepMs, min, max, start } = options;
  const scale: ScaleOptions = {
    ...SCALE_DEFAULTS,
    min,
    max,
    downCooldownUs: options.downCooldownMs * 1000,
  };
  const autoscale: GroupAutoscale = {
    options: { ...scale, intervalUs: options.intervalMs * 1000 },
    act: true,
    start,
    keepWarmUs: durationUs(options.keepWarmMs * 1000),
  };
  const spec = {
    name: GROUP,
    kind: "emulated",
    count: max,
    threads: 1,
    scales: new Array<number>(max).fill(1),
    autoscale,
  } as const;
  const pool = new ProcessPool([spec], { hangFloorMs: 5000 });
  let broken: unknown = null;
  const server = new Server({
    pool,
    log: silentLog(),
    tracer: null,
    slots: 8192,
    retriesMax: 1,
    eventLog: null,
    modelControl: "none",
    onBroken: (error) => {
      broken = error;
    },
    models: {
      names: () => [MODEL.name],
      read: () => [MODEL],
      times: async () => new ModelTimes(MODEL, profileOfEmulated(MODEL)),
    },
  });
  await server.start();
  const pids = (): number[] => {
    const all = Array.from({ length: max }, (_, accelerator) => pool.pidOf(accelerator));
    return [...new Set(all)].filter((pid) => pid > 0);
  };
  const run = new Run(server, options, () => pids().length);
  try {
    for (let step = 0; step < ratesRps.length; step++) await run.step(step, ratesRps[step]!, (step + 1) * stepMs);
    await run.ended();
  } finally {
    await server.stop(0, 0, async () => {});
  }
  if (broken !== null) throw broken;
  const exits = await server.metrics();
  return {
    samples: run.samples,
    ends: run.ends,
    sent: run.sent,
    extraAnswers: run.extraAnswers,
    workerExits: sumOf(exits, "rubato_worker_exits_total"),
    processesLeft: pids().length,
  };
}

class Run {
  readonly samples: LoadSample[] = [];
  readonly ends: RequestEnd[] = [];
  sent = 0;
  extraAnswers = 0;
  private readonly server: Server;
  private readonly options: LoadStepsOptions;
  private readonly processes: () => number;
  private readonly random: () => number;
  private readonly startedAt = performance.now();
  private nextSampleMs = 0;
  private nextArrivalMs = 0;

  constructor(server: Server, options: LoadStepsOptions, processes: () => number) {
    this.server = server;
    this.options = options;
    this.processes = processes;
    this.random = stream(options.seed, "arrivals/m");
  }

  private get nowMs(): number {
    return performance.now() - this.startedAt;
  }

  /** Sends until `endMs` from the start of the load: open loop, what is due is sent however late it is. */
  async step(step: number, rateRps: number, endMs: number): Promise<void> {
    // An exponential gap has no memory: what is left of the one under way is as good as a new one.
    this.nextArrivalMs = this.nowMs + this.gapMs(rateRps);
    while (this.nowMs < endMs) {
      while (this.nextArrivalMs <= this.nowMs) {
        this.send(step);
        this.nextArrivalMs += this.gapMs(rateRps);
      }
      this.sample(rateRps);
      await pause(1);
    }
  }

  /** Every request has its answer within its deadline, and a little for the answer. */
  async ended(): Promise<void> {
    const untilMs = this.nowMs + 2000;
    while (this.ends.length < this.sent && this.nowMs < untilMs) await pause(5);
  }

  private gapMs(rateRps: number): number {
    return (-Math.log(1 - this.random()) * 1000) / rateRps;
  }

  private sample(rateRps: number): void {
    const atMs = this.nowMs;
    if (atMs < this.nextSampleMs) return;
    this.nextSampleMs += this.options.sampleMs;
    const { serving, advice, last } = this.server.scaling()[0]!;
    const reason = last?.reason ?? "";
    const sample = { atMs, rateRps, workers: serving, processes: this.processes(), advice, reason };
    this.samples.push(sample);
    this.options.onSample?.(sample);
  }

  private send(step: number): void {
    this.sent++;
    const atMs = this.nowMs;
    let isOver = false;
    const end = (how: string): void => {
      if (isOver) this.extraAnswers++;
      else this.ends.push({ atMs, step, end: how });
      isOver = true;
    };
    const failed = (error: unknown): void => {
      const { details, code } = ServingError.from(error);
      end(details.reason ?? code);
    };
    try {
      this.server.infer(
        {
          model: MODEL.name,
          version: "",
          id: "",
          inputs: [{ name: "x", datatype: "FP32", shape: [1, 1], data: new Uint8Array(4) }],
          outputs: [],
          receivedAt: monotonicNow(),
          timeoutUs: null,
          transportDeadlineAt: null,
          parameters: {},
          traceparent: null,
          byteLength: 4,
        },
        { onReply: () => end("finished"), onError: failed },
      );
    } catch (error) {
      failed(error);
    }
  }
}

/** Sum of a metric's values in Prometheus' text. */
function sumOf(text: string, name: string): number {
  let sum = 0;
  for (const line of text.split("\n"))
    if (line.startsWith(`${name}{`)) sum += Number(line.slice(line.lastIndexOf(" ") + 1));
  return sum;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
