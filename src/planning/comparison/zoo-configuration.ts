/**
 * Partitioning problems like those of Symphony Appendix A.2 and Figure 16: 800 variants of zoo models, 20 sub-clusters.
 *
 * As there: models drawn from the zoo, many variants of each; rates independent and exponential. Not stated there, chosen
 * here: rates have a mean of 100 requests/s (only ratios matter); a variant is as large as its model (zoo-sizes.ts); a
 * run needs between a tenth and a half of the weights beside them, drawn evenly; a sub-cluster may carry 1.5 times the
 * mean load and 1.5 times the mean memory, so that random search has a chance.
 */
import { ZOO, type ZooName } from "../../config/scenario/zoo.js";
import { zooMemoryMb } from "../../config/scenario/zoo-sizes.js";
import { invariant } from "../../core/invariant.js";
import type { PlanInput, PlanModel, Uniform } from "../problem.js";

export interface ZooConfigurationOptions {
  readonly random: Uniform;
  /** Default 800. */
  readonly models?: number;
  /** Default 20. */
  readonly clusters?: number;
  /** Default a100, whose 37 models are the paper's. */
  readonly zoo?: ZooName;
}

const RATE_MEAN_RPS = 100;
const DYNAMIC_PART = { min: 0.1, max: 0.5 } as const;
const BOUND_TO_MEAN = 1.5;

export function zooConfiguration({
  random,
  models: count = 800,
  clusters = 20,
  zoo = "a100",
}: ZooConfigurationOptions): PlanInput {
  const models = Array.from({ length: count }, (_, n): PlanModel => {
    const { name } = ZOO[zoo][Math.floor(random() * ZOO[zoo].length)]!;
    const memoryMb = zooMemoryMb(name);
    invariant(memoryMb !== null, `zoo model ${name} has no size`);
    return {
      name: `${name}-${n + 1}`,
      rateRps: -Math.log(1 - random()) * RATE_MEAN_RPS,
      memoryMb,
      dynamicMb: memoryMb * (DYNAMIC_PART.min + (DYNAMIC_PART.max - DYNAMIC_PART.min) * random()),
    };
  });
  const meanOf = (value: (model: PlanModel) => number): number =>
    models.reduce((total, model) => total + value(model), 0) / clusters;
  const dynamicMax = models.reduce((max, model) => Math.max(max, model.dynamicMb ?? 0), 0);
  return {
    models,
    clusters,
    rateRpsMax: BOUND_TO_MEAN * meanOf((model) => model.rateRps),
    memoryMbMax: BOUND_TO_MEAN * meanOf((model) => model.memoryMb) + dynamicMax,
  };
}
