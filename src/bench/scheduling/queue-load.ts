/** Queue threads that make their own load, and one rank: how much they hold together. */
import { Worker } from "node:worker_threads";
import { linearTable } from "../../core/latency/latency.js";
import { ALPHA_MS, BATCH_MAX, BETA_MS, RATE_PER_ACCELERATOR, SLO_MS } from "../../sim/core-run.js";
import { type ActorReport, WorkerHost } from "../../threads/hosts.js";
import { createMemory } from "../../threads/memory.js";
import * as is from "../../threads/messages.js";
import type { RunOptions } from "../../threads/run-record.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { RingWriter } from "../../wire/ring.js";
import type { QueueLoadData, QueueLoadReport } from "./queue-load-thread.js";

export interface QueueLoadOptions {
  readonly threads: number;
  /** Models on each thread. */
  readonly models: number;
  /** Over all threads. */
  readonly rateRps: number;
  /** Not measured; the rate rises in its first half. */
  readonly warmupS: number;
  readonly seconds: number;
}

export interface QueueLoadResult {
  readonly finishedShare: number;
  readonly arrived: number;
  readonly batches: number;
  /** Processor time per measured second of all queue threads; null where the system does not say. */
  readonly queueCores: number | null;
  /** Of the whole run. */
  readonly rank: ActorReport;
}

const LOT_US = 500;
const POLL_US = 500;

export async function runQueueLoad(load: QueueLoadOptions): Promise<QueueLoadResult> {
  const { threads, models, rateRps, warmupS, seconds } = load;
  const acceleratorsMax = Math.ceil(rateRps / RATE_PER_ACCELERATOR);
  const options: RunOptions = {
    // Batches end where they are dispatched from: only the lot is waited for. To the rank and back are two polls and a lot.
    network: { controlUs: 0, dataUsPerRequest: 0, responseUs: 0, decisionUs: 2 * POLL_US + LOT_US + 1500 },
    acceleratorsMax,
    queuesMax: models * threads,
    requestsMax: 2 ** 22,
    tagsMax: Math.ceil((4 * rateRps * SLO_MS) / 1000 / threads) + 1000,
    retriesMax: 0,
    learn: false,
    oneAtATime: false,
    threadsMax: threads,
  };
  const memory = createMemory(options);
  const setup = { options, memory, rowsMax: 0 };
  const originUs = monotonicNow();
  let failed: (error: Error) => void = () => {};
  const failure = new Promise<never>((_, reject) => {
    failed = reject;
  });
  const host = new WorkerHost(setup, {
    policy: "deferred",
    policyOptions: {},
    originUs,
    pollUs: POLL_US,
    onError: (error) => failed(error),
  });
  const rank = host.startRank();
  const controls = new RingWriter(memory.controls);
  const control = async (record: readonly number[]): Promise<void> => {
    let offset = controls.claim();
    while (offset < 0) {
      controls.show();
      host.wakeRank();
      await new Promise((resolve) => setTimeout(resolve, 1));
      offset = controls.claim();
    }
    controls.cells.set(record, offset);
  };
  for (let id = 0; id < acceleratorsMax; id++) await control([is.JOIN, id, 1]);
  controls.show();
  host.wakeRank();
  const table = linearTable(ALPHA_MS * 1000, BETA_MS * 1000, BATCH_MAX);
  const execUs = [...table.subarray(1, BATCH_MAX + 1)];
  const runs = Array.from({ length: threads }, (_, thread) => {
    const keys = Array.from({ length: models }, (_, model) => thread * models + model);
    const workerData: QueueLoadData = {
      thread,
      setup,
      originUs,
      execUs,
      sloUs: SLO_MS * 1000,
      keys,
      rateRps: rateRps / threads,
      lotUs: LOT_US,
      warmupS,
      seconds,
    };
    return new Promise<QueueLoadReport>((resolve, reject) => {
      // Threads run what is built, also when this file is run from its source (tests).
      const worker = new Worker(new URL("../../../dist/bench/scheduling/queue-load-thread.js", import.meta.url), {
        workerData,
      });
      worker.on("message", resolve);
      worker.on("error", reject);
    });
  });
  const reports = await Promise.race([Promise.all(runs), failure]);
  await control([is.STOP]);
  controls.show();
  host.wakeRank();
  const sum = (of: (report: QueueLoadReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const arrived = sum((report) => report.arrived);
  return {
    finishedShare: sum((report) => report.finished) / Math.max(1, arrived),
    arrived,
    batches: sum((report) => report.batches),
    queueCores: reports.some(({ cpuUs }) => cpuUs === null) ? null : sum(({ cpuUs }) => cpuUs ?? 0) / 1e6 / seconds,
    rank: await rank,
  };
}
