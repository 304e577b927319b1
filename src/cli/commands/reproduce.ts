/** `rubato reproduce`: a paper's evaluation, run again. */
import { availableParallelism } from "node:os";
import path from "node:path";
import { Command, Option } from "commander";
import { nearest } from "../../config/config-error.js";
import { PAPERS, SIZES, type Size } from "../../reproduce/experiment.js";
import { EXPERIMENTS, experimentsNamed } from "../../reproduce/experiments.js";
import { OTAS_EXPERIMENTS } from "../../reproduce/otas/experiments.js";
import { PARD_EXPERIMENTS } from "../../reproduce/pard/experiments.js";
import type { ReproductionReport } from "../../reproduce/report.js";
import type { Progress } from "../../reproduce/runner.js";
import { shortCell } from "../../reproduce/view/short-cell.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { interruptible, RunFailed } from "../exit.js";
import { integerWithin } from "../option-values.js";
import { type Output, writeJson } from "../output.js";
import { renderPairs, renderTable } from "../table.js";
import { packageVersion } from "../version.js";

interface ReproduceOptions {
  readonly size: Size;
  readonly out: string;
  readonly fresh?: boolean;
  readonly json?: boolean;
  readonly threads: number;
  readonly dataDir?: string;
}

/** Between lines of progress where they cannot be drawn over each other. */
const PROGRESS_S = 15;
const THREADS_MAX = 1024;
/** Those whose rates may be from files. */
const WITH_TRACES = [...PARD_EXPERIMENTS, ...OTAS_EXPERIMENTS];

export function reproduceCommand(output: Output): Command {
  return new Command("reproduce")
    .summary("the evaluations of the papers it builds on, run again")
    .description(
      "Runs experiments of a paper on the simulator and shows our numbers beside the paper's: a table here, report.html, " +
        "report.json and an SVG per figure in the output folder. Finished points are kept there; ending the command and " +
        "giving it again goes on where it was. Without an argument: the list.",
    )
    .argument("[names...]", "experiments, e.g. symphony/table2, or symphony for all of a paper")
    .addOption(new Option("--size <size>", "how much is run").choices([...SIZES]).default("default"))
    .option("--out <dir>", "output folder", path.join("out", "reproduce"))
    .option("--fresh", "run again what is in the output folder already")
    .option("--threads <n>", "points at once", integerWithin({ min: 1, max: THREADS_MAX }), availableParallelism())
    .option(
      "--data-dir <dir>",
      "pard, otas: folder of traces (second,requests_per_second) that take the place of generated rates; $RUBATO_DATA is not asked",
    )
    .option("--json", "print the report as one JSON document")
    .addHelpText(
      "after",
      `
Examples:
  rubato reproduce                                  what there is
  rubato reproduce symphony/table2 --size small     a first look, within a minute
  rubato reproduce symphony/fig7 --size full        all 7,770 cases of Table 1; hours, goes on after Ctrl-C
  rubato reproduce symphony/fig9 symphony/fig11     two figures into one report
  rubato reproduce orloj --out results              all of a paper into one report
  rubato reproduce pard/fig8 --data-dir traces      under rates from files`,
    )
    .action(async (given: readonly string[], options: ReproduceOptions, command: Command) => {
      if (given.length === 0) {
        if (options.json)
          writeJson(
            output,
            EXPERIMENTS.map(({ name, title, about }) => ({ name, title, about })),
          );
        else output.result(renderPairs(EXPERIMENTS.map(({ name, title }) => [name, title])));
        return;
      }
      const unknown = given.find((name) => experimentsNamed(name).length === 0);
      if (unknown !== undefined) {
        const names = EXPERIMENTS.map(({ name }) => name);
        const near = nearest(unknown, names);
        const hint = near === null ? "" : `; did you mean ${near}?`;
        command.error(
          `error: an experiment must be ${Object.keys(PAPERS).join(", ")} or one of ${names.join(", ")}; was '${unknown}'${hint}`,
          {
            exitCode: 2,
          },
        );
      }
      if (options.dataDir !== undefined && !given.flatMap(experimentsNamed).some((one) => WITH_TRACES.includes(one)))
        command.error(
          `error: --data-dir: only experiments of pard and otas read traces; was given with ${given.join(", ")}`,
          {
            exitCode: 2,
          },
        );
      const report = await interruptible(
        () => reproduce(given, options, output),
        () => output.note(`\nended; the same command goes on from what is finished, which is kept in ${options.out}`),
      );
      if (options.json) writeJson(output, report);
      else output.result(renderReport(report));
    });
}

