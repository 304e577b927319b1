import { invariant } from "../core/invariant.js";
import { mean, studentT975 } from "../measure/statistics.js";

/** What one simulated run says to the search. */
export interface GoodputRun {
  /** Bad rate per model, in the same order in every run. */
  readonly badRates: readonly number[];
  /** Requests counted per model, if it should be said how many bad events the peak rests on. */
  readonly arrived?: readonly number[];
}

export interface PeakGoodputOptions {
  /** The same at every rate (common random numbers). At least 2; 10 by default of the command. */
  readonly seeds: readonly number[];
  /** A guess in r/s, > 0; a good one (say 0.8 of the capacity) saves runs, a bad one costs some. */
  readonly startRps: number;
  /** The largest bad rate a model may have. Default 0.01. */
  readonly badRateMax?: number;
  /** Stop when the rate is known to this relative precision for the given seeds. Default 0.002. */
  readonly tolerance?: number;
}

export interface PeakGoodput {
  /** The highest offered rate at which every model's mean bad rate is at most badRateMax. */
  readonly peak_goodput_rps: number;
  /** 95 % interval of it over seeds; at a cliff at least the rates between which the peak is, with any seed left out. */
  readonly low_rps: number;
  readonly high_rps: number;
  /**
   * "root": found. "below": even at startRps / 1024 some model is worse than allowed (peak 0).
   * "above": at startRps * 1024 all are still well, or the curve has no root the search could close in on.
   */
  readonly found: "root" | "below" | "above";
  /** Just above the peak less is served than at it: the peak hangs on the one seed that falls first. */
  readonly is_cliff: boolean;
  /** Number of the model that limits the rate (worst at the peak). */
  readonly worst_model: number;
  readonly bad_rate_max: number;
  readonly seeds: readonly number[];
  /** Simulated runs spent. */
  readonly runs: number;
  /** Bad requests of the rarest model that the peak rests on, over all seeds; null if runs did not say. */
  readonly bad_events_expected: number | null;
  /** What was measured: offered rate, seeds run, mean bad rate of the worst model; by increasing rate. */
  readonly curve: readonly { readonly rate_rps: number; readonly seeds: number; readonly bad_rate: number }[];
}

/** The search asks for these runs: one rate, some seeds. */
export interface GoodputProbe {
  readonly rateRps: number;
  readonly seeds: readonly number[];
}

/** Farthest that the search goes from its first guess, either way. */
const REACH = 1024;
/** Half width, relative, of the three points through which the final curve is drawn. */
const LOCAL = 0.01;
/** How far above a cliff it is looked for where the other seeds fall. */
const CLIFF_REACH = 0.16;
/** Seeds used until the root is known to 4 %. */
const SCOUTS = 2;
const SCOUTED = 0.04;
const PROBES_MAX = 40;

/**
 * Peak goodput: the highest offered rate at which every model's bad rate is at most 1 %, as the root of the mean
 * bad-rate curve.
 *
 * Bad rates are averaged over seeds per model first and the worst model is taken then: the other order, the mean of
 * each seed's worst, grows with the number of models from noise alone. Few seeds bracket the root and all seeds close
 * in on it (Illinois variant of regula falsi: keeps the bracket, superlinear on smooth curves). The estimate is the root
 * of parabolas through three rates around it, per model; the interval is Student's over a jackknife of that estimate,
 * which, unlike a delta method, also sees the limiting model change from seed to seed.
 *
 * @param run one run at an offered rate; a pure function of both arguments.
 */
export function peakGoodput(
  run: (rateRps: number, seed: number) => GoodputRun,
  options: PeakGoodputOptions,
): PeakGoodput {
  const search = searchPeakGoodput(options);
  let step = search.next();
  while (!step.done) {
    const { rateRps, seeds } = step.value;
    step = search.next(seeds.map((seed) => run(rateRps, seed)));
  }
  return step.value;
}

/** The same for runs that happen elsewhere (other threads): the runs of one probe may go on at the same time. */
export async function peakGoodputAsync(
  run: (rateRps: number, seed: number) => Promise<GoodputRun>,
  options: PeakGoodputOptions,
): Promise<PeakGoodput> {
  const search = searchPeakGoodput(options);
  let step = search.next();
  while (!step.done) {
    const { rateRps, seeds } = step.value;
    step = search.next(await Promise.all(seeds.map((seed) => run(rateRps, seed))));
  }
  return step.value;
}

/** All seeds' runs at one rate so far. */
interface Point {
  readonly rateRps: number;
  readonly runs: GoodputRun[];
}
type Search<T> = Generator<GoodputProbe, T, readonly GoodputRun[]>;

