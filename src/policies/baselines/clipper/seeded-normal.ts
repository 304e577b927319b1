/** Normal numbers from a seed: a policy has no other randomness, so the same events give the same commands. */
export class SeededNormal {
  private state: number;

  /** @param stream whose numbers: neighbours have nothing in common. */
  constructor(seed: number, stream: number) {
    this.state = Math.imul(seed ^ Math.imul(stream + 1, 0x85ebca6b), 0xc2b2ae35);
  }

  /** Box and Muller. */
  next(mean: number, deviation: number): number {
    const radius = Math.sqrt(-2 * Math.log1p(-this.uniform()));
    return mean + deviation * radius * Math.cos(2 * Math.PI * this.uniform());
  }

  /** In [0, 1): a counter, scrambled by the finisher of MurmurHash3. */
  private uniform(): number {
    this.state = (this.state + 0x9e3779b9) | 0;
    let hash = this.state;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
  }
}
