import { seedOf } from "./random.js";

/**
 * Draws by number: the same (seed, name, number, part) gives the same value whatever else was drawn and in which order. So a
 * request has its app, its time and its parts under every policy, and nothing has to be kept for it.
 */
export class Draws {
  private readonly seed: number;

  /** @param name what is drawn and for whom, e.g. "times/ResNet50". */
  constructor(seed: number, name: string) {
    this.seed = seedOf(seed, name);
  }

  /** Uniform in [0, 1). @param number of the request, from 0. @param part which of several draws of the request. */
  uniform(number: number, part = 0): number {
    const low = scrambled(this.seed ^ scrambled(number | 0) ^ Math.imul((number / 2 ** 32) | 0, 0x85ebca6b));
    const high = scrambled(low ^ scrambled(part + 0x9e3779b1));
    return ((high >>> 6) * 0x8000000 + (scrambled(high ^ this.seed) >>> 5)) * 2 ** -53;
  }
}

/** The finisher of MurmurHash3: every bit of the input changes half of the output's. */
function scrambled(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/** Position in ascending cumulative weights (the last is 1) that a uniform number falls on. */
export function pick(cumulative: Float64Array, uniform: number): number {
  let low = 0;
  let high = cumulative.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (uniform < cumulative[middle]!) high = middle;
    else low = middle + 1;
  }
  return low;
}
