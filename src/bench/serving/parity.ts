/**
 * Live against simulated: the same arrivals through the server with emulated accelerators and through the simulator.
 *
 * For: how far a simulated answer can be trusted. Not for: speed. Each run's arrivals, as the live scheduler saw them, are
 * replayed in the simulator with the delays that the live plan used, so that sampling noise is common to both; the
 * recorded events are also replayed through the core alone, which must give the very same commands.
 */
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { type PeakGoodput, peakGoodputAsync } from "../../capacity/goodput.js";
import { staggeredCapacityRps } from "../../capacity/scenario-goodput.js";
import { SimulationPool } from "../../capacity/simulation-pool.js";
import type { ExpandedScenario } from "../../config/scenario/scenario.js";
import { decodeLog, type EventLog, replay } from "../../core/event-log.js";
import {
  LOG_ARRIVED,
  LOG_DISPATCH,
  LOG_END,
  LOG_FINISHED,
  LOG_NETWORK,
  LOG_QUEUE_ADDED,
  LOG_WIDTH,
} from "../../core/event-rows.js";
import { linearTable } from "../../core/latency/latency.js";
import { DROP_CANCELLED, DROPPED, FINISHED } from "../../core/outcome.js";
import type { NetworkDelays } from "../../core/policy.js";
import { durationUs } from "../../core/time.js";
import { median } from "../../measure/statistics.js";
import { decodeWindow, LIVE_DEFAULT, LIVE_DEFAULTS } from "../../policies/live.js";
import { groupPolicy } from "../../policies/registry.js";
import { simulateBadRates } from "../../sim/simulate.js";
import type { BenchResult } from "../bench-result.js";
import { serveProcess } from "./served-process.js";

export interface ParitySetting {
  readonly name: string;
  readonly accelerators: number;
  readonly models: readonly {
    readonly name: string;
    readonly alphaMs: number;
    readonly betaMs: number;
    readonly sloMs: number;
  }[];
}

/** SLOs differ a little so that a recorded queue tells which model it is. */
export const PARITY_SETTINGS: readonly ParitySetting[] = [
  { name: "one model, 4 accelerators", accelerators: 4, models: [{ name: "m1", alphaMs: 2, betaMs: 10, sloMs: 100 }] },
  {
    name: "6 models, 8 accelerators",
    accelerators: 8,
    models: Array.from({ length: 6 }, (_, index) => ({
      name: `m${index + 1}`,
      alphaMs: 4,
      betaMs: 20,
      sloMs: 150 + index,
    })),
  },
];

export interface ParityPoint {
  readonly rate_rps: number;
  readonly arrived: number;
  /** Of the worst model. */
  readonly live_bad: number;
  readonly simulated_bad: number;
  readonly live_bad_all: number;
  readonly simulated_bad_all: number;
  /** Dispatch to execution start beyond the planned start, µs: what a live accelerator adds. */
  readonly start_lag_us_p50: number;
  /** Execution end to the scheduler's knowledge of it, µs. */
  readonly finish_lag_us_p50: number;
  /** Receipt of the headers to the scheduler, µs. */
  readonly door_us_p50: number;
  /** What the live plan came to allow for before and after execution, µs; the simulation allows for the same. */
  readonly planned_control_us: number;
  readonly planned_response_us: number;
  readonly replay_identical: boolean;
  readonly replayed_commands: number;
  readonly void: boolean;
}

export interface ParityResult {
  readonly setting: string;
  readonly seconds: number;
  readonly simulated_peak_rps: number;
  readonly points: readonly ParityPoint[];
  /** Rate at which the worst model's bad rate crosses 1 %, by interpolation over the points; null when not crossed. */
  readonly live_crossing_rps: number | null;
  readonly simulated_crossing_rps: number | null;
}

export interface ParityOptions {
  readonly seconds: number;
  /** Multiples of the simulated peak. */
  readonly multiples?: readonly number[];
  readonly settings?: readonly ParitySetting[];
  readonly onProgress?: (text: string) => void;
}

