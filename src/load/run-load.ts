import { Worker } from "node:worker_threads";
import { after, durationUs, type TimeUs } from "../core/time.js";
import { Histogram } from "../measure/histogram.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { ServingError } from "../wire/serving-error.js";
import { collectorOf, Generator, type GeneratorResult, type Progress } from "./generator.js";
import { checkLoadOptions, type LoadOptions } from "./load-options.js";
import { type LoadReport, makeLoadReport } from "./load-report.js";
import type { FromLoadWorker, LoadWorkerData, ToLoadWorker } from "./load-worker.js";
import { parseTarget } from "./target.js";

export interface LoadHooks {
  /** Every second, over all threads. */
  readonly onProgress?: (progress: Progress) => void;
  /** Ends the run early; its report is void. */
  readonly signal?: AbortSignal;
}

export interface LoadResult {
  readonly report: LoadReport;
  /** Latencies of finished and late, µs. */
  readonly latencies: Histogram;
}

/** From "all threads are ready" to the first moment of the run. */
export const START_DELAY = durationUs(50_000);

/**
 * Sends load and measures what comes back, from the client's side.
 *
 * When to use: to judge a server of the Open Inference Protocol against an SLO. When not: to find its capacity by a
 * closed loop; that mode exists, but says nothing of latency under load.
 *
 * @throws ServingError invalid-argument for bad options, unavailable or not-found when a model cannot be had. What goes
 *   wrong during the run is counted, not thrown.
 */
export async function runLoad(options: LoadOptions, hooks: LoadHooks = {}): Promise<LoadResult> {
  checkLoadOptions(options);
  const began = { cpu: process.cpuUsage(), beganAt: monotonicNow() };
  const results = options.workers === 1 ? [await runHere(options, hooks)] : await runOnThreads(options, hooks);
  return resultOf(options, results, began, hooks.signal?.aborted ?? false);
}

/** @param began processor time and moment when the run began. */
export function resultOf(
  options: LoadOptions,
  results: readonly GeneratorResult[],
  began: { readonly cpu: NodeJS.CpuUsage; readonly beganAt: TimeUs },
  isInterrupted: boolean,
): LoadResult {
  const targets = options.targets.map(parseTarget);
  const { user, system } = process.cpuUsage(began.cpu);
  const collector = collectorOf(options, targets);
  for (const result of results) collector.merge(result.collector);
  const generatorCores = (user + system) / (monotonicNow() - began.beganAt);
  const report = makeLoadReport({ options, targets, collector, results, generatorCores, isInterrupted });
  return { report, latencies: collector.latencies() };
}

async function runHere(options: LoadOptions, { onProgress, signal }: LoadHooks): Promise<GeneratorResult> {
  const generator = new Generator(options, 0, 1);
  let timer: NodeJS.Timeout | undefined;
  try {
    await generator.prepare();
    if (onProgress !== undefined) timer = setInterval(() => onProgress(generator.progress()), 1000);
    return await generator.run(after(monotonicNow(), START_DELAY), signal);
  } finally {
    clearInterval(timer);
    await generator.close();
  }
}

/** The compiled worker; from the sources (tests), the one of the last build. */
function workerFile(): URL {
  const isSource = import.meta.url.endsWith(".ts");
  return new URL(isSource ? "../../dist/load/load-worker.js" : "./load-worker.js", import.meta.url);
}

async function runOnThreads(options: LoadOptions, { onProgress, signal }: LoadHooks): Promise<GeneratorResult[]> {
  const workers: Worker[] = [];
  const latest: (Progress | undefined)[] = [];
  let timer: NodeJS.Timeout | undefined;
  try {
    const threads = Array.from({ length: options.workers }, (_, index) => {
      const workerData: LoadWorkerData = { options, index };
      const worker = new Worker(workerFile(), { workerData });
      workers.push(worker);
      return listen(worker, (progress) => {
        latest[index] = progress;
      });
    });
    // A thread that fails must end the run whichever promise is awaited just then.
    const failed = Promise.all(threads.map((thread) => thread.result));
    failed.catch(() => {});
    await Promise.race([Promise.all(threads.map((thread) => thread.ready)), failed]);
    const send = (message: ToLoadWorker) => {
      for (const worker of workers) worker.postMessage(message);
    };
    send({ kind: "start", startAt: after(monotonicNow(), START_DELAY) });
    signal?.addEventListener("abort", () => send({ kind: "stop" }), { once: true });
    if (onProgress !== undefined) {
      timer = setInterval(() => onProgress(addProgress(latest.filter((progress) => progress !== undefined))), 1000);
    }
    return await failed;
  } finally {
    clearInterval(timer);
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

function listen(worker: Worker, onProgress: (progress: Progress) => void) {
  let becomeReady = () => {};
  const ready = new Promise<void>((resolve) => {
    becomeReady = resolve;
  });
  const result = new Promise<GeneratorResult>((resolve, reject) => {
    worker.on("message", (message: FromLoadWorker) => {
      if (message.kind === "ready") becomeReady();
      else if (message.kind === "progress") onProgress(message.progress);
      else if (message.kind === "result") resolve(message.result);
      else reject(new ServingError(message.code, message.message));
    });
    worker.on("error", (error) => reject(ServingError.from(error)));
    worker.on("exit", () => reject(new ServingError("internal", "a load thread ended without a result")));
  });
  return { ready, result };
}

function addProgress(parts: readonly Progress[]): Progress {
  const recent = new Histogram();
  for (const part of parts) recent.merge(Histogram.fromJSON(part.recent));
  const total = (field: "sent" | "finished" | "bad" | "outstanding") =>
    parts.reduce((all, part) => all + part[field], 0);
  return {
    sent: total("sent"),
    finished: total("finished"),
    bad: total("bad"),
    outstanding: total("outstanding"),
    recent: recent.toJSON(),
  };
}
