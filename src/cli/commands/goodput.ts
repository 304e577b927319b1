/** `rubato goodput`: the highest rate that a scenario's system serves in time. */
import { Command } from "commander";
import { loadPeakGoodput } from "../experiments.js";
import { integerWithin } from "../option-values.js";
import { type Output, writeJson } from "../output.js";
import { renderPeakGoodput } from "../report-view.js";
import { addScenarioOptions, loadWithOptions, type ScenarioOptions } from "../scenario-options.js";
import { formatNumber, formatPercent } from "../table.js";

export function goodputCommand(output: Output): Command {
  const command = new Command("goodput")
    .summary("peak goodput of a scenario")
    .description(
      "Searches the highest offered rate at which every model's bad rate (late, dropped or failed) is at most 1 %, over " +
        "several seeds of common random numbers, with a 95 % interval. The scenario's own rate is only where it starts.",
    )
    .argument("<scenario>", "scenario file (YAML or JSON)")
    .option("--seeds <n>", "number of seeds, counted from the scenario's", integerWithin({ min: 1, max: 1000 }), 10);
  addScenarioOptions(command);
  return command
    .option("--json", "print the report as one JSON document")
    .addHelpText(
      "after",
      `
Examples:
  rubato goodput scenarios/symphony/table2-resnet50.yaml
  rubato goodput scenarios/symphony/a100-mixed.yaml --policy eager --seeds 5
  rubato goodput scenarios/symphony/table2-resnet50.yaml --policy timeout --option timeout_fraction=0.4 --json`,
    )
    .action(async (file: string, options: ScenarioOptions & { seeds: number; json?: boolean }) => {
      const scenario = loadWithOptions(file, options);
      const { peakGoodput } = await loadPeakGoodput();
      const { policy, policyOptions } = scenario;
      const showProgress = output.interactive && !options.json;
      const peak = await peakGoodput(scenario, {
        policy,
        policyOptions,
        seeds: options.seeds,
        onProgress: ({ rateRps, badRate }) => {
          if (showProgress) output.note(`\r\x1b[K${formatNumber(rateRps)} requests/s: ${formatPercent(badRate)} bad`);
        },
      });
      if (showProgress) output.note("\r\x1b[K");
      if (options.json) writeJson(output, peak);
      else output.result(renderPeakGoodput(scenario.name, peak));
    });
}
