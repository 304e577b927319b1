/** Metrics of placement; empty families where it is not configured. */
import { type CounterCell, CounterFamily, GaugeFamily, HistogramFamily, type Registry } from "./typed-metrics.js";

/** What gauges show: as of the last epoch, and where models are now. */
export interface PlacementView {
  models(): Iterable<{ model: string; group: string }>;
  groups(): Iterable<{ group: string; load: number; memoryMb: number }>;
  /** (max - min) / mean; null before the first epoch. */
  imbalance(): { load: number; memory: number } | null;
}

const SECONDS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300];

export class PlacementMetrics {
  /** Set when placement is configured. */
  view: PlacementView | null = null;
  private readonly epochs: CounterFamily;
  private readonly moves: CounterFamily;
  private readonly seconds: HistogramFamily;

  constructor(registry: Registry) {
    this.epochs = new CounterFamily(
      registry,
      "rubato_placement_epochs_total",
      "Looks at the placement, by outcome (placed, kept, moved, infeasible, not-found, failed) and reason: how the " +
        "search ended (optimal, settled, timed-out: the incumbent was used), why there was none, or the constraint.",
    );
    this.moves = new CounterFamily(
      registry,
      "rubato_placement_moves_total",
      "Models to be moved, by outcome (moved, load-failed, no-room, aborted, gone); but for moved the model stayed; aborted: after another of the plan that failed, or at the end of the server.",
    );
    this.seconds = new HistogramFamily(
      registry,
      "rubato_placement_move_seconds",
      "Time of a move, from the start of the load until the old group has nothing of the model.",
      SECONDS,
    );
    const gauge = (name: string, help: string, rows: (view: PlacementView) => Iterable<Sample>): void => {
      new GaugeFamily(registry, name, help, () => (this.view === null ? [] : rows(this.view)));
    };
    gauge("rubato_model_group", "1 for the group of placement that takes the model's new requests.", function* (view) {
      for (const { model, group } of view.models()) yield { labels: { model, group }, value: 1 };
    });
    gauge(
      "rubato_placement_load",
      "Load of a group of placement over the last epoch, in the unit of placement.load.",
      function* (view) {
        for (const { group, load } of view.groups()) yield { labels: { group }, value: load };
      },
    );
    gauge(
      "rubato_placement_memory_bytes",
      "Static memory of the models of a group of placement, on each of its accelerators.",
      function* (view) {
        for (const { group, memoryMb } of view.groups()) yield { labels: { group }, value: memoryMb * 1e6 };
      },
    );
    gauge(
      "rubato_placement_imbalance_ratio",
      "(max - min) / mean over the groups of placement in the last epoch, of load and of memory.",
      function* (view) {
        const imbalance = view.imbalance();
        if (imbalance === null) return;
        yield { labels: { of: "load" }, value: imbalance.load };
        yield { labels: { of: "memory" }, value: imbalance.memory };
      },
    );
  }

  countEpoch(outcome: string, reason: string): void {
    this.epochs.cell({ outcome, reason }).value++;
  }

  move(outcome: "moved" | "load-failed" | "no-room" | "aborted" | "gone"): CounterCell {
    return this.moves.cell({ outcome });
  }

  observeMove(seconds: number): void {
    this.seconds.cell().observe(seconds);
  }
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}
