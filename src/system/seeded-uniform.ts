/** Uniform numbers in [0, 1) from a seed: a counter, scrambled by the finisher of MurmurHash3. What is above schedulers has no other randomness. */
export function seededUniform(seed: number, stream: number): () => number {
  let state = Math.imul(seed ^ Math.imul(stream + 1, 0x85ebca6b), 0xc2b2ae35);
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let hash = state;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
  };
}
