import { readFileSync } from "node:fs";
import { type DurationUs, durationUs } from "../../core/time.js";

/** Of /proc: USER_HZ, 100 on every Linux. */
const TICK_US = 10_000;
/** Fields of /proc/PID/stat behind the name: utime and stime are the 14th and 15th of all, the name the second. */
const UTIME = 11;

/** CPU time of all threads of a process so far; null where the system does not tell. */
export function cpuTimeUs(pid: number): DurationUs | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return durationUs((Number(fields[UTIME]) + Number(fields[UTIME + 1])) * TICK_US);
  } catch {
    return null;
  }
}
