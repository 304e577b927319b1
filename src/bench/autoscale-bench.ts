/**
 * Do the workers of a live server follow its load? Steps 1x -> 4x -> 0.5x on worker processes with emulated accelerators:
 * workers over time, and how the requests ended, during the steps and outside them.
 *
 * Not a measure of speed: how long a worker process takes to start on this machine is in it. Real time, so no digest.
 */
import type { BenchResult, BenchSize } from "./core-bench.js";
import { type LoadSteps, runLoadSteps } from "./load-steps.js";

const RATES_RPS = [60, 240, 30];
const STEP_MS = 60_000;
const MIN = 1;
const MAX = 6;
/** Of each step after the first: until the workers it needs are there. */
const SETTLE_MS = 5000;
const ROWS = 60;

/** @param size relative to three steps of a minute. */
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
  return [...run.samples.map(sampleRow), ...RATES_RPS.map((rateRps, step) => stepRow(run, step, rateRps, stepMs))];
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
