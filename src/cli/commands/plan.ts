/** `rubato plan`: which models share a sub-cluster. */
import { Command } from "commander";
import { ConfigError } from "../../config/config-error.js";
import { readPlanFile } from "../../config/scenario/plan-file.js";
import { CLUSTERS_MAX } from "../../config/scenario/scenario-schema.js";
import type { PlanProgress } from "../../planning/partition.js";
import { RunFailed } from "../exit.js";
import { integerWithin, numberWithin } from "../option-values.js";
import { type Output, writeJson } from "../output.js";
import { planDocument, renderPlan } from "../plan-view.js";
import { addRateOption, addSeedOption, loadWithOptions, refusePipelines } from "../scenario-options.js";
import { formatNumber } from "../table.js";

interface PlanCommandOptions {
  readonly json?: boolean;
  readonly timeLimit: number;
  readonly clusters?: number;
  readonly current?: string;
  readonly seed?: number;
  readonly rate?: number;
  readonly dataDir?: string;
}

export function planCommand(output: Output): Command {
  const command = new Command("plan")
    .summary("which models share a sub-cluster")
    .description(
      "Parts the models of a scenario into sub-clusters of even load and memory (Symphony Appendix A). Every accelerator " +
        "of a sub-cluster holds all its models. Bounds are in the scenario's `plan`; with --current, no more is moved " +
        "than its cost_max allows. A greedy placement is there at once; HiGHS and swaps improve it until the time limit.",
    )
    .argument("<scenario>", "scenario file (YAML or JSON)")
    .option("--json", "print the plan as one JSON document")
    .option(
      "--time-limit <seconds>",
      "seconds to search for; 0: the greedy placement alone",
      numberWithin({ min: 0, max: 86_400 }),
      10,
    )
    .option(
      "--clusters <n>",
      "number of sub-clusters, instead of the scenario's",
      integerWithin({ min: 1, max: CLUSTERS_MAX }),
    )
    .option("--current <file>", "where models are now: an earlier plan (--json), or a file with its `assignment`");
  return addSeedOption(addRateOption(command))
    .option("--data-dir <dir>", "folder of traces (default: $RUBATO_DATA)")
    .addHelpText(
      "after",
      `
Exit codes: 0 a plan, 1 none found in the time limit, 2 no plan can keep the bounds, or the input is wrong.

Examples:
  rubato plan scenarios/plan/zoo.yaml
  rubato plan scenarios/plan/zoo.yaml --clusters 6 --time-limit 2 --json
  rubato plan scenarios/plan/zoo.yaml --current plan.json`,
    )
    .action(async (file: string, options: PlanCommandOptions) => {
      const scenario = loadWithOptions(file, options);
      refusePipelines(scenario, "rubato plan");
      const current = options.current === undefined ? null : readPlanFile(options.current);
      const [{ scenarioProblem }, { partition }, { stream }] = await Promise.all([
        import("../../planning/scenario-problem.js"),
        import("../../planning/partition.js"),
        import("../../sim/random.js"),
      ]);
      const { problem, gone, homeless } = scenarioProblem(scenario, { clusters: options.clusters, current });
      if (gone.length > 0) output.note(`${gone.length} models of ${options.current} are not in the scenario`);
      if (homeless.length > 0) output.note(`${homeless.length} models are in sub-clusters that are no more`);
      const showProgress = output.interactive && !options.json;
      const onProgress = ({ stage, round, objective, elapsedMs }: PlanProgress): void => {
        const at = stage === "rounds" ? `round ${round}` : stage;
        output.note(`\r\x1b[K${at}: objective ${formatNumber(objective)} after ${(elapsedMs / 1000).toFixed(1)} s`);
      };
      const result = await partition(problem, {
        random: stream(scenario.seed, "plan"),
        timeLimitMs: options.timeLimit * 1000,
        ...(showProgress ? { onProgress } : {}),
      });
      if (showProgress) output.note("\r\x1b[K");
      switch (result.kind) {
        case "planned":
          if (options.json) writeJson(output, planDocument(scenario.name, problem, result));
          else output.result(renderPlan(scenario.name, problem, result));
          return;
        case "infeasible":
          if (options.json) {
            writeJson(output, { scenario: scenario.name, status: "infeasible", conflicts: result.conflicts });
          }
          throw new ConfigError(
            file,
            result.conflicts.map(({ message }) => ({ line: null, field: "plan", message: `infeasible: ${message}` })),
          );
        case "not-found": {
          const exceeded = result.violations
            .slice(0, 3)
            .map(({ constraint, cluster, value, bound }) => {
              const where = cluster === null ? "" : ` of sub-cluster ${cluster}`;
              return `${constraint}${where} ${formatNumber(value)} of ${formatNumber(bound)}`;
            })
            .join(", ");
          throw new RunFailed(
            `no plan within the bounds found in ${options.timeLimit} s, nor proof that none exists; the nearest exceeds ${exceeded}`,
          );
        }
      }
    });
}
