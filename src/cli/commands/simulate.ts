/** `rubato simulate`: one simulated run of a scenario. */
import { Command } from "commander";
import { LineFile } from "../line-file.js";
import { type Output, writeJson } from "../output.js";
import { renderReport } from "../report-view.js";
import {
  addRateOption,
  addScenarioOptions,
  addSeedOption,
  loadWithOptions,
  type ScenarioOptions,
} from "../scenario-options.js";

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
    .action(async (file: string, options: ScenarioOptions & { json?: boolean; eventLog?: string }) => {
      const scenario = loadWithOptions(file, options);
      const { simulate } = await import("../../sim/simulate.js");
      const log = options.eventLog === undefined ? null : new LineFile(options.eventLog, "--event-log");
      const report = simulate(scenario, log === null ? {} : { onEvent: (event) => log.write(JSON.stringify(event)) });
      log?.close();
      if (options.json) writeJson(output, report);
      else output.result(renderReport(scenario.name, report));
    });
}
