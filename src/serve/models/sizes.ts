import { paddedBuckets } from "../../config/buckets.js";
import type { ModelSpec } from "../../config/model.js";

/** Most kinds that sizes make. */
const SIZES_MAX = 12;

/**
 * The sizes that a model's requests are told apart by where they share batches whatever their size (`sizes: together`): its
 * buckets, or the largest of neighbours where there are more than SIZES_MAX.
 *
 * @param plansByKind the policy may plan by who is in a batch: then that is the default.
 * @returns upper bounds, ascending; null: requests of different sizes are queued apart.
 */
export function sizesTogether(spec: ModelSpec, plansByKind: boolean): readonly number[] | null {
  const buckets = paddedBuckets(spec);
  if (buckets === null || (spec.sizes ?? (plansByKind ? "together" : "apart")) === "apart") return null;
  const step = buckets.length / Math.min(SIZES_MAX, buckets.length);
  return Array.from({ length: buckets.length / step }, (_, size) => buckets[Math.ceil((size + 1) * step) - 1]!);
}
