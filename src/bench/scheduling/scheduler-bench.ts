/**
 * How many requests can a scheduler hold? Symphony §5.5 (Figure 13): the scheduler alone, its load and its accelerators
 * objects of the process, SLO 100 ms, 1.082 b + 5.204 ms, an accelerator for every 750 requests/s.
 *
 * For: finished requests per processor-second of all threads and how it falls with the lot, what an event costs as models and
 * accelerators grow, what a second queue thread adds, and what a grant costs the rank. Not for: the latency of a decision, a server, or a machine that does
 * anything else meanwhile: what happens in real time has windows of a millisecond.
 */
import { GCProfiler, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Figure, LineRow } from "../../reproduce/figure.js";
import { writeFigure } from "../../reproduce/write-figure.js";
import { CoreRun, RATE_PER_ACCELERATOR } from "../../sim/core-run.js";
import type { BenchResult } from "../bench-result.js";
import { benchCore } from "./core-bench.js";
import { IN_TIME, measureLots, measureThreads } from "./lot-bench.js";
import { runQueueLoad } from "./queue-load.js";

export interface SchedulerBenchOptions {
  /** Work relative to the full size; below 0.1 nothing is searched. */
  readonly size: number;
  /** Where figures are written; default: nowhere. */
  readonly figuresDir?: string | null;
  readonly onProgress: (text: string) => void;
}

export async function benchScheduler(options: SchedulerBenchOptions): Promise<BenchResult[]> {
  return [...(await benchThreads(options)), ...(await benchCosts(options))];
}

/** What happens in real time: needs the machine for itself. */
export async function benchThreads(options: SchedulerBenchOptions): Promise<BenchResult[]> {
  const { size, onProgress } = options;
  onProgress("threads and rings in real time");
  const threaded = [await measureThreads(1, size), await measureThreads(64, size)];
  const lots = await measureLots(size, onProgress);
  onProgress("one queue thread and two");
  const queues = await measureQueueThreads(size, onProgress);
  await writeFigure(options.figuresDir, ranksFigure(queues));
  return [...threaded, ...lots, ...queueResults(queues)];
}

/** The core alone, in virtual time. */
export async function benchCosts(options: SchedulerBenchOptions): Promise<BenchResult[]> {
  const { size, onProgress } = options;
  onProgress("the core alone");
  const core = benchCore({ size });
  onProgress("memory allocated per request");
  const allocation = measureAllocation(size);
  onProgress("cost per event over models and accelerators");
  const points = measureCosts(size);
  await writeFigure(options.figuresDir, costFigure(points));
  return [...core, allocation, ...points.map(costResult)];
}

// Allocation

/** Bytes that the heap grew by, with what was collected meanwhile, over many requests of a run that is warm. */
function measureAllocation(size: number): BenchResult {
  const requests = Math.ceil(2_000_000 * size);
  new CoreRun(64, 512, requests).run();
  const run = new CoreRun(64, 512, requests);
  run.run(Math.floor(requests / 2));
  // Garbage of before must not be collected within.
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  const profiler = new GCProfiler();
  profiler.start();
  const before = process.memoryUsage();
  run.run();
  const after = process.memoryUsage();
  const collected = profiler
    .stop()
    .statistics.reduce(
      (sum, { beforeGC, afterGC }) => sum + beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize,
      0,
    );
  const bytes = after.heapUsed - before.heapUsed + collected + (after.arrayBuffers - before.arrayBuffers);
  return {
    name: "core-allocation",
    value: bytes / (requests / 2),
    unit: "bytes/request",
    detail: `64 models, 512 accelerators, second half of ${requests} requests`,
    digest: run.digest,
  };
}

// Cost per event

interface CostPoint {
  /** near: over models, of which 64 beside each other have arrivals at a time. */
  readonly over: "models" | "near" | "accelerators";
  readonly models: number;
  readonly accelerators: number;
  readonly nsPerEvent: number;
  readonly nsPerRequest: number;
  readonly digest: string;
}

