/** A program of examples/ as a user runs it. */
import { spawn } from "node:child_process";
import path from "node:path";
import { root } from "./direct-client.js";

export interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Not spawnSync: who asks it may serve it from this thread. */
export function runExample(program: string, ...flags: readonly string[]): Promise<Ended> {
  const child = spawn(process.execPath, [path.join(root, "examples", program), ...flags]);
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name].on("data", (chunk) => {
      said[name] += chunk;
    });
  return new Promise((resolve) => child.on("close", (status) => resolve({ status, ...said })));
}
