/**
 * The one real clock of the server: microseconds of the host's monotonic clock, comparable between the processes
 * and threads of a host. Wall-clock jumps change nothing.
 */
import { performance } from "node:perf_hooks";
import type { TimeUs } from "../../core/time.js";

/**
 * performance.now() counts from each thread's own origin; this offset makes it the host's monotonic clock.
 * Both clocks are read several times: a thread that was put aside between the two readings errs downwards, so the
 * largest difference is the true one.
 */
const offsetUs = ((): number => {
  let offset = Number.NEGATIVE_INFINITY;
  for (let reading = 0; reading < 16; reading++)
    offset = Math.max(offset, Number(process.hrtime.bigint()) / 1000 - performance.now() * 1000);
  return offset;
})();

/** Whole microseconds of the host's monotonic clock. */
export function monotonicNow(): TimeUs {
  return Math.floor(performance.now() * 1000 + offsetUs) as TimeUs;
}