const MODELS = [1, 4, 16, 64, 256, 1024, 4096];
/** Enough that queues of all do not fit the cache: is it that, or the steps taken? */
const NEAR_MODELS = [1024, 4096];
const NEIGHBOURS = 64;
const ACCELERATORS = [16, 64, 256, 1024, 4096, 16_384];

function measureCosts(size: number): CostPoint[] {
  new CoreRun(16, 256, Math.ceil(500_000 * size)).run();
  return [
    ...MODELS.map((models) => measureCost("models", models, 1024, size)),
    ...NEAR_MODELS.map((models) => measureCost("near", models, 1024, size)),
    ...ACCELERATORS.map((accelerators) => measureCost("accelerators", 64, accelerators, size)),
  ];
}

function measureCost(over: CostPoint["over"], models: number, accelerators: number, size: number): CostPoint {
  // Ten SLOs, so that the start does not count.
  const requests = Math.ceil(Math.max(1_000_000, accelerators * RATE_PER_ACCELERATOR) * size);
  let best: CostPoint | null = null;
  for (let round = 0; round < 2; round++) {
    const run = new CoreRun(models, accelerators, requests, over === "near" ? NEIGHBOURS : 0);
    const before = process.cpuUsage();
    run.run();
    const used = process.cpuUsage(before);
    const ns = (used.user + used.system) * 1000;
    const nsPerEvent = ns / (requests + run.batches + run.wakes);
    if (best === null || nsPerEvent < best.nsPerEvent)
      best = { over, models, accelerators, nsPerEvent, nsPerRequest: ns / requests, digest: run.digest };
  }
  return best!;
}

function costResult({ over, models, accelerators, nsPerEvent, nsPerRequest, digest }: CostPoint): BenchResult {
  return {
    name: over === "near" ? "cost-in-cache" : `cost-over-${over}`,
    value: nsPerEvent,
    unit: "ns/event",
    detail: `${models} models${over === "near" ? ` in runs of arrivals for ${NEIGHBOURS} of them` : ""}, ${accelerators} accelerators; ${nsPerRequest.toFixed(0)} ns/request with its batches and timers`,
    digest,
    figures: { models, accelerators, ns_per_request: nsPerRequest },
  };
}

// Queue threads

interface QueueThreads {
  /** Highest rate tried at which 99 % were in time, with one and with two queue threads; requests/s. */
  readonly rates: readonly [number, number];
  /** Processor time of a queue thread per request with its load, of the rank per grant, µs; mean batch. */
  readonly queueUsPerRequest: number;
  readonly rankUsPerGrant: number;
  readonly meanBatch: number;
}

const SEARCH_FROM_RPS = 1_200_000;
const SEARCH_TO_RPS = 6_000_000;
const SEARCH_STEPS = 5;

async function measureQueueThreads(size: number, onProgress: (text: string) => void): Promise<QueueThreads> {
  const rates: number[] = [];
  let best = { queueUsPerRequest: Number.NaN, rankUsPerGrant: Number.NaN, meanBatch: Number.NaN };
  for (const threads of [1, 2]) {
    let holds = size < 0.1 ? 20_000 : SEARCH_FROM_RPS;
    let fails = SEARCH_TO_RPS * threads;
    for (let step = 0; step < (size < 0.1 ? 1 : SEARCH_STEPS); step++) {
      const rateRps = size < 0.1 ? holds : Math.sqrt(holds * fails);
      const result = await runQueueLoad({
        threads,
        models: 1,
        rateRps,
        warmupS: size < 0.1 ? 0.2 : 3,
        seconds: size < 0.1 ? 0.3 : 2 * size,
      });
      onProgress(
        `${threads} queue threads, ${(rateRps / 1e6).toFixed(2)} M/s: ${percent(result.finishedShare)} in time`,
      );
      const holdsNow = result.finishedShare >= IN_TIME;
      if (holdsNow) holds = rateRps;
      else fails = rateRps;
      if ((holdsNow || Number.isNaN(best.rankUsPerGrant)) && result.queueCores !== null && result.rank.cpuUs !== null)
        best = {
          queueUsPerRequest: (result.queueCores * 1e6) / rateRps,
          rankUsPerGrant: result.rank.cpuUs / result.rank.grants,
          meanBatch: result.arrived / result.batches,
        };
    }
    rates.push(holds);
  }
  return { rates: [rates[0]!, rates[1]!], ...best };
}

