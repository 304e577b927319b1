/**
 * Several loads of the same arrivals at once: each moment is sent to all of them by one timer, in an order drawn anew, so that
 * what differs between their reports is what served them, and nobody is always behind the same one.
 */
import { after, durationUs } from "../core/time.js";
import { Histogram } from "../measure/histogram.js";
import { shuffle } from "../measure/shuffle.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { ServingError } from "../wire/serving-error.js";
import { arrivalTimes } from "./arrivals.js";
import { BACKLOG_US, Generator, type GeneratorResult } from "./generator.js";
import { randomStream } from "./inputs/random.js";
import { checkLoadOptions, type LoadOptions } from "./load-options.js";
import { type LoadReport, lagBoundMs, lossReasons } from "./load-report.js";
import { pace } from "./pacer.js";
import { resultOf, START_DELAY } from "./run-load.js";

/** Has to be the same in all, or their arrivals are not. */
const SHARED = ["mode", "durationS", "warmupS", "partS", "seed", "isSpinning"] as const;

/** What one load saw in one part of the counted time. */
export interface LoadPart {
  readonly arrived: number;
  readonly finished: number;
  readonly late: number;
  /** p99 of actual minus intended send time; null: nothing was due. */
  readonly lagMs: number | null;
  /** Why the part is no measurement; null: it is one. */
  readonly voidReason: string | null;
}

export interface TogetherResult {
  readonly report: LoadReport;
  /** Of the whole counted time where the options ask for none. */
  readonly parts: readonly LoadPart[];
}

/**
 * @param all open loops of one thread; they differ in targets only as far as arrivals go.
 * @returns in the order of `all`. @throws ServingError as runLoad; invalid-argument also where arrivals would differ.
 */
export async function runTogether(all: readonly LoadOptions[]): Promise<TogetherResult[]> {
  for (const options of all) checkTogether(options, all[0]!);
  const { mode, durationS, seed, isSpinning } = all[0]!;
  if (mode.kind !== "open") throw new ServingError("invalid-argument", "mode must be open; was closed");
  const cpu = process.cpuUsage();
  const beganAt = monotonicNow();
  const generators = all.map((options) => new Generator(options, 0, 1));
  try {
    await Promise.all(generators.map((generator) => generator.prepare()));
    const startAt = after(monotonicNow(), START_DELAY);
    for (const generator of generators) generator.begin(startAt);
    const order = [...generators];
    const uniform = randomStream(seed, "together");
    const send = (intendedUs: number) => {
      shuffle(order, order.length, uniform);
      for (const generator of order) generator.send(intendedUs);
    };
    const giveUpUs = durationUs(durationS * 1e6 + BACKLOG_US);
    const next = arrivalTimes({ ...mode, durationS, seed });
    const { unsent } = await pace({ next, startAt, giveUpUs, isSpinning, send });
    const results = await Promise.all(generators.map((generator) => generator.finish(unsent)));
    return results.map((result, index) => {
      const { report } = resultOf(all[index]!, [result], { cpu, beganAt }, false);
      return { report, parts: partsOf(all[index]!, report, result) };
    });
  } finally {
    await Promise.all(generators.map((generator) => generator.close()));
  }
}

/** A generator that was late in one part was on time in the others; whatever else voids a run voids all of it. */
function partsOf(options: LoadOptions, report: LoadReport, { parts, partLags, unsent }: GeneratorResult): LoadPart[] {
  const { arrived, finished, late, lag_ms, void_reason } = report;
  if (parts.length === 0) return [{ arrived, finished, late, lagMs: lag_ms.p99, voidReason: void_reason }];
  const boundMs = lagBoundMs(Object.values(report.slo_ms));
  const losses = lossReasons(options, false, report, unsent);
  return parts.map((part, index) => {
    const us = Histogram.fromJSON(partLags[index]!).quantile(0.99);
    const lagMs = us === null ? null : us / 1000;
    const isLate = lagMs !== null && lagMs > boundMs;
    const reasons = isLate
      ? [...losses, `the generator was ${lagMs.toFixed(1)} ms late (p99), above ${boundMs.toFixed(1)} ms`]
      : losses;
    return { ...part, lagMs, voidReason: reasons.length > 0 ? reasons.join("; ") : null };
  });
}

function checkTogether(options: LoadOptions, first: LoadOptions): void {
  checkLoadOptions(options);
  if (options.workers !== 1)
    throw new ServingError("invalid-argument", `workers must be 1 where loads run together; was ${options.workers}`);
  for (const field of SHARED) {
    const [own, firsts] = [options, first].map((each) => JSON.stringify(each[field]));
    if (own !== firsts)
      throw new ServingError("invalid-argument", `${field} must be the same for loads together: ${firsts}; was ${own}`);
  }
}