/** Live and simulated bad rates agree when they differ by at most this many points, or this share of the simulated one. */
const AGREE_POINTS = 0.003;
const AGREE_SHARE = 0.25;
const SECONDS = 60;
const WARMUP_S = 3;
const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const COMMAND = path.join(ROOT, "bin", "rubato.js");

export async function benchParity(options: {
  readonly size: number;
  readonly seconds?: number;
  readonly onProgress: (text: string) => void;
}): Promise<BenchResult[]> {
  const seconds = options.seconds ?? Math.max(2, SECONDS * options.size);
  const results = await measureParity({ seconds, onProgress: options.onProgress });
  return results.flatMap((result) => [peakResult(result), ...result.points.map((point) => pointResult(result, point))]);
}

function peakResult(result: ParityResult): BenchResult {
  const { live_crossing_rps: live, simulated_crossing_rps: simulated } = result;
  const ratio = live === null || simulated === null ? Number.NaN : live / simulated;
  const rate = (rps: number | null): string => (rps === null ? "not crossed" : `${Math.round(rps)} r/s`);
  return {
    name: `peak goodput, ${result.setting}`,
    value: ratio,
    unit: "live / simulated",
    detail: `live ${rate(live)}, simulated ${rate(simulated)} (1 % bad, interpolated)`,
    digest: "",
    figures: { live_rps: live ?? Number.NaN, simulated_rps: simulated ?? Number.NaN },
  };
}

function pointResult(result: ParityResult, point: ParityPoint): BenchResult {
  const { live_bad: live, simulated_bad: simulated } = point;
  const agrees = Math.abs(live - simulated) <= Math.max(AGREE_POINTS, AGREE_SHARE * simulated);
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  return {
    name: `bad rate, ${result.setting}, ${point.rate_rps} r/s`,
    value: 100 * (live - simulated),
    unit: "points",
    detail: [
      `live ${percent(live)}, simulated ${percent(simulated)} of ${point.arrived}: ${agrees ? "agree" : "differ"}`,
      point.void ? "VOID: the generator could not keep up" : "",
      `replay ${point.replay_identical ? "identical" : "DIFFERS"} (${point.replayed_commands} commands)`,
      `plans allow ${point.planned_control_us} + ${point.planned_response_us} us`,
    ]
      .filter((part) => part !== "")
      .join("; "),
    digest: "",
    figures: { ...point, void: Number(point.void), replay_identical: Number(point.replay_identical) },
  };
}

export async function measureParity(options: ParityOptions): Promise<ParityResult[]> {
  const results: ParityResult[] = [];
  for (const setting of options.settings ?? PARITY_SETTINGS) results.push(await measureSetting(setting, options));
  return results;
}

