/** Sizes of batches by power of two: what is measured of one size says something of those beside it. */
import { invariant } from "../invariant.js";

/** The power of two at or below the size. */
export function binOf(size: number): number {
  invariant(size >= 1, `a batch must have at least one member; had ${size}`);
  return 31 - Math.clz32(size);
}

/** The bin itself, or the nearest of `count` bins that is known, the smaller of two; -1: none is. */
export function nearestKnown(bin: number, count: number, isKnown: (bin: number) => boolean): number {
  const furthest = Math.max(bin, count - bin);
  for (let away = 0; away <= furthest; away++) {
    for (const near of [bin - away, bin + away]) if (near >= 0 && near < count && isKnown(near)) return near;
  }
  return -1;
}
