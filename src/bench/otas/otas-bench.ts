/**
 * OTAS's allocators: how often and by how much they lose against every plan, what a plan and a whole decision cost, and what the policy earns with each of
 * its parts, simulated.
 *
 * For: choosing options of `otas`, and seeing which of them earns. Not for: the evaluation of the paper, which is `rubato reproduce otas`.
 */
import type { BenchResult } from "../bench-result.js";
import type { BenchOptions } from "../benches.js";
import { allocatorCosts } from "./allocator-cost.js";
import { allocatorLosses } from "./allocator-losses.js";
import { decisionCosts } from "./decision-cost.js";
import { earnings } from "./earnings.js";
import { recentEarnings } from "./recent-earnings.js";

export async function benchOtas({
  size,
  onProgress,
}: Pick<BenchOptions, "size" | "onProgress">): Promise<BenchResult[]> {
  const costs = allocatorCosts(size);
  const decisions = decisionCosts(size);
  onProgress("plans timed\n");
  const losses = allocatorLosses(size);
  onProgress("small queues tried in full\n");
  return [...losses, ...costs, ...decisions, ...earnings(size, onProgress), ...recentEarnings(size)];
}