/** The search itself: yields the runs it wants, takes their results, ends with the answer. */
export function* searchPeakGoodput(options: PeakGoodputOptions): Search<PeakGoodput> {
  const { seeds, startRps, badRateMax = 0.01, tolerance = 0.002 } = options;
  invariant(seeds.length >= 2, `a peak needs at least 2 seeds; was ${seeds.length}`);
  invariant(startRps > 0 && Number.isFinite(startRps), `startRps must be > 0; was ${startRps}`);
  invariant(badRateMax > 0 && badRateMax < 1, `badRateMax must be in (0, 1); was ${badRateMax}`);
  invariant(tolerance >= 1e-6 && tolerance < 0.1, `tolerance must be in [1e-6, 0.1); was ${tolerance}`);

  const points = new Map<number, Point>();
  /** The worst model's mean bad rate above what is allowed, over the first `count` seeds; runs only what is missing. */
  function* excess(rateRps: number, count: number): Search<number> {
    let point = points.get(rateRps);
    if (point === undefined) {
      point = { rateRps, runs: [] };
      points.set(rateRps, point);
    }
    if (point.runs.length < count) {
      point.runs.push(...(yield { rateRps, seeds: seeds.slice(point.runs.length, count) }));
      const models = point.runs[0]!.badRates.length;
      for (const { badRates } of point.runs) {
        invariant(badRates.length === models && models > 0, `runs differ in models: ${models} and ${badRates.length}`);
      }
    }
    return worst(point.runs).badRate - badRateMax;
  }

  const scouts = Math.min(SCOUTS, seeds.length);
  const bracket = yield* enclose(startRps, (rate) => excess(rate, scouts));
  if (typeof bracket === "string") return unbounded(bracket);
  yield* narrow(bracket, (rate) => excess(rate, scouts), Math.max(SCOUTED, tolerance));
  // All seeds may have their root outside the bracket of a few: enclose anew from where the few saw it.
  const full = yield* enclose(rootOf(bracket), (rate) => excess(rate, seeds.length), SCOUTED / 2);
  if (typeof full === "string") return unbounded(full);
  yield* narrow(full, (rate) => excess(rate, seeds.length), tolerance);

  const centerRps = rootOf(full);
  const local: Point[] = [];
  for (const offset of [-LOCAL, 0, LOCAL]) {
    const rate = centerRps * (1 + offset);
    yield* excess(rate, seeds.length);
    local.push(points.get(rate)!);
  }
  const everySeed = seeds.map((_, index) => index);
  const estimate = centerRps * (1 + localRoot(local, everySeed, badRateMax));
  const leftOut = everySeed.map(
    (out) =>
      centerRps *
      (1 +
        localRoot(
          local,
          everySeed.filter((index) => index !== out),
          badRateMax,
        )),
  );
  const center = mean(leftOut);
  let squares = 0;
  for (const value of leftOut) squares += (value - center) ** 2;
  const n = seeds.length;
  const half = studentT975(n - 1) * Math.sqrt(((n - 1) / n) * squares);
  const { model: worstModel } = worst(local[1]!.runs);
  const isCliff = servedAt(full.high, full.excessHigh) < (1 - badRateMax) * servedAt(full.low, full.excessLow);
  const root = { peak: estimate, low: estimate - half, high: estimate + half };
  if (isCliff) {
    root.low = Math.min(root.low, full.low);
    root.high = Math.max(root.high, yield* fallOfTheOthers(full.high));
  }
  return result("root", root, worstModel, badEvents(local[1]!), isCliff);

  /** Of the model that does worst. */
  function servedAt(rateRps: number, excessRate: number): number {
    return rateRps * (1 - badRateMax - excessRate);
  }
  /** Where, from here on, the model that does worst is bad in the mean without the worst seed, too; or where the look ends. */
  function* fallOfTheOthers(fromRps: number): Search<number> {
    let rateRps = fromRps;
    for (let step = LOCAL; step <= CLIFF_REACH; step *= 2) {
      yield* excess(rateRps, seeds.length);
      const { runs } = points.get(rateRps)!;
      const badOf = (run: GoodputRun): number => Math.max(...run.badRates);
      const first = runs.reduce((a, b) => (badOf(b) > badOf(a) ? b : a));
      if (worst(runs.filter((run) => run !== first)).badRate > badRateMax) return rateRps;
      rateRps = fromRps * (1 + step);
    }
    return rateRps;
  }

  function badEvents(point: Point): number | null {
    let rarest = Number.POSITIVE_INFINITY;
    for (let model = 0; model < point.runs[0]!.badRates.length; model++) {
      let arrived = 0;
      for (const run of point.runs) {
        if (run.arrived === undefined) return null;
        arrived += run.arrived[model] ?? 0;
      }
      rarest = Math.min(rarest, arrived * badRateMax);
    }
    return rarest;
  }
  function unbounded(found: "below" | "above"): PeakGoodput {
    const rates = [...points.keys()];
    const extreme = found === "below" ? Math.min(...rates) : Math.max(...rates);
    const peak = found === "below" ? 0 : extreme;
    return result(found, { peak, low: peak, high: peak }, worst(points.get(extreme)!.runs).model, null, false);
  }
  function result(
    found: PeakGoodput["found"],
    { peak, low, high }: { readonly peak: number; readonly low: number; readonly high: number },
    worstModel: number,
    badEventsExpected: number | null,
    isCliff: boolean,
  ): PeakGoodput {
    const measured = [...points.values()].sort((a, b) => a.rateRps - b.rateRps);
    return {
      peak_goodput_rps: peak,
      low_rps: Math.max(0, low),
      high_rps: high,
      found,
      is_cliff: isCliff,
      worst_model: worstModel,
      bad_rate_max: badRateMax,
      seeds,
      runs: measured.reduce((all, point) => all + point.runs.length, 0),
      bad_events_expected: badEventsExpected,
      curve: measured.map((point) => ({
        rate_rps: point.rateRps,
        seeds: point.runs.length,
        bad_rate: worst(point.runs).badRate,
      })),
    };
  }
}

