/** A thread that runs points, one at a time. */
import { parentPort } from "node:worker_threads";
import type { ThreadAnswer } from "../capacity/thread-pool.js";
import type { Point } from "./point.js";
import { runPoint } from "./run-point.js";

parentPort?.on("message", async ({ id, job }: { id: number; job: Point }) => {
  let answer: ThreadAnswer;
  try {
    answer = { id, result: await runPoint(job) };
  } catch (error) {
    answer = { id, error: error instanceof Error ? error.message : String(error) };
  }
  parentPort!.postMessage(answer);
});
