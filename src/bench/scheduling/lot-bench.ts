/**
 * What promptness costs: the threaded scheduler with its load in real time, in lots from 1 ms down to 0.05 ms.
 *
 * A lot is what comes between two looks: fewer, larger ones are fewer wake-ups, and what plans must allow for. For: requests
 * per processor-second over the lot, at an SLO that leaves no room for long ones. Not for: a machine that does anything else
 * meanwhile (beside what it was built for, the plan keeps only STALL_US for threads that run late).
 */

import { ALPHA_MS, BATCH_MAX, BETA_MS, RATE_PER_ACCELERATOR, SLO_MS } from "../../sim/core-run.js";
import type { BenchResult } from "../bench-result.js";
import { runThreadedLoad, type ThreadedLoadResult } from "./threaded-load.js";

/** Below this the figure is that of a scheduler that does not hold its load. */
export const IN_TIME = 0.99;

const RATE_RPS = 1_000_000;
const LOTS_US = [1000, 500, 200, 100, 50];
const TIGHT_SLO_MS = 25;
/** At 25 ms a batch is 16 where one of 100 ms is 83, so an accelerator does less. */
const TIGHT_RATE_PER_ACCELERATOR = 400;
const STALL_US = 2600;

export interface LotOptions {
  readonly models: number;
  readonly sloMs: number;
  readonly ratePerAccelerator: number;
  readonly lotUs: number;
  readonly controlUs: number;
  readonly decisionUs: number;
  readonly rankWithin: boolean;
}

/** Front, queue thread and rank on a thread each, in lots of 1 ms: Symphony's setting, as measured since the first version. */
export async function measureThreads(models: number, size: number): Promise<BenchResult> {
  const lotUs = 1000;
  // A dispatch is seen a lot later; a grant takes two polls, an arrival a lot, and all may be late by some.
  const plan = { lotUs, controlUs: lotUs + 500, decisionUs: 7 * lotUs };
  const setting = { models, sloMs: SLO_MS, ratePerAccelerator: RATE_PER_ACCELERATOR, rankWithin: false };
  return lotResult(
    `threads-${models}-model${models === 1 ? "" : "s"}`,
    { ...plan, ...setting },
    await measure({ ...plan, ...setting }, size),
  );
}

/** One model, its rank within the queue thread. */
export async function measureLots(size: number, onProgress: (text: string) => void): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  for (const lotUs of LOTS_US) {
    onProgress(`lots of ${lotUs / 1000} ms`);
    const options: LotOptions = {
      models: 1,
      sloMs: TIGHT_SLO_MS,
      ratePerAccelerator: TIGHT_RATE_PER_ACCELERATOR,
      lotUs,
      controlUs: lotUs + 800,
      // One poll, an arrival's lot, and what threads are late by.
      decisionUs: 2 * lotUs + STALL_US,
      rankWithin: true,
    };
    results.push(lotResult(`lots-${lotUs}us`, options, await measure(options, size)));
  }
  return results;
}

async function measure(options: LotOptions, size: number): Promise<ThreadedLoadResult> {
  const { lotUs, controlUs, decisionUs, ratePerAccelerator, ...setting } = options;
  const rateRps = size < 0.1 ? 20_000 : RATE_RPS;
  return await runThreadedLoad({
    ...setting,
    alphaMs: ALPHA_MS,
    betaMs: BETA_MS,
    batchMax: BATCH_MAX,
    queuesPerModel: 1,
    accelerators: Math.ceil(rateRps / ratePerAccelerator),
    rateRps,
    threads: 1,
    network: { controlUs, dataUsPerRequest: 0, responseUs: 0, decisionUs },
    lotUs,
    pollUs: lotUs,
    warmupS: size < 0.1 ? 0.2 : 2,
    seconds: size < 0.1 ? 0.3 : 5 * size,
    seed: 1,
    rowsMax: 0,
  });
}

/** Requests that finished, not those that came: one that drops everything would be the cheapest. */
export function lotResult(name: string, options: LotOptions, result: ThreadedLoadResult): BenchResult {
  const { arrived, finished, batches, cpuS, wallS, rank, threads } = result;
  const { sloMs, lotUs, controlUs, decisionUs, rankWithin } = options;
  const share = finished / Math.max(1, arrived);
  const ms = (us: number): string => (us / 1000).toFixed(us % 100 === 0 ? 1 : 2);
  const detail = [
    `${(100 * share).toFixed(2)} % in time${share < IN_TIME ? " (NOT HELD)" : ""} of ${(arrived / wallS / 1e6).toFixed(2)} M/s`,
    `SLO ${sloMs} ms`,
    `lots of ${ms(lotUs)} ms, plans with ${ms(controlUs)} + ${ms(decisionUs)} ms`,
    `${rankWithin ? "front, queue thread with its rank" : "front, queue thread, rank"} on ${(cpuS / wallS).toFixed(2)} cores`,
    `mean batch ${(finished / Math.max(1, batches)).toFixed(1)}`,
    ...(rank.cpuUs === null ? [] : [`rank ${(rank.cpuUs / rank.grants).toFixed(2)} us/grant`]),
  ];
  return {
    name,
    value: finished / cpuS,
    unit: "finished/CPU-s",
    detail: detail.join(", "),
    digest: "-",
    figures: {
      finished_share: share,
      lot_us: lotUs,
      plan_us: controlUs + decisionUs,
      turns: (threads[0]?.turns ?? 0) + rank.turns,
      rank_cpu_us: rank.cpuUs ?? Number.NaN,
      rank_grants: rank.grants,
      queue_thread_cpu_us: threads[0]?.cpuUs ?? Number.NaN,
    },
  };
}
