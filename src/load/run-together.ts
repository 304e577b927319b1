/**
 * Several loads of the same arrivals at once: each moment is sent to all of them by one timer, in an order drawn anew, so that
 * what differs between their reports is what served them, and nobody is always behind the same one.
 */
import { after, durationUs } from "../core/time.js";
import { shuffle } from "../measure/shuffle.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { ServingError } from "../wire/serving-error.js";
import { arrivalTimes } from "./arrivals.js";
import { BACKLOG_US, Generator } from "./generator.js";
import { randomStream } from "./inputs/random.js";
import { checkLoadOptions, type LoadOptions } from "./load-options.js";
import { pace } from "./pacer.js";
import { type LoadResult, resultOf, START_DELAY } from "./run-load.js";

/** Has to be the same in all, or their arrivals are not. */
const SHARED = ["mode", "durationS", "seed", "isSpinning"] as const;

/**
 * @param all open loops of one thread; they differ in targets only as far as arrivals go.
 * @returns in the order of `all`. @throws ServingError as runLoad; invalid-argument also where arrivals would differ.
 */
export async function runTogether(all: readonly LoadOptions[]): Promise<LoadResult[]> {
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
    return results.map((result, index) => resultOf(all[index]!, [result], { cpu, beganAt }, false));
  } finally {
    await Promise.all(generators.map((generator) => generator.close()));
  }
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