async function reproduce(
  given: readonly string[],
  options: ReproduceOptions,
  output: Output,
): Promise<ReproductionReport> {
  const [{ runPoints }, { ResultStore }, { reportOf, writeReport }, { digestOf }, { runPoint }, { ThreadPool }] =
    await Promise.all([
      import("../../reproduce/runner.js"),
      import("../../reproduce/result-store.js"),
      import("../../reproduce/report.js"),
      import("../../reproduce/point.js"),
      import("../../reproduce/run-point.js"),
      import("../../capacity/thread-pool.js"),
    ]);
  // An experiment that several names stand for is run once.
  const chosen = [...new Set(given.flatMap(experimentsNamed))];
  const planned = chosen.map((experiment) => ({ experiment, plan: experiment.plan(options.size, options.dataDir) }));
  const plans = planned.map(({ plan }) => plan);
  const store = new ResultStore(options.out);
  const wanted = new Set(plans.flatMap(({ points }) => points.map(digestOf)));
  if (options.fresh === true) store.forget(wanted);
  const others = store.countOfOtherCode(wanted);
  if (others > 0)
    output.note(
      `${others} of the ${wanted.size} points were run by other code than this; --fresh runs all of them again`,
    );
  const pool = new ThreadPool(new URL("../../../dist/reproduce/point-worker.js", import.meta.url), options.threads);
  const nowS = (): number => monotonicNow() / 1e6;
  try {
    const get = await runPoints(plans, {
      store,
      execute: (point) => pool.submit(point),
      executeAlone: runPoint,
      width: options.threads,
      nowS,
      onProgress: progressLines(output, nowS),
    });
    if (output.interactive) output.note("\r\x1b[K");
    const size = options.size === "default" ? "" : ` --size ${options.size}`;
    const dataDir = options.dataDir === undefined ? "" : ` --data-dir ${options.dataDir}`;
    const command = `rubato reproduce ${given.join(" ")}${size}${dataDir}`;
    const report = reportOf(planned, get, { command, version: packageVersion(), size: options.size });
    const written = await writeReport(report, options.out);
    output.note(`written: ${written.html}, ${written.json}, ${written.svgs.length} SVG files beside them`);
    return report;
  } catch (error) {
    if (error instanceof Error && error.name === "Error")
      throw new RunFailed(`reproduce ${given.join(" ")}: ${error.message}`);
    throw error;
  } finally {
    await pool.close();
  }
}

function progressLines(output: Output, nowS: () => number): (progress: Progress) => void {
  let quietUntilS = 0;
  return ({ done, total, kept, etaS, last }) => {
    const eta = etaS === null ? "" : `, ${formatSeconds(etaS)} left`;
    const text = `${done} of ${total} points${kept > 0 ? ` (${kept} kept)` : ""}${eta}; ${last}`;
    if (output.interactive) output.note(`\r\x1b[K${text}`);
    else if (nowS() >= quietUntilS || done === total) {
      output.note(text);
      quietUntilS = nowS() + PROGRESS_S;
    }
  };
}

export function formatSeconds(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function renderReport(report: ReproductionReport): string {
  return report.experiments
    .map(({ title, scope, presentation: { tables, findings, notes } }) =>
      [
        `${title} (${scope})`,
        ...tables.map(
          (table) =>
            `${table.title}\n${renderTable(
              table.columns,
              table.rows.map((row) => row.map(shortCell)),
            )}`,
        ),
        ...(findings.length === 0
          ? []
          : [
              renderTable(
                [{ title: "" }, { title: "promised" }, { title: "found" }],
                findings.map(({ promise, found, holds }) => [holds ? "holds" : "MISSED", promise, shortCell(found)]),
              ),
            ]),
        ...notes,
      ].join("\n\n"),
    )
    .join("\n\n\n");
}
