import { xoroshiro128plus } from "pure-rand/generator/xoroshiro128plus";

/** Uniform in [0, 1). */
export type Uniform = () => number;

/**
 * Named random streams from one seed: adding one stream or one draw never shifts another's sequence.
 *
 * @param name what is drawn and for whom, e.g. "arrivals/ResNet50".
 */
export function stream(seed: number, name: string): Uniform {
  const rng = xoroshiro128plus(seedOf(seed, name));
  // 53 bits from two draws, as in uniformFloat64 of pure-rand, without its wrapper on the hot path.
  return () => {
    const high = rng.next() >>> 6;
    const low = rng.next() >>> 5;
    return (high * 0x8000000 + low) * 2 ** -53;
  };
}

/** Standard normal from two uniform numbers (Box and Muller). */
export const normalOf = (first: number, second: number): number =>
  Math.sqrt(-2 * Math.log1p(-first)) * Math.cos(2 * Math.PI * second);

/** FNV-1a over the name, finished with the seed: equal names of neighbouring seeds must not be neighbours. */
export function seedOf(seed: number, name: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index++) hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (seed | 0), 0x9e3779b1);
  hash ^= hash >>> 15;
  hash = Math.imul(hash ^ Math.floor(seed / 2 ** 32), 0x85ebca6b);
  return hash ^ (hash >>> 13);
}
