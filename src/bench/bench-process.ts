/**
 * Entry of a benchmark's child process: a client, a bare echo, or the model without a server. One job at a time.
 * A process each, because whatever shares an event loop shares its delays.
 */
import { readModel } from "../serve/repository/model-reader.js";
import { OnnxModel } from "../worker/onnx/onnx-model.js";
import { GrpcProbe, HttpProbe } from "./scheduling/probe.js";
import { encodeProbe, type ProbeRequest } from "./scheduling/probe-messages.js";
import { quantile, runClosed, runOpen } from "./scheduling/probe-run.js";
import { createEcho, type EchoKind } from "./serving/echo.js";

export type BenchJob =
  | { readonly kind: "connect"; readonly request: ProbeRequest; readonly port: number }
  | { readonly kind: "closed"; readonly concurrency: number; readonly seconds: number }
  | { readonly kind: "open"; readonly rps: number; readonly seconds: number; readonly seed: number }
  | { readonly kind: "echo"; readonly echo: EchoKind }
  /** User and system time of the process so far, µs. */
  | { readonly kind: "cpu" }
  | { readonly kind: "direct"; readonly folder: string; readonly model: string; readonly runs: number };
export type BenchAnswer = { readonly value: unknown } | { readonly error: string };

let probe: HttpProbe | GrpcProbe | null = null;

async function perform(job: BenchJob): Promise<unknown> {
  switch (job.kind) {
    case "connect": {
      probe?.close();
      const message = encodeProbe(job.request);
      probe = job.request.protocol === "http" ? new HttpProbe(job.port, message) : new GrpcProbe(job.port, message);
      return null;
    }
    case "closed":
      return runClosed(probe!, job.concurrency, job.seconds);
    case "open":
      return runOpen(probe!, job.rps, job.seconds, job.seed);
    case "echo":
      return createEcho(job.echo);
    case "cpu": {
      const { user, system } = process.cpuUsage();
      return user + system;
    }
    case "direct":
      return direct(job.folder, job.model, job.runs);
  }
}

/** Quantiles of `session.run` alone, µs, after as many runs of warm-up. */
async function direct(folder: string, name: string, runs: number): Promise<{ p50Us: number; p99Us: number }> {
  const model = await OnnxModel.load(readModel(folder, name), { threads: 1, providers: ["cpu"], log: () => {} });
  await model.time(1, null, runs);
  const times = await model.time(1, null, runs);
  await model.release();
  return { p50Us: quantile(times, 0.5), p99Us: quantile(times, 0.99) };
}

process.on("message", (job: BenchJob) => {
  const send = (answer: BenchAnswer) => process.send?.(answer);
  perform(job).then(
    (value) => send({ value }),
    (error: unknown) => send({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
process.on("SIGINT", () => {});
