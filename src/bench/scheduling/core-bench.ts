/**
 * How fast is the scheduling core? For comparing versions of it on one machine, and with Symphony's published rates.
 *
 * `core`: arrivals scheduled per CPU-second by the core alone, with its load generator and emulated accelerators, in
 * virtual time: no doors, no threads, no report. It says nothing about the latency of a decision, nor about a server.
 * `simulate`: simulated requests per wall second with the whole report, as `rubato simulate` runs.
 *
 * Each result has a digest of the answer, so that nobody speeds it up by changing the answer.
 */

import { timeCoreRun } from "../../capacity/core-throughput.js";
import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import { ZOO } from "../../config/scenario/zoo.js";
import { linearTable } from "../../core/latency/latency.js";
import { durationUs } from "../../core/time.js";
import { simulate } from "../../sim/simulate.js";
import type { BenchResult, BenchSize } from "../bench-result.js";

/** @returns arrivals scheduled per CPU-second, three sizes. Best of three runs each: the least disturbed one. */
export function benchCore({ size = 1 }: BenchSize = {}): BenchResult[] {
  return [
    measureCore("core-1-model", 1, 32, Math.ceil(3_000_000 * size)),
    measureCore("core-64-models", 64, 512, Math.ceil(3_000_000 * size)),
    measureCore("core-1000-models", 1000, 4096, Math.ceil(4_000_000 * size)),
  ];
}

function measureCore(name: string, models: number, accelerators: number, requests: number): BenchResult {
  const { cpuS, run } = timeCoreRun(models, accelerators, requests);
  const meanBatch = run.batches === 0 ? 0 : run.members / run.batches;
  return {
    name,
    value: requests / cpuS,
    unit: "arrivals/CPU-s",
    detail: `${models} models, ${accelerators} accelerators, mean batch ${meanBatch.toFixed(1)}, finished ${((100 * run.finished) / requests).toFixed(2)} %`,
    digest: run.digest,
  };
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
