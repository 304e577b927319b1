import { xoroshiro128plus } from "pure-rand/generator/xoroshiro128plus";

/**
 * A named stream of the run's seed: uniform numbers in [0, 1). One stream's draws never shift another's.
 *
 * The name is hashed (FNV-1a) into the generator's seed, so streams of neighbouring seeds are unrelated.
 */
export function randomStream(seed: number, name: string): () => number {
  let hash = 0x811c9dc5;
  for (const char of `${name}/${seed}`) {
    hash ^= char.codePointAt(0)!;
    hash = Math.imul(hash, 0x01000193);
  }
  const generator = xoroshiro128plus(hash);
  return () => (generator.next() >>> 0) / 2 ** 32;
}
