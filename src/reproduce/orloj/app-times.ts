/** Times alone of the requests of an app, as the histogram that a scenario has and that is then drawn from, exactly. */
import { Distribution } from "../../core/times/distribution.js";

export interface AppTimes {
  readonly name: string;
  readonly share: number;
  /** Edges of the bins, ascending, one more than weights; within a bin all times are equally likely. */
  readonly edgesMs: readonly number[];
  readonly weights: readonly number[];
}

/** Bins of a standard deviation. */
const BINS = 4;
/** Standard deviations beyond which there is nothing: 1 in 16,000. */
const DEVIATIONS = 4;

/** No variance to speak of: bins have a width, of a microsecond. */
export const constantTime = (name: string, ms: number): AppTimes => ({
  name,
  share: 1,
  edgesMs: [ms, ms + 0.001].map(written),
  weights: [1],
});

export interface Normal {
  readonly meanMs: number;
  readonly sdMs: number;
  /** What is beyond does not occur. Default: none. */
  readonly within?: readonly [lowMs: number, highMs: number];
}

export function normalTimes(name: string, share: number, { meanMs, sdMs, within }: Normal): AppTimes {
  const [lowMs, highMs] = within ?? [0, Number.POSITIVE_INFINITY];
  const from = Math.max(-DEVIATIONS, (lowMs - meanMs) / sdMs);
  const to = Math.min(DEVIATIONS, (highMs - meanMs) / sdMs);
  return ofDeviations(name, share, from, to, (deviations) => meanMs + deviations * sdMs);
}

export interface LogNormal {
  /** Of the logarithm of milliseconds. */
  readonly mean: number;
  readonly sd: number;
}

/** The part of a lognormal distribution between two numbers of standard deviations of the logarithm. */
export const logNormalTimes = (
  name: string,
  share: number,
  { mean, sd }: LogNormal,
  [from, to]: readonly [number, number],
): AppTimes =>
  ofDeviations(name, share, Math.max(-DEVIATIONS, from), Math.min(DEVIATIONS, to), (deviations) =>
    Math.exp(mean + deviations * sd),
  );

/** The lognormal of a mean and a 99th percentile: ln p99 - ln mean = z sd - sd^2 / 2, the smaller root. */
export function logNormalOf(meanMs: number, p99Ms: number): LogNormal {
  const z = 2.326348;
  const sd = z - Math.sqrt(z * z - 2 * Math.log(p99Ms / meanMs));
  return { mean: Math.log(meanMs) - (sd * sd) / 2, sd };
}

/** Of a request of any of the apps, each as often as its share. */
export const timesOf = (apps: readonly AppTimes[]): Distribution =>
  Distribution.mixture(
    apps.map(({ edgesMs, weights }) =>
      Distribution.of(
        edgesMs.map((ms) => ms * 1000),
        weights,
      ),
    ),
    apps.map(({ share }) => share),
  );

export const scaledTimes = (app: AppTimes, factor: number): AppTimes => ({
  ...app,
  edgesMs: app.edgesMs.map((ms) => written(ms * factor)),
});

/** Bins of equal width in standard deviations, each as often as the density at its middle. */
function ofDeviations(
  name: string,
  share: number,
  from: number,
  to: number,
  msAt: (deviations: number) => number,
): AppTimes {
  const bins = Math.ceil((to - from) * BINS);
  const at = (edge: number): number => from + ((to - from) * edge) / bins;
  return {
    name,
    share,
    edgesMs: Array.from({ length: bins + 1 }, (_, edge) => written(msAt(at(edge)))),
    weights: Array.from({ length: bins }, (_, bin) => written(Math.exp(-(at(bin + 0.5) ** 2) / 2))),
  };
}

/** As many digits as matter: points hold these. */
const written = (value: number): number => Number(value.toPrecision(6));
