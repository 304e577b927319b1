import type { Parameters } from "../wire/infer-parameters.js";
import { ServingError } from "../wire/serving-error.js";
import { PROCESSES, type Process, type RateStep } from "./arrivals.js";

/** Everything that fixes a run of load; plain data, so that it crosses threads. */
export interface LoadOptions {
  /** At least one; see target.ts for the form. */
  readonly targets: readonly string[];
  readonly mode: OpenLoop | ClosedLoop;
  /** Warm-up included. */
  readonly durationS: number;
  /** Requests of the first so many seconds are sent but not counted. */
  readonly warmupS: number;
  /** The counted time is told apart in parts of so many seconds, too; null: it is not. */
  readonly partS: number | null;
  /** Sent as the request's deadline and held against its latency; null: neither. A target's own comes first. */
  readonly sloMs: number | null;
  readonly seed: number;
  /** "random", "zero" or a file of requests (JSON lines). */
  readonly data: string;
  /** Shapes by input name. */
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  /** Lowest and highest random integer by input name; "" for all others. */
  readonly ranges: Readonly<Record<string, readonly [number, number]>>;
  /** `uniform:LOW:HIGH`, a number or a file; null: none. */
  readonly lengths: string | null;
  /** Request parameters of all requests, in place of what a file of requests says. */
  readonly parameters: Parameters;
  readonly encoding: "auto" | "binary" | "json";
  /** Distinct request bodies per target. */
  readonly samples: number;
  /** Threads that send. */
  readonly workers: number;
  /** Requests under way at once, per target and thread; one more voids the run. */
  readonly outstandingMax: number;
  /** gRPC connections per target and thread. */
  readonly channels: number;
  readonly clientTimeoutMs: number;
  readonly responseBytesMax: number;
  /** Wait for near send times by spinning: exact to microseconds, keeps a core busy. */
  readonly isSpinning: boolean;
}

/** By the clock: requests are sent when they are due, whatever became of the ones before. */
export interface OpenLoop {
  readonly kind: "open";
  readonly process: Process;
  readonly shape: number;
  readonly steps: readonly RateStep[];
}

/** So many at a time, each followed by the next when it is answered: measures capacity, not latency under load. */
export interface ClosedLoop {
  readonly kind: "closed";
  readonly concurrency: number;
}

export const LOAD_DEFAULTS = {
  durationS: 10,
  warmupS: 1,
  partS: null,
  sloMs: null,
  seed: 1,
  data: "random",
  shapes: {},
  ranges: {},
  lengths: null,
  parameters: {},
  encoding: "auto",
  samples: 64,
  workers: 1,
  outstandingMax: 4096,
  channels: 4,
  responseBytesMax: 64 * 2 ** 20,
  isSpinning: true,
} as const satisfies Partial<LoadOptions>;

/** Ten times the SLO, at least 10 s: late answers are to be seen, lost ones not waited for. */
export const defaultClientTimeoutMs = (sloMs: number | null): number => Math.max(10_000, 10 * (sloMs ?? 3000));

/** @throws ServingError invalid-argument naming the option, its bound and its value. */
export function checkLoadOptions(options: LoadOptions): void {
  const within = (name: string, value: number, low: number, high: number, isWhole = false) => {
    if (!(value >= low && value <= high) || (isWhole && !Number.isInteger(value))) {
      const kind = isWhole ? "a whole number" : "a number";
      throw new ServingError("invalid-argument", `${name} must be ${kind} in [${low}, ${high}]; was ${value}`);
    }
  };
  if (options.targets.length === 0) throw new ServingError("invalid-argument", "at least one target is needed");
  within("duration (s)", options.durationS, 0.1, 7 * 86_400);
  if (!(options.warmupS >= 0 && options.warmupS < options.durationS))
    throw new ServingError(
      "invalid-argument",
      `warmup (s) must be in [0, duration ${options.durationS}); was ${options.warmupS}`,
    );
  if (options.sloMs !== null) within("slo (ms)", options.sloMs, 0.001, 86_400_000);
  within("seed", options.seed, 0, 2 ** 32 - 1, true);
  within("samples", options.samples, 1, 100_000, true);
  within("workers", options.workers, 1, 64, true);
  within("outstanding", options.outstandingMax, 1, 1_000_000, true);
  within("channels", options.channels, 1, 1024, true);
  within("client timeout (ms)", options.clientTimeoutMs, 1, 86_400_000);
  within("response bytes", options.responseBytesMax, 1, 2 ** 31 - 1, true);
  if (options.mode.kind === "closed") {
    within("concurrency", options.mode.concurrency, 1, 65_536, true);
    if (options.mode.concurrency < options.workers)
      throw new ServingError(
        "invalid-argument",
        `concurrency must be >= workers ${options.workers}; was ${options.mode.concurrency}`,
      );
    return;
  }
  if (!PROCESSES.includes(options.mode.process))
    throw new ServingError(
      "invalid-argument",
      `process must be one of ${PROCESSES.join(", ")}; was '${options.mode.process}'`,
    );
  within("gamma shape", options.mode.shape, 0.01, 1000);
  if (options.mode.steps.length === 0) throw new ServingError("invalid-argument", "a rate or a trace is needed");
  for (const { rps } of options.mode.steps) within("rate (r/s)", rps, 0, 10_000_000);
  if (!options.mode.steps.some(({ rps, fromS }) => rps > 0 && fromS < options.durationS))
    throw new ServingError("invalid-argument", "rate (r/s) must be > 0 somewhere in the run; was 0");
}
