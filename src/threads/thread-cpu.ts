import { readFileSync } from "node:fs";

/** Processor time that the calling thread has used, µs; null where the system does not say. */
export function threadCpuUs(): number | null {
  try {
    return Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ")[0]) / 1000;
  } catch {
    return null;
  }
}
