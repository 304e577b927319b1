/** `rubato goodput`: the highest rate that a scenario's system serves in time. */
import { Command } from "commander";
import type { ScenarioGoodputOptions } from "../../capacity/scenario-goodput.js";
import { ConfigError } from "../../config/config-error.js";
import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { integerWithin } from "../option-values.js";
import { type Output, writeJson } from "../output.js";
import { publishedHints } from "../published-hints.js";
import { renderGoodput } from "../report-view.js";
import {
  addScenarioOptions,
  addSeedOption,
  loadWithOptions,
  refusePipelines,
  type ScenarioOptions,
} from "../scenario-options.js";
import { formatNumber, formatPercent } from "../table.js";

const SEED_SPACE = 2 ** 32;

interface GoodputOptions extends ScenarioOptions {
  readonly seeds: number;
  /** Undefined: beside the scenario's own policy, but not beside one that `--policy` asks for. */
  readonly baselines?: boolean;
  readonly bound?: boolean;
  readonly json?: boolean;
}

/** Between lines of progress where they cannot be drawn over each other. */
const PROGRESS_US = 5_000_000;

export function goodputCommand(output: Output): Command {
  const command = new Command("goodput")
    .summary("peak goodput of a scenario")
    .description(
      "Searches the highest offered rate at which every model's bad rate (late, dropped or failed) is at most 1 %, over " +
        "several seeds of common random numbers, with a 95 % interval. Eager scheduling and the best timeout of a sweep " +
        "stand beside it, unless --policy asks for one policy alone. The scenario's own rate does not matter, only how " +
        "models share it. A pipeline counts as one model: its bad rate is that of its requests, whichever module lost them.",
    )
    .argument("<scenario>", "scenario file (YAML or JSON)")
    .option("--seeds <n>", "number of seeds, from the first one up", integerWithin({ min: 2, max: 1000 }), 10);
  addScenarioOptions(addSeedOption(command));
  return command
    .option("--baselines", "measure eager and a tuned timeout, too (default without --policy)")
    .option("--no-baselines", "measure the one policy only (default with --policy)")
    .option("--bound", "compute what no policy exceeds on such arrivals, too (a minute for one model, more for many)")
    .option("--json", "print the report as one JSON document")
    .addHelpText(
      "after",
      `
Examples:
  rubato goodput scenarios/symphony/table2-resnet50.yaml
  rubato goodput scenarios/symphony/a100-mixed.yaml --policy eager --seeds 5
  rubato goodput scenarios/symphony/table2-resnet50.yaml --policy deferred+ --bound
  rubato goodput scenarios/pipelines/lv.yaml --policy pard --seeds 3
  rubato goodput scenarios/symphony/table2-resnet50.yaml --policy timeout --option timeout_fraction=0.4 --json`,
    )
    .action(async (file: string, options: GoodputOptions) => {
      const scenario = loadWithOptions(file, options);
      for (const hint of publishedHints(scenario, options)) output.note(`hint: ${hint}`);
      if (options.bound) refusePipelines(scenario, "--bound");
      if (scenario.arrivals.kind === "replay") {
        const message = "must be a process whose rate can change; was replay";
        throw new ConfigError(file, [{ line: null, field: "arrivals.process", message }]);
      }
      const [{ scenarioGoodput, baselineGoodputs, policiesOf }, { SimulationPool }, { boundsOf }] = await Promise.all([
        import("../../capacity/scenario-goodput.js"),
        import("../../capacity/simulation-pool.js"),
        import("../../capacity/bounds.js"),
      ]);
      let quietUntil = 0;
      const showProgress = output.interactive && !options.json;
      const search: Omit<ScenarioGoodputOptions, "choice"> = {
        seeds: Array.from({ length: options.seeds }, (_, i) => (scenario.seed + i) % SEED_SPACE),
        onProgress: ({ policy: name, rateRps, badRate }) => {
          if (options.json) return;
          const line = `${name}: ${formatNumber(rateRps)} requests/s, ${formatPercent(badRate)} bad`;
          if (showProgress) output.note(`\r\x1b[K${line}`);
          else if (monotonicNow() > quietUntil) {
            output.note(line);
            quietUntil = monotonicNow() + PROGRESS_US;
          }
        },
      };
      /** Pipelines that name no budget have that of who schedules them. */
      const besideOf = (own: ExpandedScenario): ExpandedScenario => {
        const { option: _, ...rest } = options;
        return own.pipelines === undefined ? own : loadWithOptions(file, { ...rest, policy: "eager" });
      };
      const pool = new SimulationPool();
      try {
        const own = await scenarioGoodput(scenario, pool, search);
        const wantsBaselines = options.baselines ?? options.policy === undefined;
        if (wantsBaselines && !options.json) {
          if (showProgress) output.note("\r\x1b[K");
          const peak = `${formatNumber(own.peak_goodput_rps)} requests/s (95 %: ${formatNumber(own.low_rps)} to ${formatNumber(own.high_rps)})`;
          output.note(
            `${policiesOf(scenario)}: peak ${peak}. Now eager and a sweep of timeouts beside it, which takes longer (--no-baselines: without)`,
          );
        }
        const beside = wantsBaselines ? { beside: await baselineGoodputs(besideOf(scenario), pool, search) } : {};
        // Bounds take one time for each size of a batch.
        const isBounded = scenario.models.every(({ elastic }) => elastic === undefined);
        const bounds = options.bound && isBounded ? { bounds: boundsOf(scenario, search.seeds) } : {};
        const report = { ...own, ...beside, ...bounds };
        if (showProgress) output.note("\r\x1b[K");
        if (options.json) writeJson(output, report);
        else output.result(renderGoodput(scenario.name, report));
      } finally {
        await pool.close();
      }
    });
}
