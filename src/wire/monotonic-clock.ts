/**
 * The one real clock of the server: microseconds of the host's monotonic clock, comparable between the processes
 * and threads of a host. Wall-clock jumps change nothing.
 */
import { performance } from "node:perf_hooks";
import type { TimeUs } from "../core/time.js";

/** performance.now() counts from each thread's own origin; this offset makes it the host's monotonic clock. */
const offsetUs = Number(process.hrtime.bigint() / 1000n) - performance.now() * 1000;

/** Whole microseconds of the host's monotonic clock. */
export function monotonicNow(): TimeUs {
  return Math.floor(performance.now() * 1000 + offsetUs) as TimeUs;
}