async function measureSetting(setting: ParitySetting, options: ParityOptions): Promise<ParityResult> {
  const note = options.onProgress ?? (() => {});
  const folder = await mkdtemp(path.join(tmpdir(), "rubato-parity-"));
  try {
    await writeRepository(folder, setting);
    // The plan of the first run is not known before it ran: find the peak with its defaults first.
    const peak = await simulatedPeak(scenarioOf(setting, 1, { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 }));
    note(`${setting.name}: simulated peak ${Math.round(peak.peak_goodput_rps)} r/s`);
    const points: ParityPoint[] = [];
    for (const multiple of options.multiples ?? [0.9, 1, 1.1]) {
      const rateRps = Math.round(multiple * peak.peak_goodput_rps);
      const log = path.join(folder, `events-${multiple}.bin`);
      const isVoid = await serveUnderLoad(folder, setting, log, rateRps, options.seconds, Math.round(multiple * 1000));
      const point = comparePoint(setting, decodeLog(await readFile(log)), rateRps, isVoid);
      note(
        `${setting.name}: ${rateRps} r/s, bad ${(100 * point.live_bad).toFixed(2)} % live, ${(100 * point.simulated_bad).toFixed(2)} % simulated`,
      );
      points.push(point);
      await rm(log);
    }
    return {
      setting: setting.name,
      seconds: options.seconds,
      simulated_peak_rps: peak.peak_goodput_rps,
      points,
      live_crossing_rps: crossing(points, (point) => point.live_bad),
      simulated_crossing_rps: crossing(points, (point) => point.simulated_bad),
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function writeRepository(folder: string, setting: ParitySetting): Promise<void> {
  for (const model of setting.models) {
    const own = path.join(folder, "models", model.name);
    await mkdir(own, { recursive: true });
    const file = {
      platform: "rubato_emulated",
      slo_ms: model.sloMs,
      group: "emulated",
      batch_max: batchMax(model),
      emulated: { alpha_ms: model.alphaMs, beta_ms: model.betaMs },
      queue: { requests_max: 100_000 },
      inputs: { x: { datatype: "FP32", shape: [-1, 16], batch_axis: 0 } },
      outputs: { y: { datatype: "FP32", shape: [-1, 16], batch_axis: 0 } },
    };
    await writeFile(path.join(own, "rubato.yaml"), JSON.stringify(file));
  }
}

const batchMax = (model: ParitySetting["models"][number]): number =>
  Math.floor((model.sloMs - model.betaMs) / model.alphaMs);

/** @returns true when the generator could not keep up: the run counts for nothing. */
async function serveUnderLoad(
  folder: string,
  setting: ParitySetting,
  log: string,
  rateRps: number,
  seconds: number,
  seed: number,
): Promise<boolean> {
  const server = await serveProcess(folder, {
    models: "models",
    groups: { emulated: { kind: "emulated", count: setting.accelerators } },
    event_log: { file: log, max_bytes: 4e9 },
  });
  try {
    const targets = setting.models.map(({ name }) => `http://127.0.0.1:${server.httpPort}/v2/models/${name}`);
    // Without spinning: the generator shares two cores with what it measures, and arrivals count as the server saw them.
    const flags = { rate: rateRps, duration: seconds + WARMUP_S, warmup: WARMUP_S, seed };
    const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const args = [COMMAND, "load", ...targets, ...words, "--json", "--quiet", "--no-spin"];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    await new Promise((resolve) => child.once("close", resolve));
    return (JSON.parse(text) as { void?: boolean }).void === true;
  } finally {
    await server.stop();
  }
}

function scenarioOf(setting: ParitySetting, rateRps: number, network: NetworkDelays): ExpandedScenario {
  return {
    name: setting.name,
    file: setting.name,
    seed: 1,
    durationUs: durationUs(60e6),
    warmupUs: durationUs(WARMUP_S * 1e6),
    models: setting.models.map((model) => ({
      name: model.name,
      execUs: linearTable(model.alphaMs * 1000, model.betaMs * 1000, batchMax(model)),
      batchSizeMax: batchMax(model),
      sloUs: durationUs(model.sloMs * 1000),
      rateRps: rateRps / setting.models.length,
    })),
    accelerators: Array.from({ length: setting.accelerators }, () => ({ kind: "emulated", scale: 1, present: true })),
    network: network as ExpandedScenario["network"],
    arrivals: { kind: "renewal", gaps: "gamma", shape: 1, modulation: null, missing: [] },
    faults: [],
    policy: LIVE_DEFAULT,
    policyOptions: {
      idle_dispatch: LIVE_DEFAULTS.idle_dispatch,
      rate_window_s: LIVE_DEFAULTS.rate_window_s,
      timer_slack_us: LIVE_DEFAULTS.timer_slack_us,
    },
  };
}

async function simulatedPeak(scenario: ExpandedScenario): Promise<PeakGoodput> {
  const pool = new SimulationPool();
  try {
    const seeds = [1, 2, 3, 4, 5];
    return await peakGoodputAsync((rateRps, seed) => pool.badRates(scenario, rateRps, { seed }), {
      seeds,
      startRps: 0.85 * staggeredCapacityRps(scenario),
    });
  } finally {
    await pool.close();
  }
}

/** What a recorded run says, and what the simulator says of the same arrivals. */
function comparePoint(setting: ParitySetting, log: EventLog, rateRps: number, isVoid: boolean): ParityPoint {
  const { rows } = log;
  const modelOfKey = new Map<number, number>();
  const arrivals: { at: number; model: number }[] = [];
  const underWay = new Map<number, { at: number; model: number }>();
  const counted = setting.models.map(() => ({ arrived: 0, bad: 0 }));
  const planned = new Map<number, number>();
  const startLags: number[] = [];
  const finishLags: number[] = [];
  const doors: number[] = [];
  // The delays that the live plan settled on.
  let network: NetworkDelays = log.header.groups[0]!.network;
  let from = Number.NaN;
  let until = 0;
  for (let offset = 0; offset < rows.length; offset += LOG_WIDTH) {
    const [kind, at, , a, b, c, , e] = rows.subarray(offset, offset + LOG_WIDTH) as unknown as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    if (kind === LOG_QUEUE_ADDED) {
      modelOfKey.set(
        a,
        setting.models.findIndex((model) => model.sloMs * 1000 === b),
      );
    } else if (kind === LOG_ARRIVED) {
      if (Number.isNaN(from)) from = c;
      const arrival = { at: c, model: modelOfKey.get(a)! };
      arrivals.push(arrival);
      underWay.set(b, arrival);
      doors.push(at - c);
      until = Math.max(until, c);
    } else if (kind === LOG_NETWORK) network = { controlUs: a, dataUsPerRequest: b, responseUs: c };
    else if (kind === LOG_DISPATCH) planned.set(a, e);
    else if (kind === LOG_FINISHED) {
      startLags.push(b - planned.get(a)!);
      finishLags.push(at - c);
    } else if (kind === LOG_END) {
      const arrival = underWay.get(a)!;
      underWay.delete(a);
      if (arrival.at < from + WARMUP_S * 1e6 || (b === DROPPED && c === DROP_CANCELLED)) continue;
      counted[arrival.model]!.arrived++;
      if (b !== FINISHED) counted[arrival.model]!.bad++;
    }
  }
  arrivals.sort((x, y) => x.at - y.at);
  const scenario: ExpandedScenario = {
    ...scenarioOf(setting, rateRps, { ...network, responseUs: network.responseUs + middle(doors) }),
    durationUs: durationUs(until - from + 1),
    arrivals: {
      kind: "replay",
      atUs: Float64Array.from(arrivals, (arrival) => arrival.at - from),
      model: Int32Array.from(arrivals, (arrival) => arrival.model),
      app: null,
      appNames: [],
    },
  };
  const simulated = simulateBadRates(scenario, {});
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const live = counted.map(({ arrived, bad }) => (arrived === 0 ? 0 : bad / arrived));
  const arrivedAll = sum(counted.map(({ arrived }) => arrived));
  const replayed = replay(log, groupPolicy, (spec, numbers) => ({ ...spec, window: decodeWindow(numbers, 0) }));
  return {
    rate_rps: rateRps,
    arrived: arrivedAll,
    live_bad: Math.max(...live),
    simulated_bad: Math.max(...simulated.badRates),
    live_bad_all: sum(counted.map(({ bad }) => bad)) / arrivedAll,
    simulated_bad_all:
      sum(simulated.badRates.map((rate, model) => rate * simulated.arrived[model]!)) / sum(simulated.arrived),
    start_lag_us_p50: middle(startLags),
    finish_lag_us_p50: middle(finishLags),
    door_us_p50: middle(doors),
    planned_control_us: network.controlUs,
    planned_response_us: network.responseUs,
    replay_identical: replayed.difference === null,
    replayed_commands: replayed.commands,
    void: isVoid,
  };
}

/** 0: nothing was measured. */
const middle = (values: readonly number[]): number => (values.length === 0 ? 0 : median(values));

/** Log-linear between the two points around 1 %: bad rates grow about exponentially there. */
function crossing(points: readonly ParityPoint[], badOf: (point: ParityPoint) => number): number | null {
  const floor = 1e-5;
  for (let index = 0; index + 1 < points.length; index++) {
    const low = points[index]!;
    const high = points[index + 1]!;
    const [a, b] = [Math.max(floor, badOf(low)), Math.max(floor, badOf(high))];
    if (a <= 0.01 && b > 0.01)
      return low.rate_rps + ((high.rate_rps - low.rate_rps) * Math.log(0.01 / a)) / Math.log(b / a);
  }
  return null;
}
