/** Results put together: what the terminal, the JSON document and the HTML file show. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Experiment, ExperimentPlan, GetResult, Presentation, Size } from "./experiment.js";
import { digestOf, RESULT_FORMAT } from "./point.js";

export interface ExperimentReport {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  readonly scope: string;
  /** That makes this experiment again. */
  readonly command: string;
  readonly points: number;
  /** Names of its results in points.jsonl. */
  readonly digests: readonly string[];
  readonly presentation: Presentation;
}

export interface ReproductionReport {
  readonly command: string;
  readonly version: string;
  readonly format: number;
  readonly size: Size;
  readonly experiments: readonly ExperimentReport[];
}

export interface PlannedExperiment {
  readonly experiment: Experiment;
  readonly plan: ExperimentPlan;
}

export function reportOf(
  planned: readonly PlannedExperiment[],
  get: GetResult,
  run: { readonly command: string; readonly version: string; readonly size: Size },
): ReproductionReport {
  const option = run.size === "default" ? "" : ` --size ${run.size}`;
  return {
    ...run,
    format: RESULT_FORMAT,
    experiments: planned.map(({ experiment: { name, title, about }, plan }) => {
      const digests = [...new Set(plan.points.map(digestOf))];
      return {
        name,
        title,
        about,
        scope: plan.scope,
        command: `rubato reproduce ${name}${option}`,
        points: digests.length,
        digests,
        presentation: plan.present(get),
      };
    }),
  };
}

export interface WrittenReport {
  readonly html: string;
  readonly json: string;
  readonly svgs: readonly string[];
}

/** Writes report.html, report.json and one SVG per figure into the folder. */
export async function writeReport(report: ReproductionReport, folder: string): Promise<WrittenReport> {
  const [{ renderFigure, standalone }, { renderHtml }] = await Promise.all([
    import("./chart.js"),
    import("./view/html-report.js"),
  ]);
  mkdirSync(folder, { recursive: true });
  const drawn = new Map<string, string>();
  const svgs: string[] = [];
  for (const { presentation } of report.experiments) {
    for (const figure of presentation.figures) {
      const svg = await renderFigure(figure);
      drawn.set(figure.id, svg);
      const file = path.join(folder, `${figure.id}.svg`);
      writeFileSync(file, standalone(svg));
      svgs.push(file);
    }
  }
  const html = path.join(folder, "report.html");
  const json = path.join(folder, "report.json");
  writeFileSync(html, renderHtml(report, drawn));
  writeFileSync(json, `${JSON.stringify(report, null, 1)}\n`);
  return { html, json, svgs };
}
