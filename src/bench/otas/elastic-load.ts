/** Requests of Table II's types, Poisson within each second. */
import { stream, type Uniform } from "../../sim/random.js";
import { QUERY_TYPES } from "./elastic-profile.js";

export interface ElasticLoad {
  readonly count: number;
  readonly arrivalAt: readonly number[];
  readonly dueAt: readonly number[];
  /** Index of QUERY_TYPES. */
  readonly type: readonly number[];
}

/** Requests/s of each second. */
export type Rates = (random: Uniform, seconds: number) => number[];

/** §V, synthetic: 200 to 700/s. */
export const synthetic: Rates = (random, seconds) => Array.from({ length: seconds }, () => 200 + 500 * random());

/** In the shape of Figure 8b: below 300/s most of the time, above 600/s in bursts of one to four seconds. */
export const bursts: Rates = (random, seconds) => {
  const rates: number[] = [];
  while (rates.length < seconds) {
    const drawn = random();
    const [least, most] = drawn < 0.62 ? [100, 300] : drawn < 0.85 ? [300, 600] : [600, 1100];
    for (let left = 1 + Math.floor(4 * random()); left > 0; left--) rates.push(least! + (most! - least!) * random());
  }
  return rates.slice(0, seconds);
};

/** @param scale times as many requests. */
export function elasticLoad(rates: Rates, seed: number, seconds: number, scale: number): ElasticLoad {
  const random = stream(seed, "elastic-load");
  const arrivalAt: number[] = [];
  const type: number[] = [];
  for (const [second, rate] of rates(stream(seed, "elastic-load/rates"), seconds).entries()) {
    for (let at = second; ; ) {
      at -= Math.log1p(-random()) / (rate * scale);
      if (at >= second + 1) break;
      arrivalAt.push(Math.floor(at * 1e6));
      type.push(Math.floor(random() * QUERY_TYPES.length));
    }
  }
  const dueAt = arrivalAt.map((at, request) => at + QUERY_TYPES[type[request]!]!.sloUs);
  return { count: arrivalAt.length, arrivalAt, dueAt, type };
}
