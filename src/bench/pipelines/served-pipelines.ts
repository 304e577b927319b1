/** The OCR pipeline that ships, once for each contender, on one server; what it carries is measured on a server before that. */
import { symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { defaultClientTimeoutMs, LOAD_DEFAULTS, type LoadOptions } from "../../load/load-options.js";
import { runLoad } from "../../load/run-load.js";
import { runTogether } from "../../load/run-together.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import type { RunCounts } from "../default/paired-runs.js";
import { timesOf } from "../serving/measured-profile.js";
import { type Stoppable, serveFolder } from "../serving/served-folder.js";
import { type ServedProcess, serveProcess } from "../serving/served-process.js";
import { drawPages, LINES_MAX } from "./pages.js";
import { accountsBetween, accountsOf, type PipelineAccounts } from "./pipeline-accounts.js";
import {
  DEFAULT,
  groupConfig,
  ocrModels,
  type PipelineContender,
  pipelineOf,
  profileOf,
  writeOcr,
} from "./pipeline-contenders.js";

export interface ServePipelinesOptions {
  readonly contenders: readonly PipelineContender[];
  /** Of each contender. */
  readonly workers: number;
  /** The ramp ends with so many. */
  readonly pagesAtOnceMax: number;
  /** Distinct pages. */
  readonly pages: number;
  /** Of each model. */
  readonly profileS: number;
  readonly unloadedS: number;
  /** Of each step of the ramp. */
  readonly rampS: number;
  /** Of an earlier run; null: measured. */
  readonly known: PipelineCapacity | null;
  readonly note: (text: string) => void;
}

export interface PipelineCapacity {
  /** Pages/s that it answers when there are always more: the most of the ramp's steps. */
  readonly capacityRps: number;
  readonly sloMs: number;
}

export interface PipelineRunOptions {
  readonly rps: number;
  readonly seed: number;
  readonly warmupS: number;
  readonly countedS: number;
}

export interface PipelineRunCounts extends RunCounts {
  /** Of answered pages; null: none was. */
  readonly p99_ms: number | null;
  /** Of the whole run, its warm-up included. */
  readonly accounts: PipelineAccounts;
}

export interface ServedPipelines extends PipelineCapacity, Stoppable {
  /** Of recognition, at its widest. */
  readonly betaOverAlpha: number;
  /** Poisson arrivals: the same seed, the same moments and pages, whoever serves them. */
  run(contender: PipelineContender, run: PipelineRunOptions): Promise<PipelineRunCounts>;
}

const PAGE = fileURLToPath(new URL("../../../examples/page.png", import.meta.url));
const PAGES_SEED = 1;
/** Times the p99 of pages one after the other. */
const SLO_OVER_UNLOADED = 1.5;
/** Nobody misses it: what is dropped is not capacity. */
const SLACK_MS = 30_000;
const WARM_S = 2;
/** What ran on when its page had ended is counted when it is over: until two looks see the same. */
const SETTLE_MS = 200;
const LOOKS_MAX = 25;

export function servePipelines(options: ServePipelinesOptions): Promise<ServedPipelines> {
  return serveFolder("pipelines", async (folder, serve) => {
    // Its steps find their packages from where they lie.
    symlinkSync(packagesFolder(), path.join(folder, "node_modules"), "dir");
    const data = path.join(folder, "pages.jsonl");
    writeFileSync(data, await requestsOf(options.pages));
    const { capacity, profiles } = await measure(folder, data, options);
    const models = path.join(folder, "models");
    for (const contender of options.contenders) writeOcr(models, contender, capacity.sloMs, profiles);
    const groups = Object.fromEntries(
      options.contenders.map((each) => [each.name, groupConfig(each, options.workers)]),
    );
    const server = await serve({ models, groups });
    // The first pages of a worker, and of a step's thread, take longer than any other.
    for (const contender of options.contenders)
      await closed(loadOf(server, contender, data, SLACK_MS), 2, Math.min(WARM_S, options.rampS));
    const run: ServedPipelines["run"] = (contender, own) =>
      open(server, loadOf(server, contender, data, capacity.sloMs), contender, own);
    return { ...capacity, betaOverAlpha: timesOf(profiles["ocr-rec"]!, null).betaOverAlpha, run };
  });
}

/** That holds the packages of the pipeline's steps. */
function packagesFolder(): string {
  const sharp = createRequire(import.meta.url).resolve("sharp");
  const folder = `${path.sep}node_modules${path.sep}`;
  return sharp.slice(0, sharp.lastIndexOf(folder) + folder.length - 1);
}

/** A request to the pipeline a line. */
async function requestsOf(count: number): Promise<string> {
  const pages = await drawPages(PAGE, PAGES_SEED, count, LINES_MAX);
  const requests = pages.map(({ png }) => ({
    inputs: [{ name: "image", shape: [1], datatype: "BYTES", data: [{ b64: png.toString("base64") }] }],
  }));
  return requests.map((request) => JSON.stringify(request)).join("\n");
}

const loadOf = (
  { httpPort }: ServedProcess,
  contender: PipelineContender,
  data: string,
  judgedMs: number,
): Omit<LoadOptions, "mode"> => ({
  ...LOAD_DEFAULTS,
  targets: [`http://127.0.0.1:${httpPort}/v2/models/${pipelineOf(contender)}#slo=${judgedMs}`],
  data,
  encoding: "binary",
  clientTimeoutMs: defaultClientTimeoutMs(judgedMs),
  // Server and workers need the cores.
  isSpinning: false,
});

interface Measured {
  readonly capacity: PipelineCapacity;
  /** Files, by model. */
  readonly profiles: Readonly<Record<string, string>>;
}

/** Of the pipeline as it ships, alone on its server. */
async function measure(folder: string, data: string, options: ServePipelinesOptions): Promise<Measured> {
  const { known, note, profileS } = options;
  const models = path.join(folder, "measured");
  writeOcr(models, DEFAULT, SLACK_MS, null);
  note(`profiling ${ocrModels().join(", ")}, ${profileS} s each`);
  const groups = { [DEFAULT.name]: groupConfig(DEFAULT, options.workers) };
  const server = await serveProcess(folder, { models, groups, profile: { budget_s: profileS } }, true);
  try {
    const load = loadOf(server, DEFAULT, data, SLACK_MS);
    return {
      capacity: known ?? (await capacityOf(load, options)),
      profiles: Object.fromEntries(ocrModels().map((model) => [model, profileOf(models, DEFAULT, model)])),
    };
  } finally {
    await server.stop();
  }
}

const closed = (load: Omit<LoadOptions, "mode">, concurrency: number, durationS: number, warmupS = durationS / 5) =>
  runLoad({ ...load, mode: { kind: "closed", concurrency }, durationS, warmupS });

async function capacityOf(
  load: Omit<LoadOptions, "mode">,
  { unloadedS, rampS, pagesAtOnceMax, note }: ServePipelinesOptions,
): Promise<PipelineCapacity> {
  const unloaded = await closed(load, 1, unloadedS);
  const p99Ms = unloaded.report.latency_ms.p99 ?? unloadedS * 1000;
  const sloMs = Math.ceil(SLO_OVER_UNLOADED * p99Ms);
  let capacityRps = 0;
  for (let concurrency = 2; concurrency <= pagesAtOnceMax; concurrency *= 2) {
    const fromUs = monotonicNow();
    const { report } = await closed(load, concurrency, rampS, 0);
    // Pages that are under way at once end at once: what ended until the last was answered, over all of that time.
    const rps = (report.finished * 1e6) / (monotonicNow() - fromUs);
    capacityRps = Math.max(capacityRps, rps);
    note(`${concurrency} pages at a time: ${rps.toFixed(2)} pages/s`);
  }
  note(`unloaded p99 ${p99Ms.toFixed(0)} ms, SLO ${sloMs} ms, capacity ${capacityRps.toFixed(2)} pages/s`);
  return { capacityRps, sloMs };
}

async function open(
  server: ServedProcess,
  load: Omit<LoadOptions, "mode">,
  contender: PipelineContender,
  { rps, seed, warmupS, countedS }: PipelineRunOptions,
): Promise<PipelineRunCounts> {
  const before = await settledAccounts(server, contender);
  const [result] = await runTogether([
    {
      ...load,
      mode: { kind: "open", process: "poisson", shape: 1, steps: [{ fromS: 0, rps }] },
      durationS: warmupS + countedS,
      warmupS,
      seed,
    },
  ]);
  const { report, parts } = result!;
  const { arrived, finished, late, lagMs, voidReason } = parts[0]!;
  return {
    arrived,
    in_time: finished,
    late,
    lag_ms: lagMs,
    void_reason: voidReason,
    p99_ms: report.latency_ms.p99,
    accounts: accountsBetween(before, await settledAccounts(server, contender)),
  };
}

/** Pages are answered before the last of their parts are over. */
async function settledAccounts({ httpPort }: ServedProcess, contender: PipelineContender): Promise<PipelineAccounts> {
  const look = async (): Promise<PipelineAccounts> => {
    const answer = await fetch(`http://127.0.0.1:${httpPort}/metrics`);
    return accountsOf(await answer.text(), pipelineOf(contender));
  };
  let last = await look();
  for (let time = 0; time < LOOKS_MAX; time++) {
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    const next = await look();
    const isSettled = JSON.stringify(next) === JSON.stringify(last);
    last = next;
    if (isSettled) break;
  }
  return last;
}
