/**
 * Do the workers of a live server follow its load? Steps 1x -> 4x -> 0.5x on worker processes with emulated accelerators:
 * workers over time, and how the requests ended, during the steps and outside them.
 *
 * Then, simulated, ten minutes of constant load: the advice should turn round at most once.
 *
 * Not a measure of speed: how long a worker process takes to start on this machine is in it. Real time has no digest.
 */
import { createHash } from "node:crypto";
import { expandScenario, parseScenario } from "../config/scenario/scenario.js";
import { mean } from "../measure/statistics.js";
import { simulate } from "../sim/simulate.js";
import type { BenchResult, BenchSize } from "./bench-result.js";
import { type LoadSteps, runLoadSteps } from "./load-steps.js";

const RATES_RPS = [60, 240, 30];
const STEP_MS = 60_000;
const MIN = 1;
const MAX = 6;
/** Of each step after the first: until the workers it needs are there. */
const SETTLE_MS = 5000;
const ROWS = 60;

/** @param size relative to three steps of a minute and ten seeds. */
export async function benchAutoscale({
  size = 1,
  onProgress = () => {},
}: BenchSize & { onProgress?: (text: string) => void } = {}): Promise<BenchResult[]> {
  const stepMs = Math.max(2000, STEP_MS * size);
  const run = await runLoadSteps({
    ratesRps: RATES_RPS,
    stepMs,
    min: MIN,
    max: MAX,
    start: 2,
    intervalMs: 1000,
    downCooldownMs: Math.min(10_000, stepMs / 4),
    keepWarmMs: Math.min(5000, stepMs / 8),
    seed: 1,
    sampleMs: (RATES_RPS.length * stepMs) / ROWS,
    onSample: ({ atMs, rateRps, workers }) =>
      onProgress(`${Math.round(atMs / 1000)} s: ${rateRps} requests/s on ${workers} workers`),
  });
  return [
    ...run.samples.map(sampleRow),
    ...RATES_RPS.map((rateRps, step) => stepRow(run, step, rateRps, stepMs)),
    ...constantLoads(Math.max(1, Math.round(SEEDS * size)), onProgress),
  ];
}

const SEEDS = 10;
const MINUTES = 10;
const COUNT = 24;
const KINDS: Readonly<Record<string, readonly object[]>> = {
  "one model": [{ name: "m", profile: { alpha_ms: 10, beta_ms: 40 }, slo_ms: 300 }],
  "narrow window": [{ name: "m", profile: { alpha_ms: 10, beta_ms: 40 }, slo_ms: 120 }],
  "weak batching": [{ name: "m", profile: { alpha_ms: 30, beta_ms: 5 }, slo_ms: 200 }],
  "20 models": [{ name: "m", count: 20, profile: { alpha_ms: 10, beta_ms: 40 }, slo_ms: 250 }],
  "three unlike models": [
    { name: "a", profile: { alpha_ms: 5, beta_ms: 20 }, slo_ms: 100 },
    { name: "b", profile: { alpha_ms: 50, beta_ms: 50 }, slo_ms: 600 },
    { name: "c", profile: { alpha_ms: 3, beta_ms: 30 }, slo_ms: 70 },
  ],
};
const ARRIVALS = { poisson: { process: "poisson" }, "gamma 0.1": { process: "gamma", shape: 0.1 } };

/** Simulated: ten minutes of constant load, from one accelerator and from 24; how often does the advice turn round? */
function constantLoads(seeds: number, onProgress: (text: string) => void): BenchResult[] {
  const results: BenchResult[] = [];
  for (const [arrivalsName, arrivals] of Object.entries(ARRIVALS)) {
    for (const [kind, models] of Object.entries(KINDS)) {
      onProgress(`constant load, ${kind}, ${arrivalsName}`);
      const turns: number[] = [];
      const badRates: number[] = [];
      const digest = createHash("sha256");
      for (const rateRps of [5, 40, 150, 400]) {
        for (const initial of [1, COUNT]) {
          const scenario = expandScenario(
            parseScenario(
              JSON.stringify({
                duration_s: MINUTES * 60,
                accelerators: COUNT,
                models,
                arrivals: { ...arrivals, rate_rps: rateRps },
                autoscale: { dry_run: false, initial, startup_s: 20 },
              }),
              "constant.json",
            ),
          );
          for (let seed = 1; seed <= seeds; seed++) {
            const { autoscale } = simulate(scenario, { seed });
            turns.push(autoscale!.changes_of_direction);
            const settled = autoscale!.decisions.slice(-20);
            badRates.push(settled.reduce((sum, { bad_rate: bad }) => sum + bad, 0) / settled.length);
            digest.update(autoscale!.decisions.map(({ advice }) => advice).join(","));
          }
        }
      }
      results.push({
        name: `autoscale constant, ${kind}, ${arrivalsName}`,
        value: Math.max(...turns),
        unit: "most changes of direction in 10 min",
        detail:
          `${turns.length} runs at 5 to 400 requests/s: ${turns.filter((count) => count > 1).length} with more than one; ` +
          `last third ${(100 * mean(badRates)).toFixed(2)} % bad on average`,
        digest: digest.digest("hex").slice(0, 12),
      });
    }
  }
  return results;
}

function sampleRow({ atMs, rateRps, workers, processes, advice, reason }: LoadSteps["samples"][number]): BenchResult {
  return {
    name: `autoscale at ${(atMs / 1000).toFixed(0)} s`,
    value: workers,
    unit: "workers that take batches",
    detail: `${rateRps} requests/s, ${processes} processes, advice ${advice}${reason === "" ? "" : `, ${reason}`}`,
    digest: "",
  };
}

function stepRow(run: LoadSteps, step: number, rateRps: number, stepMs: number): BenchResult {
  const of = run.ends.filter((each) => each.step === step);
  const settleMs = step === 0 ? 0 : Math.min(SETTLE_MS, stepMs / 2);
  const outside = of.filter(({ atMs }) => atMs - step * stepMs >= settleMs);
  const badRate = (ends: LoadSteps["ends"]) =>
    ends.length === 0 ? 0 : ends.filter(({ end }) => end !== "finished").length / ends.length;
  const counts = new Map<string, number>();
  for (const { end } of of) counts.set(end, (counts.get(end) ?? 0) + 1);
  const text = [...counts].map(([end, count]) => `${end} ${count}`).join(", ");
  return {
    name: `autoscale step ${step + 1}`,
    value: 100 * badRate(outside),
    unit: "% bad outside the step",
    detail:
      `${rateRps} requests/s: ${text}; ${(100 * badRate(of)).toFixed(2)} % bad with the step's first ${settleMs / 1000} s; ` +
      `${run.sent - run.ends.length} without an end, ${run.extraAnswers} answered twice`,
    digest: "",
  };
}
