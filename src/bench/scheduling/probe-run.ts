/** One measurement through a probe: closed loop for what a server can do at most, open loop for latency under a load. */
import { performance } from "node:perf_hooks";
import type { TimeUs } from "../../core/time.js";
import { stream } from "../../sim/random.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { PreciseTimer } from "../../wire/clock/precise-timer.js";
import type { Probe } from "./probe.js";

export interface ProbeResult {
  /** Requests answered well: what the rest is about. */
  readonly count: number;
  /** Requests refused or broken. */
  readonly failed: number;
  /** Answers per second. */
  readonly rps: number;
  /** Latencies from the actual sending to the last byte, µs. */
  readonly p10Us: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly p999Us: number;
  /** p99 of actual minus intended sending, µs; 0 in a closed loop. Not in the latencies: it is the client's own. */
  readonly lagUs: number;
}

/** `concurrency` at a time, each followed at once by the next. @throws the first error of a request. */
export async function runClosed(probe: Probe, concurrency: number, seconds: number): Promise<ProbeResult> {
  const latencies: number[] = [];
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  await new Promise<void>((resolve, reject) => {
    let chains = concurrency;
    const next = (): void => {
      const sentMs = performance.now();
      if (sentMs >= endMs) {
        chains--;
        if (chains === 0) resolve();
        return;
      }
      probe.ask((error) => {
        if (error !== null) {
          reject(error);
          return;
        }
        latencies.push((performance.now() - sentMs) * 1000);
        next();
      });
    };
    for (let chain = 0; chain < concurrency; chain++) next();
  });
  return resultOf(latencies, [0], (performance.now() - startMs) / 1000);
}

/**
 * Poisson arrivals by the clock, whatever became of the requests before. A server at its limit refuses some: counted.
 * @throws the first error of a request when none was answered well.
 */
export async function runOpen(probe: Probe, rps: number, seconds: number, seed: number): Promise<ProbeResult> {
  const random = stream(seed, "bench/arrivals");
  const latencies: number[] = [];
  const lags: number[] = [];
  let underWay = 0;
  let failed = 0;
  let firstError: Error | null = null;
  let isOver = false;
  let dueAt = 0;
  let timer: PreciseTimer | undefined;
  const startMs = performance.now();
  try {
    await new Promise<void>((resolve, reject) => {
      const answered = (sentMs: number, error: Error | null): void => {
        if (error === null) latencies.push((performance.now() - sentMs) * 1000);
        else {
          failed++;
          firstError ??= error;
        }
        underWay--;
        if (isOver && underWay === 0) resolve();
      };
      const endAt = monotonicNow() + seconds * 1e6;
      const gap = (): number => (-Math.log(1 - random()) * 1e6) / rps;
      const send = (): void => {
        for (let now: number = monotonicNow(); dueAt <= now; now = monotonicNow()) {
          if (dueAt > endAt) {
            isOver = true;
            if (underWay === 0) resolve();
            return;
          }
          lags.push(now - dueAt);
          underWay++;
          const sentMs = performance.now();
          probe.ask((error) => answered(sentMs, error));
          dueAt += gap();
        }
        timer!.set(Math.ceil(dueAt) as TimeUs);
      };
      timer = new PreciseTimer(send);
      timer.started.then(() => {
        dueAt = monotonicNow() + gap();
        timer!.set(Math.ceil(dueAt) as TimeUs);
      }, reject);
    });
  } finally {
    await timer?.close();
  }
  if (firstError !== null && latencies.length === 0) throw firstError;
  return resultOf(latencies, lags, (performance.now() - startMs) / 1000, failed);
}

function resultOf(latencies: number[], lags: number[], seconds: number, failed = 0): ProbeResult {
  return {
    count: latencies.length,
    failed,
    rps: latencies.length / seconds,
    p10Us: quantile(latencies, 0.1),
    p50Us: quantile(latencies, 0.5),
    p99Us: quantile(latencies, 0.99),
    p999Us: quantile(latencies, 0.999),
    lagUs: quantile(lags, 0.99),
  };
}

/** Nearest rank; sorts in place; NaN of nothing. */
export function quantile(values: number[], q: number): number {
  if (values.length === 0) return Number.NaN;
  values.sort((a, b) => a - b);
  return values[Math.max(0, Math.ceil(q * values.length) - 1)]!;
}
