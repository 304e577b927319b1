/** `rubato simulate`: one simulated run of a scenario. */
import { Command } from "commander";
import type { Report } from "../../measure/report.js";
import { RunFailed } from "../exit.js";
import { LineFile } from "../line-file.js";
import { type Output, writeJson } from "../output.js";
import { publishedHints } from "../published-hints.js";
import { renderReport } from "../report-view.js";
import {
  addRateOption,
  addScenarioOptions,
  addSeedOption,
  loadWithOptions,
  type ScenarioOptions,
} from "../scenario-options.js";

interface SimulateFlags extends ScenarioOptions {
  readonly json?: boolean;
  readonly eventLog?: string;
  readonly figures?: string;
}

export function simulateCommand(output: Output): Command {
  const command = new Command("simulate")
    .summary("one simulated run of a scenario")
    .description(
      "Runs a scenario once in virtual time and reports how its requests ended. Same scenario, same seed, same report.",
    )
    .argument("<scenario>", "scenario file (YAML or JSON)");
  addScenarioOptions(addSeedOption(addRateOption(command)));
  return command
    .option("--json", "print the report as one JSON document")
    .option("--figures <dir>", "folder for a figure of what batches took against what they were expected to, by model")
    .option("--event-log <file>", "write what happened, a line of JSON for each arrival, batch and end")
    .addHelpText(
      "after",
      `
Examples:
  rubato simulate scenarios/symphony/table2-resnet50.yaml
  rubato simulate scenarios/overload.yaml --policy eager --seed 7
  rubato simulate scenarios/overload.yaml --policy timeout --option timeout_ms=20 --json
  rubato simulate scenarios/pipelines/chain.yaml --event-log events.jsonl`,
    )
    .action(async (file: string, options: SimulateFlags) => {
      const scenario = loadWithOptions(file, options);
      for (const hint of publishedHints(scenario, options)) output.note(`hint: ${hint}`);
      const { simulate } = await import("../../sim/simulate.js");
      const log = options.eventLog === undefined ? null : new LineFile(options.eventLog, "--event-log");
      const report = simulate(scenario, log === null ? {} : { onEvent: (event) => log.write(JSON.stringify(event)) });
      log?.close();
      if (options.figures !== undefined) await drawPrediction(options.figures, scenario.name, report);
      if (options.json) writeJson(output, report);
      else output.result(renderReport(scenario.name, report));
    });
}

async function drawPrediction(folder: string, scenario: string, { per_model, policy }: Report): Promise<void> {
  const known = Object.entries(per_model).flatMap(([name, { prediction }]) =>
    prediction === undefined ? [] : [[name, prediction] as const],
  );
  if (known.length === 0)
    throw new RunFailed(
      `--figures: policy ${policy} knew no distributions of what batches take; there is nothing to draw`,
    );
  const { predictionFigure } = await import("../../reproduce/prediction-figure.js");
  const { writeFigure } = await import("../../reproduce/write-figure.js");
  await writeFigure(folder, predictionFigure(`${scenario}, ${policy}: expected and taken`, Object.fromEntries(known)));
}
