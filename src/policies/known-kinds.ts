/** What is known of a queue's kinds beforehand, as numbers: they fit rows of events. */
import type { KindTimes, QueueSpec } from "../core/policy.js";

type Known = Pick<QueueSpec, "kinds" | "batchTime">;

/** [c0 (NaN: not known), then by kind its share, the length of its sample, and that]. Names stay behind: nobody plans by them. */
export function encodeKinds({ kinds = [], batchTime }: Known): number[] {
  if (kinds.length === 0) return [];
  return [batchTime?.c0Us ?? Number.NaN, ...kinds.flatMap(({ share, aloneUs }) => [share, aloneUs.length, ...aloneUs])];
}

/** @param numbers of encodeKinds; none: nothing is known. */
export function decodeKinds(numbers: Float64Array): Known {
  if (numbers.length === 0) return {};
  const kinds: KindTimes[] = [];
  for (let at = 1; at < numbers.length; ) {
    const length = numbers[at + 1]!;
    const from = at + 2;
    kinds.push({ name: String(kinds.length), share: numbers[at]!, aloneUs: numbers.slice(from, from + length) });
    at = from + length;
  }
  const c0Us = numbers[0]!;
  return Number.isNaN(c0Us) ? { kinds } : { kinds, batchTime: { c0Us, c1: 1 } };
}
