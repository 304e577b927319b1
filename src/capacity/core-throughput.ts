/** What the scheduling core takes, in CPU time: the machine must do nothing else in this process. */
import { CoreRun } from "../sim/core-run.js";

/** @returns the least CPU time of three equal runs, s (the least disturbed one), and one of them, at its end. */
export function timeCoreRun(models: number, accelerators: number, requests: number): { cpuS: number; run: CoreRun } {
  let cpuS = Number.POSITIVE_INFINITY;
  let run = new CoreRun(models, accelerators, requests);
  for (let round = 0; round < 3; round++) {
    if (round > 0) run = new CoreRun(models, accelerators, requests);
    const before = process.cpuUsage();
    run.run();
    const used = process.cpuUsage(before);
    cpuS = Math.min(cpuS, (used.user + used.system) / 1e6);
  }
  return { cpuS, run };
}
