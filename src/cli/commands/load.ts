/** `rubato load`: open-loop load on any server of the Open Inference Protocol, and a report against an SLO. */
import { readFileSync } from "node:fs";
import { Command, Option } from "commander";
import type { Process, RateStep } from "../../load/arrivals.js";
import type { LoadOptions } from "../../load/load-options.js";
import { ServingError } from "../../wire/serving-error.js";
import { RunFailed } from "../exit.js";
import { integerWithin, numberWithin } from "../option-values.js";
import { type Output, writeJson } from "../output.js";

interface LoadFlags {
  readonly rate?: number;
  readonly process: Process;
  readonly shapeParameter: number;
  readonly trace?: string;
  readonly traceScale: number;
  readonly concurrency?: number;
  readonly duration?: number;
  readonly warmup?: number;
  readonly slo?: number;
  readonly seed: number;
  readonly data: string;
  readonly shape: readonly string[];
  readonly range: readonly string[];
  readonly lengths?: string;
  readonly app?: string;
  readonly parameter: readonly string[];
  readonly samples: number;
  readonly encoding: "auto" | "binary" | "json";
  readonly workers: number;
  readonly outstanding: number;
  readonly channels: number;
  readonly timeout?: number;
  readonly spin: boolean;
  readonly json?: boolean;
  readonly quiet?: boolean;
}

const positive = numberWithin({ above: 0, max: 1e9 });
const RATE_DEFAULT = 100;

export function loadCommand(output: Output): Command {
  const command = new Command("load")
    .summary("load on a server, and its latencies against an SLO")
    .description(
      "Sends requests by the clock (open loop), whatever becomes of the ones before, and counts latency from the moment " +
        "each was to be sent. A run in which the generator itself could not keep up is void and exits with 1, as does one in which all requests failed. A target " +
        "is http://HOST:PORT/v2/models/MODEL or grpc://HOST:PORT/MODEL on any server of the Open Inference Protocol; " +
        "#share=N&slo=MS behind it sets its part of the rate and its own SLO.",
    )
    .argument("<targets...>", "models to send to")
    .option("--rate <rps>", `requests per second over all targets (default ${RATE_DEFAULT})`, positive)
    .addOption(
      new Option("--process <name>", "gaps between requests")
        .choices(["poisson", "uniform", "gamma"])
        .default("poisson"),
    )
    .option(
      "--shape-parameter <k>",
      "shape of gamma gaps: below 1 is bursty",
      numberWithin({ min: 0.01, max: 1000 }),
      1,
    )
    .option("--trace <file>", "CSV of second,requests_per_second: the rate follows it; --rate scales it to that mean")
    .option("--trace-scale <factor>", "multiplies the rates of --trace", positive, 1)
    .option("--concurrency <n>", "closed loop instead: n requests at a time", integerWithin({ min: 1, max: 65_536 }))
    .option("--duration <s>", "length of the run, warm-up included (default 10, or the trace's)", positive)
    .option(
      "--warmup <s>",
      "first seconds that are not counted (default 1, at most a tenth)",
      numberWithin({ min: 0, max: 1e6 }),
    )
    .option("--slo <ms>", "sent as each request's deadline and held against its latency", positive)
    .option("--seed <n>", "seed of arrivals and data", integerWithin({ min: 0, max: 2 ** 32 - 1 }), 1)
    .option("--data <source>", "random, zero, or a file of requests (JSON lines of inference request bodies)", "random")
    .option("--shape <name:d,d,...>", "full shape of an input, batch axis included; may be repeated", append, [])
    .option(
      "--range <[name=]low:high>",
      "random integers of an input, or of all; may be repeated (default 0:999)",
      append,
      [],
    )
    .option("--app <name>", "request parameter app of all requests: whose they are")
    .option("--parameter <name=value>", "request parameter of all requests; may be repeated", append, [])
    .option("--lengths <spec>", "extents of variable axes: a number, uniform:LOW:HIGH, or a file with one a line")
    .option("--samples <n>", "distinct requests made beforehand", integerWithin({ min: 1, max: 100_000 }), 64)
    .addOption(
      new Option("--encoding <kind>", "tensors over HTTP; auto asks the server")
        .choices(["auto", "binary", "json"])
        .default("auto"),
    )
    .option("--workers <n>", "threads that send", integerWithin({ min: 1, max: 64 }), 1)
    .option(
      "--outstanding <n>",
      "requests under way at once, per target and thread; more voids the run",
      integerWithin({ min: 1, max: 1_000_000 }),
      4096,
    )
    .option("--channels <n>", "gRPC connections per target and thread", integerWithin({ min: 1, max: 1024 }), 4)
    .option("--timeout <ms>", "how long an answer is waited for (default 10 x SLO, at least 10000)", positive)
    .option("--no-spin", "sleep until send times: some 0.1 ms late, but leaves the processor to the server")
    .option("--json", "print the report as one JSON document")
    .option("--quiet", "no progress on stderr")
    .addHelpText(
      "after",
      `
Examples:
  rubato load http://127.0.0.1:8000/v2/models/emulated-resnet50-a100 --rate 500 --slo 20
  rubato load grpc://127.0.0.1:8001/embedder --rate 50 --slo 100 --lengths uniform:4:64
  rubato load http://127.0.0.1:8000/v2/models/elastic-vit --rate 20 --slo 500 --parameter task=digits --parameter utility=2
  rubato load http://H:8000/v2/models/a#share=3 http://H:8000/v2/models/b#slo=50 --trace rates.csv --json`,
    );
  return command.action(async (targets: string[], flags: LoadFlags) => {
    try {
      await load(output, targets, flags);
    } catch (error) {
      if (!(error instanceof ServingError)) throw error;
      if (error.code === "invalid-argument") command.error(`error: ${error.message}`, { exitCode: 2 });
      throw new RunFailed(error.message);
    }
  });
}

