/** Overload control as DAGOR's (PARD-oc, §5.3): who is overloaded has what leads to it admit less. */
import type { Board } from "../board.js";
import { columnOf } from "../module-states.js";
import type { Pipeline } from "../pipeline.js";

const DELAY_US = columnOf("delay_us");

/**
 * A module whose mean queueing delay is above the threshold, and every module that leads to it, admits 1 - alpha of what comes,
 * evenly: of each 1 / alpha parts one is refused.
 */
export class Overload {
  private readonly pipeline: Pipeline;
  private readonly alpha: number;
  private readonly thresholdUs: number;
  /** By module. */
  private readonly isThrottled: Uint8Array;
  private readonly refused: Float64Array;

  constructor(pipeline: Pipeline, alpha: number, thresholdUs: number) {
    this.pipeline = pipeline;
    this.alpha = alpha;
    this.thresholdUs = thresholdUs;
    this.isThrottled = new Uint8Array(pipeline.modules.length);
    this.refused = new Float64Array(pipeline.modules.length);
  }

  /** The modules published. */
  published(states: Board, at: number): void {
    const { isThrottled, pipeline, thresholdUs } = this;
    const row = states.blank();
    for (const module of [...pipeline.order].reverse()) {
      const isOver = states.read(module, at, row) === "fresh" && row.value(DELAY_US) > thresholdUs;
      isThrottled[module] = isOver || pipeline.subs[module]!.some((sub) => isThrottled[sub] === 1) ? 1 : 0;
    }
  }

  /** Whether the next part that comes to the module is let in. */
  admits(module: number): boolean {
    if (this.isThrottled[module] === 0) return true;
    const refused = this.refused[module]! + this.alpha;
    const isRefused = refused >= 1;
    this.refused[module] = isRefused ? refused - 1 : refused;
    return !isRefused;
  }
}
