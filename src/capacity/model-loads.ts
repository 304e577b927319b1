/** How much of what arrives each model is asked for: by itself, and as a module of pipelines. */
import type { ExpandedPipeline, ExpandedScenario } from "../config/scenario/scenario.js";
import { Pipeline } from "../system/pipeline.js";

/** Requests and parts per second by model, at the scenario's own rate, if none is given up. Ways that merge are taken to exclude each other. */
export function modelLoads({ models, pipelines = [] }: ExpandedScenario): Float64Array {
  const loads = Float64Array.from(models, ({ rateRps }) => rateRps);
  for (const line of pipelines)
    for (const [module, parts] of partsOf(line).entries()) loads[line.modules[module]!.model]! += line.rateRps * parts;
  return loads;
}

/** By module, of one request in the mean. */
function partsOf({ modules, apps }: ExpandedPipeline): Float64Array {
  const pipeline = new Pipeline(modules);
  const shares = weightsOf(apps?.cumulative ?? [1]);
  const reached = new Float64Array(modules.length);
  for (const module of pipeline.sources) reached[module] = 1;
  for (const module of pipeline.order) {
    reached[module] = Math.min(1, reached[module]!);
    const { ways } = modules[module]!;
    const taken = ways?.map(weightsOf);
    for (const [position, sub] of pipeline.subs[module]!.entries()) {
      const part = taken?.reduce((sum, way, app) => sum + (taken.length === 1 ? 1 : shares[app]!) * way[position]!, 0);
      reached[sub]! += reached[module]! * (part ?? 1);
    }
  }
  return reached.map((part, module) => {
    let parts = part;
    for (let opener = pipeline.scope[module]!; opener >= 0; opener = pipeline.gathersIn[opener]!)
      parts *= meanParts(modules[opener]!);
    return parts;
  });
}

function meanParts({ parts }: ExpandedPipeline["modules"][number]): number {
  if (parts === undefined) return 1;
  return weightsOf(parts.cumulative).reduce((sum, weight, index) => sum + weight * parts.counts[index]!, 0);
}

const weightsOf = (cumulative: ArrayLike<number>): number[] =>
  Array.from(cumulative, (sum, index) => sum - (index === 0 ? 0 : cumulative[index - 1]!));
