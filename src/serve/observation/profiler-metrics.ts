/** Metrics of the online profiler: requests that are run again count here and nowhere else. */
import { SHADOW_OUTCOMES } from "../../core/shadow/profiler.js";
import { CounterFamily, GaugeFamily, type Registry } from "./typed-metrics.js";

/** How a request that was to be run again fared; too-large: its inputs are not kept. */
const RUN_OUTCOMES = [...SHADOW_OUTCOMES, "too-large"] as const;
type RunOutcome = (typeof RUN_OUTCOMES)[number];

/** Of whom: apps are bounded by their model. */
interface Profiled {
  readonly spec: { readonly name: string };
  readonly apps: { nameOf(kind: number): string };
}

export interface ProfilerCells {
  ended(model: Profiled, kind: number, outcome: RunOutcome): void;
  ran(model: Profiled, us: number): void;
}

export class ProfilerMetrics implements ProfilerCells {
  /** Part of the accelerators' time that was taken, by group. */
  shares: () => Iterable<{ group: string; share: number }> = () => [];
  private readonly runs: CounterFamily;
  private readonly seconds: CounterFamily;

  constructor(registry: Registry) {
    this.runs = new CounterFamily(
      registry,
      "rubato_profiler_runs_total",
      `Requests picked to be run again alone, by app ('': none was named) and outcome (${RUN_OUTCOMES.join(", ")}): measured, no accelerator had room for it in a second, its model or the server went, its worker failed it, its inputs are more than 16 MiB and are not kept.`,
    );
    this.seconds = new CounterFamily(
      registry,
      "rubato_profiler_seconds_total",
      "Execution time of requests that were run again; rubato_accelerator_busy_seconds_total is without it.",
    );
    new GaugeFamily(
      registry,
      "rubato_profiler_share",
      "Part of the accelerators' time since the start that requests took that were run again.",
      () => this.rows(),
    );
  }

  private *rows() {
    for (const { group, share } of this.shares()) yield { labels: { group }, value: share };
  }

  ended({ spec, apps }: Profiled, kind: number, outcome: RunOutcome): void {
    this.runs.cell({ model: spec.name, app: apps.nameOf(kind), outcome }).value++;
  }

  ran({ spec }: Profiled, us: number): void {
    this.seconds.cell({ model: spec.name }).value += us / 1e6;
  }
}
