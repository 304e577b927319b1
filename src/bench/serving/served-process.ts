/** `rubato serve` as a process of its own, as users run it: the benchmark's own work must not be in its event loop. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { setPriority } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { stringify } from "yaml";
import { ServingError } from "../../wire/serving-error.js";

const RUBATO = fileURLToPath(new URL("../../../bin/rubato.js", import.meta.url));
/** Profiling included. */
const START_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 10_000;
/** Of a server that gives way, and of its workers: a client that waits for a core behind them measures itself. */
const NICE = 5;
/** Kept of what it logs, for the message when it cannot start. */
const LOG_CHARS_MAX = 4000;

/** A benchmark that breaks, or is ended, must leave no server behind. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export interface ServedProcess {
  readonly httpPort: number;
  readonly grpcPort: number;
  /** Ends it and waits for that. */
  stop(): Promise<void>;
}

/**
 * @param folder the configuration file is written there. @param config as rubato.config.yaml; ports are free ones.
 * @param givesWay the client, in this process, comes first where all cores are taken.
 * @throws ServingError unavailable with what it logged when it does not get ready.
 */
export async function serveProcess(folder: string, config: object, givesWay = false): Promise<ServedProcess> {
  const file = path.join(folder, "rubato.config.yaml");
  const ports = { http: { port: 0 }, grpc: { port: 0 }, drain_s: 1 };
  writeFileSync(file, stringify({ ...ports, log: { level: "warn", pretty: false }, ...config }));
  const child = spawn(process.execPath, [RUBATO, "serve", "--config", file], { stdio: ["ignore", "pipe", "pipe"] });
  if (givesWay && child.pid !== undefined) setPriority(child.pid, NICE);
  const exited = once(child, "exit");
  running.add(child);
  exited.finally(() => running.delete(child));
  let said = "";
  let isReady = false;
  child.stderr.on("data", (text: Buffer) => {
    if (said.length < LOG_CHARS_MAX) said += text.toString();
  });
  const bound = await new Promise<[number, number]>((resolve, reject) => {
    const failed = (why: string) => {
      if (!isReady)
        reject(new ServingError("unavailable", `the server ${why}: ${said.slice(0, LOG_CHARS_MAX).trim()}`));
    };
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      failed(`was not ready within ${START_TIMEOUT_MS} ms`);
    }, START_TIMEOUT_MS);
    exited.then(() => failed("ended before it was ready")).finally(() => clearTimeout(timer));
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      if (isReady) return;
      text += chunk.toString();
      const match = /ready: http:\/\/[^\s]*:(\d+)\s+gRPC [^\s]*:(\d+)/.exec(text);
      if (match === null) return;
      clearTimeout(timer);
      isReady = true;
      resolve([Number(match[1]), Number(match[2])]);
    });
  });
  return {
    httpPort: bound[0],
    grpcPort: bound[1],
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
      child.kill("SIGINT");
      await exited;
      clearTimeout(timer);
    },
  };
}