/** Queue threads that one rank can feed: grants it can make in a second over grants that a thread asks for in one. */
const threadsFed = ({ rankUsPerGrant, queueUsPerRequest }: QueueThreads, batch: number): number =>
  (batch * queueUsPerRequest) / rankUsPerGrant;

function queueResults(queues: QueueThreads): BenchResult[] {
  const { rates, queueUsPerRequest, rankUsPerGrant, meanBatch } = queues;
  const result = (name: string, value: number, unit: string, detail: string): BenchResult => ({
    name,
    value,
    unit,
    detail,
    digest: "-",
  });
  return [
    result(
      "queue-threads-1",
      rates[0],
      "requests/s",
      "highest rate tried with 99 % in time; load in the queue thread, rank counted",
    ),
    result(
      "queue-threads-2",
      rates[1],
      "requests/s",
      `the same with two: ${(rates[1] / rates[0]).toFixed(2)} times as much`,
    ),
    result(
      "rank-per-grant",
      rankUsPerGrant,
      "us",
      `a queue thread takes ${queueUsPerRequest.toFixed(3)} us/request with its load; at a mean batch of ${meanBatch.toFixed(0)} one rank feeds ${Math.floor(threadsFed(queues, meanBatch))} queue threads`,
    ),
  ];
}

// Figures

function costFigure(points: readonly CostPoint[]): Figure {
  const row = ({ over, models, accelerators, nsPerEvent, nsPerRequest }: CostPoint): LineRow[] => {
    const x = over === "accelerators" ? accelerators : models;
    const panel = PANELS[over];
    if (over === "near") return [{ x, y: nsPerEvent, series: IN_CACHE, panel }];
    return [
      { x, y: nsPerEvent, series: "per event", panel },
      { x, y: nsPerRequest, series: "per request", panel },
    ];
  };
  return {
    id: "scheduler-cost",
    title: "Cost of an event in the scheduling core",
    caption:
      "Processor time with load generator and emulated accelerators, 750 requests/s per accelerator, SLO 100 ms, Poisson. Models: on 1,024 accelerators; accelerators: 64 models. Events are arrivals, batches that end, timers.",
    kind: "lines",
    panels: [...new Set(Object.values(PANELS))],
    x: { title: "models or accelerators", scale: "log" },
    y: { title: "processor time", unit: "ns" },
    series: [{ name: "per event" }, { name: "per request" }, { name: IN_CACHE }],
    rows: points.flatMap(row),
  };
}

const IN_CACHE = `per event, ${NEIGHBOURS} models at a time`;
const PANELS = { models: "over models", near: "over models", accelerators: "over accelerators" } as const;

function ranksFigure(queues: QueueThreads): Figure {
  const batches = [1, 2, 4, 8, 16, 32, 64, 87];
  return {
    id: "scheduler-rank",
    title: "Queue threads that one rank can feed",
    caption: `Computed: ${queues.rankUsPerGrant.toFixed(2)} us of the rank per grant, ${queues.queueUsPerRequest.toFixed(3)} us of a queue thread per request, both measured in real time.`,
    kind: "lines",
    x: { title: "mean batch", unit: "requests", scale: "log" },
    y: { title: "queue threads", scale: "log" },
    series: [{ name: "queue threads" }],
    rows: batches.map((batch) => ({ x: batch, y: threadsFed(queues, batch), series: "queue threads" })),
  };
}

const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
