/** `rubato bench`: what it costs, in numbers that can be compared. */
import { availableParallelism, cpus } from "node:os";
import path from "node:path";
import { Command, Option } from "commander";
import type { BenchResult } from "../../bench/bench-result.js";
import { BENCHES, type Bench } from "../../bench/benches.js";
import { dataDirOf } from "../../config/scenario/traces.js";
import { ServingError } from "../../wire/serving-error.js";
import { interruptible, RunFailed } from "../exit.js";
import { integerWithin, numbersWithin, numberWithin } from "../option-values.js";
import { type Output, writeJson } from "../output.js";
import { formatNumber, renderPairs, renderTable } from "../table.js";

interface BenchFlags {
  readonly size: number;
  readonly seconds?: number;
  readonly dataDir?: string;
  readonly figures?: string;
  readonly casesSeed?: number;
  readonly simulated?: boolean;
  readonly live?: boolean;
  readonly spread?: number;
  readonly drift?: boolean;
  readonly profiler?: boolean;
  readonly loads?: readonly number[];
  readonly gammas?: readonly number[];
  readonly out: string;
  readonly json?: boolean;
}

export function benchCommand(output: Output): Command {
  const names = BENCHES.map(({ name }) => name);
  const quick = BENCHES.filter(({ isQuick }) => isQuick).map(({ name }) => name);
  const command = new Command("bench")
    .summary("benchmarks of the core, the simulator and the server")
    .description(
      "Runs benchmarks for comparing versions on one machine that does nothing else. Where the answer is the same every " +
        `time, a digest of it is printed: who makes it faster must not change it. Without a name: ${quick.join(" and ")}.`,
    )
    .argument("[names...]", names.join(", "))
    .option("--size <factor>", "work relative to the full size", numberWithin({ above: 0, max: 100 }), 1)
    .option("--seconds <s>", "length of each timed run (overhead, embedder)", numberWithin({ min: 0.1, max: 3600 }))
    .option(
      "--data-dir <dir>",
      "folder of data: embedder takes sentence lengths from it, elastic its bursts (default: RUBATO_DATA)",
    )
    .option(
      "--figures <dir>",
      "folder that figures are written to (scheduler, distribution, default, apps, pipelines, elastic)",
    )
    .option(
      "--out <dir>",
      "folder that finished cases are kept in; given again, default, apps, pipelines and elastic go on where they were, unless the code is another",
      path.join("out", "bench"),
    )
    .option(
      "--cases-seed <n>",
      "plus: only the 20 cases of one model that this seed draws (its own are those of seed 1); default: the simulated settings",
      integerWithin({ min: 1, max: 1e9 }),
    )
    .addOption(
      new Option("--simulated", "default: only its simulated settings (--cases-seed draws others)").conflicts("live"),
    )
    .addOption(
      new Option(
        "--spread <part>",
        "default: in its simulated settings requests' times deviate by this part of their mean, and batches take what their longest does",
      )
        .argParser(numberWithin({ above: 0, max: 2 }))
        .conflicts("live"),
    )
    .option("--live", "default: only its live grid")
    .option("--drift", "apps: one app's requests become twice as long, in place of the comparison")
    .option("--profiler", "apps: p99 at 70 % load with the online profiler and without, in place of the comparison")
    .option(
      "--loads <list>",
      "apps, pipelines, elastic: offered loads, relative to the capacity",
      numbersWithin({ above: 0, max: 10 }),
    )
    .option(
      "--gammas <list>",
      "elastic: gammas that are fixed in comparison (default all of the model's)",
      numbersWithin({ min: -1000, max: 1000 }),
    )
    .option("--json", "print the results as one JSON document")
    .addHelpText(
      "after",
      `
${renderPairs(BENCHES.map(({ name, isFor, takes }) => [name, `${isFor} (${takes})`]))}

Examples:
  rubato bench                         the quick ones
  rubato bench overhead --seconds 20   what being served adds, longer runs
  rubato bench core --size 0.1 --json  a tenth of the work, for machines`,
    );
  return command.action(async (given: readonly string[], flags: BenchFlags) => {
    const unknown = given.find((name) => !names.includes(name));
    if (unknown !== undefined)
      command.error(`error: a benchmark must be one of ${names.join(", ")}; was '${unknown}'`, { exitCode: 2 });
    const chosen = BENCHES.filter(({ name, isQuick }) => (given.length === 0 ? isQuick : given.includes(name)));
    const results: BenchResult[] = [];
    for (const bench of chosen) {
      output.note(introduction(bench));
      results.push(...(await interruptible(() => run(bench, flags, output))));
    }
    if (flags.json) writeJson(output, { machine: machine(), size: flags.size, results });
    else output.result(`${renderResults(results)}\n\n${machineText()}`);
    const others = BENCHES.filter((bench) => !chosen.includes(bench));
    if (given.length === 0)
      output.note(`Also: ${others.map(({ name, takes }) => `rubato bench ${name} (${takes})`).join(", ")}.`);
  });
}

async function run(bench: Bench, flags: BenchFlags, output: Output): Promise<readonly BenchResult[]> {
  const onProgress = (text: string): void => output.note(output.interactive ? `\r\x1b[K${bench.name}: ${text}` : text);
  try {
    const dataDir = dataDirOf(flags.dataDir, process.env);
    const figuresDir = flags.figures ?? null;
    const { size, seconds, casesSeed, spread, out: outDir, drift = false, profiler = false, loads, gammas } = flags;
    const part = flags.simulated ? "simulated" : flags.live ? "live" : undefined;
    return await bench.run({
      size,
      seconds,
      dataDir,
      figuresDir,
      casesSeed,
      spread,
      part,
      outDir,
      drift,
      profiler,
      loads,
      gammas,
      onProgress,
    });
  } catch (error) {
    if (error instanceof ServingError) throw new RunFailed(`bench ${bench.name}: ${error.message}`);
    throw error;
  } finally {
    if (output.interactive) output.note("\r\x1b[K");
  }
}

const introduction = ({ name, isFor, isNotFor }: Bench): string => `${name}: for ${isFor}. Not for ${isNotFor}.`;

function renderResults(results: readonly BenchResult[]): string {
  return renderTable(
    [
      { title: "benchmark" },
      { title: "value", align: "right" },
      { title: "unit" },
      { title: "detail" },
      { title: "digest" },
    ],
    results.map(({ name, value, unit, detail, digest }) => [name, formatNumber(value), unit, detail, digest]),
  );
}

const machine = () => ({ cpu: cpus()[0]?.model ?? "unknown", cpus: availableParallelism(), node: process.version });

function machineText(): string {
  const { cpu, cpus: count, node } = machine();
  return `On ${count} CPUs (${cpu}), Node ${node}.`;
}
