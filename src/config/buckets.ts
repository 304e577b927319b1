/** Buckets of a padded axis. */
import type { VariableAxis } from "./model.js";

/** The smallest bucket that holds `extent`; null beyond the last. */
export function bucketFor(variable: VariableAxis, extent: number): number | null {
  return variable.buckets.find((size) => size >= extent) ?? null;
}