async function load(output: Output, targets: readonly string[], flags: LoadFlags): Promise<void> {
  const [{ runLoad }, { Histogram }, { loadReportText }] = await Promise.all([
    import("../../load/run-load.js"),
    import("../../measure/histogram.js"),
    import("../../load/load-text.js"),
  ]);
  const options = await optionsOf(targets, flags);
  const interrupt = new AbortController();
  const onSignal = () => interrupt.abort();
  process.once("SIGINT", onSignal);
  let seconds = 0;
  try {
    const { report, latencies } = await runLoad(options, {
      signal: interrupt.signal,
      ...(flags.json || flags.quiet
        ? {}
        : {
            onProgress: (progress) => {
              const recent = Histogram.fromJSON(progress.recent);
              const ms = (q: number) => ((recent.quantile(q) ?? 0) / 1000).toFixed(1);
              seconds++;
              output.note(
                `${seconds} s: sent ${progress.sent}, in time ${progress.finished}, bad ${progress.bad}, under way ` +
                  `${progress.outstanding}; last second p50 ${ms(0.5)} ms, p99 ${ms(0.99)} ms`,
              );
            },
          }),
    });
    if (flags.json) writeJson(output, report);
    else output.result(loadReportText(report, latencies));
    if (report.void) throw new RunFailed(`the run is void: ${report.void_reason}`);
    if (report.arrived > 0 && report.failed === report.arrived)
      throw new RunFailed(`all of ${report.arrived} requests failed`);
  } finally {
    process.removeListener("SIGINT", onSignal);
  }
}

async function optionsOf(targets: readonly string[], flags: LoadFlags): Promise<LoadOptions> {
  const [
    { meanRate, parseRateTrace },
    { parseParameter, parseRange, parseShape },
    { defaultClientTimeoutMs, LOAD_DEFAULTS },
  ] = await Promise.all([
    import("../../load/arrivals.js"),
    import("../../load/inputs/inputs.js"),
    import("../../load/load-options.js"),
  ]);
  if (flags.concurrency !== undefined && (flags.rate !== undefined || flags.trace !== undefined))
    throw new ServingError("invalid-argument", "--concurrency is a closed loop: it has no --rate and no --trace");
  let durationS = flags.duration ?? LOAD_DEFAULTS.durationS;
  let steps: readonly RateStep[] = [{ fromS: 0, rps: flags.rate ?? RATE_DEFAULT }];
  if (flags.trace !== undefined) {
    const trace = parseRateTrace(flags.trace, readTrace(flags.trace));
    durationS = flags.duration ?? trace.durationS;
    const mean = meanRate(trace.steps, durationS);
    const scale = flags.traceScale * (flags.rate === undefined || mean === 0 ? 1 : flags.rate / mean);
    steps = trace.steps.map(({ fromS, rps }) => ({ fromS, rps: rps * scale }));
  }
  const sloMs = flags.slo ?? null;
  return {
    targets,
    mode:
      flags.concurrency === undefined
        ? { kind: "open", process: flags.process, shape: flags.shapeParameter, steps }
        : { kind: "closed", concurrency: flags.concurrency },
    durationS,
    warmupS: flags.warmup ?? Math.min(LOAD_DEFAULTS.warmupS, durationS / 10),
    partS: null,
    sloMs,
    seed: flags.seed,
    data: flags.data,
    shapes: Object.fromEntries(flags.shape.map(parseShape)),
    ranges: Object.fromEntries(flags.range.map(parseRange)),
    lengths: flags.lengths ?? null,
    parameters: {
      ...Object.fromEntries(flags.parameter.map(parseParameter)),
      ...(flags.app === undefined ? {} : { app: flags.app }),
    },
    encoding: flags.encoding,
    samples: flags.samples,
    workers: flags.workers,
    outstandingMax: flags.outstanding,
    channels: flags.channels,
    clientTimeoutMs: flags.timeout ?? defaultClientTimeoutMs(sloMs),
    responseBytesMax: LOAD_DEFAULTS.responseBytesMax,
    isSpinning: flags.spin,
  };
}

function append(value: string, previous: readonly string[]): string[] {
  return [...previous, value];
}

function readTrace(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new ServingError("invalid-argument", `--trace ${file}: cannot be read: ${(error as Error).message}`);
  }
}
