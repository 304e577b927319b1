/** Options of a process pool, and which process hosts which accelerators. */
import { type AcceleratorGroupSpec, startCount } from "../../config/model.js";
import { durationUs } from "../../core/time.js";
import { type Clock, systemClock } from "../../wire/clock/clock.js";
import { PAYLOAD_BYTES_MAX } from "../../wire/frames.js";
import { ServingError } from "../../wire/serving-error.js";
import type { LogLevel } from "../../wire/worker-protocol.js";
import type { SeatOptions } from "./seats/worker-seat.js";
import type { WorkerSource } from "./seats/worker-source.js";

export interface PoolLog {
  readonly level: LogLevel;
  readonly message: string;
}

export interface ProcessPoolOptions {
  readonly log?: (entry: PoolLog) => void;
  /** Execution providers of onnx workers in order of preference; "cpu" is appended where it is missing. Default ["cpu"]. */
  readonly providers?: readonly string[];
  /** A batch that runs longer than hangFactor x its prediction + hangFloorMs is hung: its process is killed. Defaults 10, 1000. */
  readonly hangFactor?: number;
  readonly hangFloorMs?: number;
  /** Back-off of replacing a process: doubles from min to max while it keeps ending. Defaults 100, 10000. */
  readonly respawnMinMs?: number;
  readonly respawnMaxMs?: number;
  /** Until a process must have said that it is ready. Default 20000. */
  readonly startTimeoutMs?: number;
  /** Until a model must be loaded and warm on one worker. Default 120000. */
  readonly loadTimeoutMs?: number;
  /** Time spent on warm-up runs of growing batch sizes, per load and worker. 0 = none. Default 500. */
  readonly warmUpMs?: number;
  /** Largest batch of tensors, either way. Default 512 MiB. */
  readonly payloadBytesMax?: number;
  /** Resident memory at which a worker is killed and replaced; null = no limit. Default null. */
  readonly memoryBytesMax?: number | null;
  /** A model that ends this many workers inside ten minutes is refused for half a minute, then for longer. Default 2. */
  readonly breakerKillsMax?: number;
  /** Accelerators per emulated process, 1 to 64. Default 64. */
  readonly emulatedPerProcess?: number;
  /** Hardware threads of the host, for the warning about the budget. Default os.availableParallelism(). */
  readonly cores?: number;
  /** Default: the host's. */
  readonly clock?: Clock;
  /** Default: child processes. */
  readonly workers?: WorkerSource;
}

const EMULATED_PER_PROCESS_MAX = 64;
const SCALED_PROCESSES_MAX = 16;

/** @throws ServingError invalid-argument naming group, field, bound and value. */
export function checkGroups(groups: readonly AcceleratorGroupSpec[]): void {
  const fail = (group: AcceleratorGroupSpec, field: string, bound: string, value: unknown): never => {
    throw new ServingError("invalid-argument", `group '${group.name}': ${field} must be ${bound}; was ${value}`);
  };
  const names = new Set<string>();
  for (const group of groups) {
    if (names.has(group.name)) fail(group, "name", "unique", group.name);
    names.add(group.name);
    if (!(Number.isInteger(group.count) && group.count >= 1))
      fail(group, "count", "an integer of at least 1", group.count);
    if (group.scales.length !== group.count) fail(group, "scales", `${group.count} numbers`, group.scales.length);
    const start = startCount(group);
    if (!(Number.isInteger(start) && start >= 1 && start <= group.count))
      fail(group, "autoscale.start", `in [1, count (${group.count})]`, start);
    const scale = group.scales.find((value) => !(value > 0));
    if (scale !== undefined) fail(group, "scales", "above 0", scale);
    if (group.kind === "onnx" && !(group.threads >= 1)) fail(group, "threads", "at least 1", group.threads);
  }
}

/** Accelerators are numbered over all groups, in order. */
export function seatPlan(groups: readonly AcceleratorGroupSpec[], options: ProcessPoolOptions): SeatOptions[] {
  const perProcess = Math.min(EMULATED_PER_PROCESS_MAX, Math.max(1, options.emulatedPerProcess ?? 64));
  const seats: SeatOptions[] = [];
  let first = 0;
  for (const group of groups) {
    const step = group.kind === "onnx" ? 1 : Math.min(perProcess, perScaledProcess(group));
    for (let from = 0; from < group.count; from += step) {
      const scales = group.scales.slice(from, from + step);
      const active = Math.min(scales.length, Math.max(0, startCount(group) - from));
      seats.push(seatOptions(group, first, scales, active, options));
      first += scales.length;
    }
  }
  return seats;
}

/** Processes that come and go with the size of the group are the point of scaling it; but not one for each of a thousand. */
function perScaledProcess(group: AcceleratorGroupSpec): number {
  return group.autoscale?.act === true ? Math.ceil(group.count / SCALED_PROCESSES_MAX) : Number.POSITIVE_INFINITY;
}

function seatOptions(
  group: AcceleratorGroupSpec,
  first: number,
  scales: readonly number[],
  active: number,
  options: ProcessPoolOptions,
): SeatOptions {
  const wanted = options.providers ?? ["cpu"];
  return {
    group,
    first,
    scales,
    hello: {
      kind: "hello",
      worker: group.kind,
      scales,
      threads: group.threads,
      providers: wanted.includes("cpu") ? wanted : [...wanted, "cpu"],
      payloadBytesMax: options.payloadBytesMax ?? PAYLOAD_BYTES_MAX,
    },
    clock: options.clock ?? systemClock,
    hang: { factor: options.hangFactor ?? 10, floorUs: durationUs((options.hangFloorMs ?? 1000) * 1000) },
    respawnMinMs: options.respawnMinMs ?? 100,
    respawnMaxMs: options.respawnMaxMs ?? 10_000,
    startTimeoutMs: options.startTimeoutMs ?? 20_000,
    loadTimeoutMs: options.loadTimeoutMs ?? 120_000,
    warmUpMs: options.warmUpMs ?? 500,
    memoryBytesMax: options.memoryBytesMax ?? null,
    active,
    keepWarmMs: (group.autoscale?.keepWarmUs ?? 0) / 1000,
  };
}
