import { type Experiment, pick } from "../experiment.js";
import { APPLICATIONS } from "./applications.js";
import { casesOf, comparisons, IN_VAIN, LOST, ratesTable } from "./presentation.js";
import { bounded, type Case, describeRun, measured, RULES, runOf, workloadOf } from "./runs.js";
import { SYSTEMS } from "./systems.js";
import { tracesOf } from "./traces/trace-files.js";

export const fig8: Experiment = {
  name: "pard/fig8",
  title: "PARD, Figure 8: drop and invalid rates of four systems on twelve workloads",
  about:
    "Four applications under rates as those of three traces. The paper's profiles and worker counts are not known: modules have profiles of Symphony's, batches are planned " +
    "for half of a module's part of the SLO at the most, workers are spread evenly over what modules need, and load 1 is what they do, either as the trace's mean or as the mean of its highest 10 s.",
  plan(size, dataDir) {
    const traces = tracesOf(dataDir);
    const run = runOf(size);
    const loads = pick(size, {
      tiny: [1],
      small: [0.8, 1, 1.2],
      default: [0.8, 1, 1.2],
      full: [0.6, 0.8, 1, 1.2, 1.4],
    });
    const apps = pick(size, { tiny: APPLICATIONS.slice(0, 1), small: APPLICATIONS, default: APPLICATIONS });
    const rules = pick(size, { tiny: RULES.slice(0, 1), small: RULES, default: RULES });
    const cases: Case[] = apps.flatMap((app) =>
      traces.flatMap((trace) => rules.flatMap((rule) => loads.map((load) => ({ app, trace, rule, load })))),
    );
    const runs = bounded(cases, SYSTEMS, run);
    return {
      points: runs.map(({ point }) => point),
      scope: `${describeRun(run, traces)}; loads ${loads.join(", ")}`,
      present(get) {
        const results = measured(runs, get);
        const { least, times } = comparisons(
          casesOf(results),
          ({ at }) => `${workloadOf(at)} by ${at.rule} at ${at.load}`,
        );
        const panels = rules.map((rule) => `workers by ${rule}`);
        const shown = results.filter(({ at }) => at.load === 1);
        const barsOf = (key: "drop_rate" | "invalid_rate") =>
          shown.map(({ at, system, result }) => ({
            group: workloadOf(at),
            series: system.name,
            y: result[key].mean,
            low: Math.max(0, result[key].mean - result[key].sd),
            high: result[key].mean + result[key].sd,
            panel: `workers by ${at.rule}`,
          }));
        const figureOf = (id: string, title: string, key: "drop_rate" | "invalid_rate") => ({
          kind: "bars" as const,
          id,
          title,
          caption: "At load 1. Vertical lines: one standard deviation over seeds.",
          panels,
          columns: 1,
          freeY: true,
          groups: [...new Set(shown.map(({ at }) => workloadOf(at)))],
          y: key === "drop_rate" ? LOST : IN_VAIN,
          series: SYSTEMS.map(({ name }) => ({ name })),
          rows: barsOf(key),
        });
        return {
          tables: [ratesTable("Twelve workloads", results, SYSTEMS)],
          figures: [
            figureOf("pard-fig8-drop", "Drop rate", "drop_rate"),
            figureOf("pard-fig8-invalid", "Invalid rate", "invalid_rate"),
          ],
          findings: [least, ...times],
          notes: [],
        };
      },
    };
  },
};
