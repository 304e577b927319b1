import type { QueueSpec } from "../../core/policy.js";
import { TimesByKind } from "../by-kind/times-by-kind.js";
import { BATCH_SIZE_MAX } from "../deferred/window-options.js";
import type { OptionTable } from "../options.js";

/** Of both policies. */
export const BATCHING_OPTIONS = {
  window_s: {
    type: "number",
    min: 1,
    max: 86_400,
    default: 60,
    meaning: "Seconds for which times alone are remembered.",
  },
  batch_sizes: {
    type: "integers",
    min: 1,
    max: BATCH_SIZE_MAX,
    lengthMax: 64,
    meaning: "Sizes that batches may have, increasing, the first 1. Default: 1, 2, 4, ... and the model's largest.",
  },
} as const satisfies OptionTable;

export const createLatency =
  (windowS: number) =>
  (spec: QueueSpec): TimesByKind =>
    new TimesByKind(spec, { windowUs: windowS * 1e6 });

/** Ascending. @param given sizes; absent: powers of two and the largest. */
export function sizesUpTo(sizeMax: number, given?: readonly number[]): number[] {
  if (given !== undefined) return given.filter((size) => size <= sizeMax);
  const sizes: number[] = [];
  for (let size = 1; size < sizeMax; size *= 2) sizes.push(size);
  return [...sizes, sizeMax];
}
