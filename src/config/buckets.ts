/** Buckets of a padded axis. */
import type { ModelSpec, VariableAxis } from "./model.js";

/** The smallest bucket that holds `extent`; null beyond the last. */
export function bucketFor(variable: VariableAxis, extent: number): number | null {
  return variable.buckets.find((size) => size >= extent) ?? null;
}

/** Of the one input that is padded, masks apart; null where there is none, or several. */
export function paddedBuckets({ inputs }: Pick<ModelSpec, "inputs">): readonly number[] | null {
  const padded = inputs.filter(({ variable, mask }) => variable?.mode === "pad" && mask !== true);
  return padded.length === 1 ? padded[0]!.variable!.buckets : null;
}
