/** What the data of a pipeline's requests would decide, drawn by the seed and their numbers: the same under every policy. */
import type { ExpandedPipeline } from "../config/scenario/pipelines/expand-pipelines.js";
import { Draws, pick } from "./draws.js";

export class PipelineDraws {
  private readonly pipeline: ExpandedPipeline;
  private readonly which: Draws;
  /** By module. */
  private readonly draws: readonly Draws[];

  constructor(pipeline: ExpandedPipeline, seed: number) {
    this.pipeline = pipeline;
    this.which = new Draws(seed, `apps/${pipeline.name}`);
    this.draws = pipeline.modules.map(({ name }) => new Draws(seed, `ways/${pipeline.name}/${name}`));
  }

  /** App of a request; "": the pipeline has none. @param number that it arrived with. */
  appOf(number: number): string {
    const { apps } = this.pipeline;
    return apps === undefined ? "" : apps.names[this.indexOf(number)]!;
  }

  /** Position in the module's subs. @param path see Flow; 0: of the request itself. */
  wayOf(module: number, number: number, path: number): number {
    const ways = this.pipeline.modules[module]!.ways!;
    return pick(ways[ways.length === 1 ? 0 : this.indexOf(number)]!, this.draws[module]!.uniform(number, path));
  }

  partsOf(module: number, number: number, path: number): number {
    const { counts, cumulative } = this.pipeline.modules[module]!.parts!;
    return counts[pick(cumulative, this.draws[module]!.uniform(number, path))]!;
  }

  private indexOf(number: number): number {
    return pick(this.pipeline.apps!.cumulative, this.which.uniform(number));
  }
}
