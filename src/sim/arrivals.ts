import { randomGamma } from "d3-random";
import type { ExpandedArrivals, ExpandedScenario } from "../config/scenario/expand-scenario.js";
import { IndexedHeap } from "../core/indexed-heap.js";
import { stream, type Uniform } from "./random.js";

/** The requests of a run in order of time; a cursor, so that nothing is allocated per request. */
export interface Arrivals {
  /** Time of the next request, Infinity when there is none, and its model; beyond all models its pipeline. */
  at: number;
  model: number;
  /** Its app; -1: the load does not name one. */
  app: number;
  advance(): void;
}

/** @param seed every model and pipeline draws from its own stream "arrivals/NAME". */
export function createArrivals(scenario: ExpandedScenario, seed: number): Arrivals {
  const { arrivals } = scenario;
  if (arrivals.kind === "replay") return new ReplayArrivals(arrivals);
  const renewals: Renewal[] = [];
  const models: number[] = [];
  [...scenario.models, ...(scenario.pipelines ?? [])].forEach((model, index) => {
    if (model.rateRps <= 0) return;
    const modulation = ("modulation" in model ? model.modulation : undefined) ?? arrivals.modulation;
    renewals.push(
      new Renewal(
        { ...arrivals, modulation },
        model.rateRps,
        scenario.durationUs,
        stream(seed, `arrivals/${model.name}`),
      ),
    );
    models.push(index);
  });
  return new MergedArrivals(renewals, models);
}

/** Draws gaps in blocks: the generator's loop stays hot and the caller reads an array. */
const BLOCK = 256;

/** One model's renewal process, whole microseconds. */
class Renewal {
  at = Number.POSITIVE_INFINITY;
  private readonly gaps = new Float64Array(BLOCK);
  private readonly draw: (() => number) | null;
  private readonly uniform: Uniform;
  private readonly equal: boolean;
  private readonly meanGapUs: number;
  private readonly endAt: number;
  private readonly modulation: { readonly atUs: Float64Array; readonly factor: Float64Array } | null;
  private readonly missing: readonly number[];
  private missingCursor = 0;
  private step = 0;
  private cursor = BLOCK;
  private exactAt = 0;
  private index = -1;

  constructor(
    arrivals: Extract<ExpandedArrivals, { kind: "renewal" }>,
    rateRps: number,
    endAt: number,
    uniform: Uniform,
  ) {
    this.uniform = uniform;
    this.meanGapUs = 1e6 / rateRps;
    this.endAt = endAt;
    this.equal = arrivals.gaps === "equal";
    this.draw =
      this.equal || arrivals.shape === 1 ? null : randomGamma.source(uniform)(arrivals.shape, 1 / arrivals.shape);
    this.modulation = arrivals.modulation;
    this.missing = arrivals.missing;
    this.advance();
  }

  advance(): void {
    do {
      this.index++;
      if (this.equal && this.modulation === null) this.exactAt = this.index * this.meanGapUs;
      else if (this.equal && this.index === 0) this.exactAt = 0;
      else this.exactAt = this.moved(this.exactAt, this.unitGap() * this.meanGapUs);
    } while (this.isMissing());
    this.at = this.exactAt < this.endAt ? Math.floor(this.exactAt) : Number.POSITIVE_INFINITY;
  }

  /** A gap of unit mean. */
  private unitGap(): number {
    if (this.equal) return 1;
    if (this.cursor === BLOCK) {
      this.cursor = 0;
      const { gaps, draw, uniform } = this;
      if (draw === null) for (let index = 0; index < BLOCK; index++) gaps[index] = -Math.log1p(-uniform());
      else for (let index = 0; index < BLOCK; index++) gaps[index] = draw();
    }
    return this.gaps[this.cursor++]!;
  }

  /**
   * The moment a gap after `from`, where the rate changes in steps: what is left of a gap at a step is carried into the
   * next (Clockwork's replay rule), so no arrival is lost at a border.
   */
  private moved(from: number, gapUs: number): number {
    if (this.modulation === null) return from + gapUs;
    const { atUs, factor } = this.modulation;
    let now = from;
    let left = gapUs;
    for (;;) {
      const stepEnd = this.step + 1 < atUs.length ? atUs[this.step + 1]! : Number.POSITIVE_INFINITY;
      const speed = factor[this.step]!;
      const end = now + left / speed;
      if (end <= stepEnd) return end;
      if (stepEnd === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
      left -= (stepEnd - now) * speed;
      now = stepEnd;
      this.step++;
    }
  }

  private isMissing(): boolean {
    if (this.missing[this.missingCursor] !== this.index) return false;
    this.missingCursor++;
    return true;
  }
}

/** Several models' processes in one order; simultaneous arrivals by model. */
class MergedArrivals implements Arrivals {
  at = Number.POSITIVE_INFINITY;
  model = -1;
  app = -1;
  private readonly heap: IndexedHeap;
  private readonly renewals: readonly Renewal[];
  private readonly models: readonly number[];

  constructor(renewals: readonly Renewal[], models: readonly number[]) {
    this.renewals = renewals;
    this.models = models;
    this.heap = new IndexedHeap(Math.max(1, renewals.length));
    for (const [index, renewal] of renewals.entries()) this.heap.set(index, renewal.at);
    this.read();
  }

  advance(): void {
    const top = this.heap.top();
    const renewal = this.renewals[top]!;
    renewal.advance();
    this.heap.set(top, renewal.at);
    this.read();
  }

  private read(): void {
    this.at = this.heap.topPriority();
    const top = this.heap.top();
    this.model = top < 0 ? -1 : this.models[top]!;
  }
}

class ReplayArrivals implements Arrivals {
  at = Number.POSITIVE_INFINITY;
  model = -1;
  app = -1;
  private index = -1;
  private readonly replay: Extract<ExpandedArrivals, { kind: "replay" }>;

  constructor(replay: Extract<ExpandedArrivals, { kind: "replay" }>) {
    this.replay = replay;
    this.advance();
  }

  advance(): void {
    const index = ++this.index;
    this.at = index < this.replay.atUs.length ? this.replay.atUs[index]! : Number.POSITIVE_INFINITY;
    this.model = index < this.replay.model.length ? this.replay.model[index]! : -1;
    this.app = this.replay.app?.[index] ?? -1;
  }
}
