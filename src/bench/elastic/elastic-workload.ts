/**
 * What the live comparison of elastic models sends: the workload of OTAS's evaluation (§V), its time stretched to this machine.
 *
 * Chosen before anything was measured, and why:
 * - Rates by second are the paper's second trace (Azure Functions 2021, or what `rubato reproduce` generates in its place): the one of the two with
 *   bursts. A run is a window of it, at a place that its seed draws, and scaled as a whole so that its counted mean is the load: a run of half a
 *   minute then stands at its load, whichever burst it met. Within a second arrivals are Poisson.
 * - Queries are Table II's six types, each as likely: three data sets with two SLOs and utilities each. The task that is least often right takes the place
 *   of CIFAR100, which is the hardest there and pays most. Images are drawn evenly from the task's test images.
 * - A second of the paper is here as many as this machine takes for what the paper's serves in one with gamma 0 (580 requests): SLOs and
 *   seconds of the trace alike. An SLO is then worth as many requests, and a burst as many SLOs, as there.
 * - The load is relative to the full batches that the measured profile has for gamma 0, on one accelerator.
 */
import { arrivalTimes } from "../../load/arrivals.js";
import { mean } from "../../measure/statistics.js";
import { TABLE_2 } from "../../reproduce/otas/query-types.js";
import { sourcesOf } from "../../reproduce/otas/rates.js";
import { FIGURE_4B } from "../../reproduce/otas/vision-transformer.js";
import { stream } from "../../sim/random.js";

/** Of the paper's runs, s. */
const TRACE_S = 1800;
/** The hardest first; the utilities of the others are alike. */
const HARDEST_FIRST = ["CIFAR100", "CIFAR10", "EuroSAT"];

export interface QueryType {
  readonly task: string;
  readonly sloMs: number;
  readonly utility: number;
}

/** One request of a run. */
export interface Query {
  /** From the start of the run. */
  readonly atUs: number;
  /** Index of its type. */
  readonly type: number;
  /** Index among the test images of its task. */
  readonly image: number;
}

export interface ElasticRunLength {
  /** Of the paper's seconds: sent and not counted. */
  readonly warmupS: number;
  readonly countedS: number;
}

/** This machine's seconds to one of the paper's. */
export const stretchOf = (capacityRps: number): number => FIGURE_4B.perS(0) / capacityRps;

/** @param hardestFirst tasks, the one that is least often right at gamma 0 first. */
export const queryTypes = (hardestFirst: readonly string[], stretch: number): QueryType[] =>
  TABLE_2.map(({ of, sloMs, utility }) => ({
    task: hardestFirst[HARDEST_FIRST.indexOf(of) % hardestFirst.length]!,
    sloMs: Math.ceil(sloMs * stretch),
    utility,
  }));

/** Rates of the whole trace, of which runs have windows. @param dataDir with the trace's file; null: generated. */
export const burstyRates = (dataDir: string | null): number[] => sourcesOf(dataDir ?? undefined)[1].rates(TRACE_S);

export interface QueryOptions extends ElasticRunLength {
  readonly rates: readonly number[];
  readonly rps: number;
  readonly stretch: number;
  readonly seed: number;
  /** By type: test images of its task. */
  readonly images: readonly number[];
}

/** The same options, the same queries. */
export function drawQueries({ rates, rps, stretch, seed, warmupS, countedS, images }: QueryOptions): Query[] {
  const window = windowOf(rates, Math.ceil(warmupS + countedS), stream(seed, "bench/elastic/window")());
  const countedMean = mean(window.slice(Math.floor(warmupS)));
  const next = arrivalTimes({
    process: "poisson",
    shape: 1,
    steps: window.map((rate, at) => ({ fromS: at * stretch, rps: (rps * rate) / countedMean })),
    durationS: (warmupS + countedS) * stretch,
    seed,
  });
  const random = stream(seed, "bench/elastic/queries");
  const queries: Query[] = [];
  for (let atUs = next(); Number.isFinite(atUs); atUs = next()) {
    const type = Math.floor(random() * images.length);
    queries.push({ atUs, type, image: Math.floor(random() * images[type]!) });
  }
  return queries;
}

/** Of seconds in which something comes: nothing can be scaled to a load that is always 0. */
function windowOf(rates: readonly number[], seconds: number, uniform: number): number[] {
  const from = Math.floor(uniform * (rates.length - seconds + 1));
  return rates.slice(from, from + seconds).map((rate) => Math.max(1, rate));
}