/** Two rates with the root between them: excess at `low` is <= 0, at `high` > 0. */
interface Bracket {
  low: number;
  high: number;
  excessLow: number;
  excessHigh: number;
}

/** Walks up or down from a guess in growing steps until the sign changes. */
function* enclose(
  start: number,
  excess: (rate: number) => Search<number>,
  step = 0.15,
): Search<Bracket | "below" | "above"> {
  let rate = start;
  let value = yield* excess(rate);
  const up = value <= 0;
  let factor = 1 + step;
  for (;;) {
    const next = up ? rate * factor : rate / factor;
    if (next > start * REACH) return "above";
    if (next < start / REACH) return "below";
    const nextValue = yield* excess(next);
    if (nextValue > 0 === up) {
      return up
        ? { low: rate, excessLow: value, high: next, excessHigh: nextValue }
        : { low: next, excessLow: nextValue, high: rate, excessHigh: value };
    }
    rate = next;
    value = nextValue;
    factor = Math.min(2, 1 + (factor - 1) * 2);
  }
}

/** Shrinks the bracket to a relative width of `tolerance`, or until its secant predicts the root to half of that. */
function* narrow(bracket: Bracket, excess: (rate: number) => Search<number>, tolerance: number): Search<void> {
  // Illinois: an end that stays twice has its weight halved, so that the other end moves past the root.
  let weightLow = bracket.excessLow;
  let weightHigh = bracket.excessHigh;
  let kept: "low" | "high" | null = null;
  for (let probe = 0; probe < PROBES_MAX && bracket.high - bracket.low > tolerance * bracket.high; probe++) {
    const width = bracket.high - bracket.low;
    const secant = bracket.low - (weightLow * width) / (weightHigh - weightLow);
    // Never nearer to an end than a tenth: a curve that is flat and then steep would creep.
    const rate = Math.min(Math.max(secant, bracket.low + width / 10), bracket.high - width / 10);
    const slope = (bracket.excessHigh - bracket.excessLow) / width;
    const value = yield* excess(rate);
    if (value <= 0) {
      Object.assign(bracket, { low: rate, excessLow: value });
      weightLow = value;
      weightHigh = kept === "high" ? weightHigh / 2 : bracket.excessHigh;
      kept = "high";
    } else {
      Object.assign(bracket, { high: rate, excessHigh: value });
      weightHigh = value;
      weightLow = kept === "low" ? weightLow / 2 : bracket.excessLow;
      kept = "low";
    }
    if (Math.abs(value) <= (slope * tolerance * rate) / 2 && bracket.high - bracket.low <= LOCAL * 4 * rate) return;
  }
}

/** Where the chord of a bracket crosses zero. */
function rootOf(bracket: Bracket): number {
  const width = bracket.high - bracket.low;
  if (bracket.excessHigh === bracket.excessLow) return bracket.low;
  return bracket.low - (bracket.excessLow * width) / (bracket.excessHigh - bracket.excessLow);
}

function worst(runs: readonly GoodputRun[]): { model: number; badRate: number } {
  let model = 0;
  let badRate = Number.NEGATIVE_INFINITY;
  for (let candidate = 0; candidate < runs[0]!.badRates.length; candidate++) {
    const average = mean(runs.map((run) => run.badRates[candidate]!));
    if (average > badRate) {
      model = candidate;
      badRate = average;
    }
  }
  return { model, badRate };
}

/**
 * The relative offset from the middle of three rates at which the worst model's mean over the chosen seeds crosses
 * badRateMax, from a parabola per model; within twice the distance of the outer rates.
 */
function localRoot(points: readonly Point[], seeds: readonly number[], badRateMax: number): number {
  const models = points[0]!.runs[0]!.badRates.length;
  const parabolas: (readonly [number, number, number])[] = [];
  for (let model = 0; model < models; model++) {
    const [left, middle, right] = points.map((point) =>
      mean(seeds.map((index) => point.runs[index]!.badRates[model]!)),
    ) as [number, number, number];
    parabolas.push([middle, (right - left) / (2 * LOCAL), (right + left - 2 * middle) / (2 * LOCAL ** 2)]);
  }
  const worstAt = (x: number) => Math.max(...parabolas.map(([a, b, c]) => a + b * x + c * x * x));
  let low = -2 * LOCAL;
  let high = 2 * LOCAL;
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2;
    if (worstAt(middle) <= badRateMax) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
