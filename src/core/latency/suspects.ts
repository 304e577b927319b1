/**
 * A batch that the model refused may have one bad member, or many. Who is it, for the least accelerator time?
 *
 * The members run again in parts; a part that is refused is parted again, and who is refused alone is bad. Many members
 * in a part find much that is good in one run, and are refused more often. Where batching saves nothing, parts of one are
 * best; where a run costs the same whatever its size, halves or so.
 */

/** One request in so many is what the share of bad ones follows. */
const MEMORY = 32;
/** Less is none: nothing is learnt from batches that end well where all do. */
const SHARE_MIN = 1e-3;

/** Shares of bad requests, by queue. */
export class BadShares {
  private readonly shares: number[] = [];

  of(key: number): number {
    return this.shares[key] ?? 0;
  }

  /** A request was refused alone. */
  refused(key: number): void {
    const share = this.of(key);
    this.shares[key] = share + (1 - share) / MEMORY;
  }

  /** So many ended well. */
  ended(key: number, size: number): void {
    const share = this.shares[key];
    if (share === undefined || share === 0) return;
    const left = share * (1 - 1 / MEMORY) ** size;
    this.shares[key] = left < SHARE_MIN ? 0 : left;
  }

  forget(key: number): void {
    this.shares[key] = 0;
  }
}

/**
 * @param execUs l(b) by size, at least up to `size`. @param runUs what every run costs beside it.
 * @param share of bad requests among those that came lately. @returns in [1, size).
 */
export function partSize(execUs: Float64Array, runUs: number, size: number, share: number): number {
  return best(execUs, runUs, size, Math.max(1, share * size)).part;
}

/** Parts of 1, 2, 4, ... are looked at. @param bad members, at least 1. */
function best(execUs: Float64Array, runUs: number, size: number, bad: number): { part: number; us: number } {
  let found = { part: 1, us: size * (execUs[1]! + runUs) };
  for (let part = 2; part < size; part *= 2) {
    const parts = Math.ceil(size / part);
    const badParts = Math.min(bad, parts);
    const us = parts * (execUs[part]! + runUs) + badParts * best(execUs, runUs, part, bad / badParts).us;
    if (us < found.us) found = { part, us };
  }
  return found;
}
