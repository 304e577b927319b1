/**
 * OTAS's allocators: how often and by how much they lose against every plan, what a plan costs, and what they earn on one simulated accelerator beside
 * what is put in the place of their parts.
 *
 * For: choosing an allocator, and seeing which part of it earns. Not for: the evaluation of the paper, which runs the policies (`rubato reproduce`).
 */
import type { BenchResult } from "../bench-result.js";
import type { BenchOptions } from "../benches.js";
import { allocatorCosts } from "./allocator-cost.js";
import { allocatorLosses } from "./allocator-losses.js";
import { earnings } from "./earnings.js";

export async function benchOtas({
  size,
  onProgress,
}: Pick<BenchOptions, "size" | "onProgress">): Promise<BenchResult[]> {
  const costs = allocatorCosts(size);
  onProgress("plans timed\n");
  const losses = allocatorLosses(size);
  onProgress("small queues tried in full\n");
  return [...losses, ...costs, ...earnings(size, onProgress)];
}
