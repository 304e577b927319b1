/** A sending thread: prepares, says so, starts on command, reports progress every second and its result once. */
import { parentPort, workerData } from "node:worker_threads";
import type { TimeUs } from "../core/time.js";
import { ServingError } from "../wire/serving-error.js";
import { Generator, type GeneratorResult, type Progress } from "./generator.js";
import type { LoadOptions } from "./load-options.js";

export interface LoadWorkerData {
  readonly options: LoadOptions;
  readonly index: number;
}
export type ToLoadWorker = { readonly kind: "start"; readonly startAt: TimeUs } | { readonly kind: "stop" };
export type FromLoadWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "progress"; readonly progress: Progress }
  | { readonly kind: "result"; readonly result: GeneratorResult }
  | { readonly kind: "error"; readonly code: ServingError["code"]; readonly message: string };

async function main(): Promise<void> {
  const port = parentPort!;
  const post = (message: FromLoadWorker) => port.postMessage(message);
  try {
    const { options, index } = workerData as LoadWorkerData;
    const generator = new Generator(options, index, options.workers);
    await generator.prepare();
    const stop = new AbortController();
    const started = new Promise<TimeUs>((resolve) => {
      port.on("message", (message: ToLoadWorker) => {
        if (message.kind === "start") resolve(message.startAt);
        else stop.abort();
      });
    });
    post({ kind: "ready" });
    const startAt = await started;
    const timer = setInterval(() => post({ kind: "progress", progress: generator.progress() }), 1000);
    const result = await generator.run(startAt, stop.signal);
    clearInterval(timer);
    post({ kind: "result", result });
    await generator.close();
  } catch (error) {
    // The cause does not cross threads; what is not ours keeps its text in the message.
    const { code, message } =
      error instanceof ServingError ? error : new ServingError("internal", (error as Error).stack ?? String(error));
    post({ kind: "error", code, message });
  } finally {
    port.close();
  }
}

await main();
