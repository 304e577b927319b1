import { readFileSync } from "node:fs";

/** Where Linux counts the processes that it ended because memory ran out: of our control group, and of the machine. */
const COUNTERS = ["/sys/fs/cgroup/memory.events", "/proc/vmstat"];

/** Processes ended for want of memory so far; 0 where the system does not tell. */
function endedForMemory(): number {
  let sum = 0;
  for (const file of COUNTERS)
    try {
      sum += Number(/^oom_kill (\d+)$/m.exec(readFileSync(file, "latin1"))?.[1] ?? 0);
    } catch {
      // Not this system, or not for us to read.
    }
  return sum;
}

/** Tells a worker that the system ended for want of memory, which its model may have used, from one that somebody ended. */
export class MemoryShortage {
  private readonly before = endedForMemory();

  /** A process of this machine was ended for it since this began. */
  hasRunOut(): boolean {
    return endedForMemory() > this.before;
  }
}
