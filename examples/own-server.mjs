// A server of an example's own, on a folder of its own: ready or said why not, and gone with its folder however the example ends.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

/** As long as a model may take to be loaded and measured. */
const READY_WITHIN_MS = 180_000;
/** A server that drains longer than that is killed. */
const DRAIN_MS = 10_000;
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/**
 * @param prepare given an empty folder, writes `rubato.config.yaml` and what that names into it; HTTP on port 0.
 * @param work given the server's address once all its models are served.
 * @throws Error with the server's own reason where a model is not served or the server ends.
 */
export async function withOwnServer(prepare, work, { readyWithinMs = READY_WITHIN_MS } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-example-"));
  let server;
  let ended = Promise.resolve();
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const stop = async () => {
    const killed = setTimeout(() => server?.kill("SIGKILL"), DRAIN_MS);
    server?.kill("SIGTERM");
    await ended;
    clearTimeout(killed);
    remove();
  };
  const handlers = Object.entries(SIGNALS).map(([signal, code]) => [
    signal,
    () => void stop().then(() => process.exit(code)),
  ]);
  for (const [signal, handler] of handlers) process.on(signal, handler);
  // Whatever else ends this process: nothing is waited for then.
  const onExit = () => {
    server?.kill("SIGKILL");
    remove();
  };
  process.once("exit", onExit);
  try {
    prepare(folder);
    server = spawn(
      process.execPath,
      [path.join(root, "bin", "rubato.js"), "serve", "--config", path.join(folder, "rubato.config.yaml")],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    ended = new Promise((resolve) => server.once("close", resolve));
    await work(await servedAddress(server, readyWithinMs));
  } finally {
    await stop();
    process.off("exit", onExit);
    for (const [signal, handler] of handlers) process.off(signal, handler);
  }
}

/** Where it listens, once its models are served. */
async function servedAddress(server, withinMs) {
  let said = "";
  let end = null;
  for (const stream of [server.stdout, server.stderr])
    stream.on("data", (data) => {
      said = (said + data).slice(-65_536);
      url ??= /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
    });
  let url;
  server.once("close", (code, signal) => {
    end = code ?? signal;
  });
  server.once("error", (error) => {
    end = error.message;
  });
  for (const giveUpAt = Date.now() + withinMs; Date.now() < giveUpAt; await new Promise((r) => setTimeout(r, 50))) {
    if (end !== null) throw new Error(`the server ended (${end}) before it was ready: ${said.trim()}`);
    if (url === undefined) continue;
    const answer = await fetch(`${url}/v2/health/ready`).catch(() => null);
    if (answer?.ok) return url;
    const refused = await unserved(url);
    if (refused.length > 0) throw new Error(refused.join("\n"));
  }
  throw new Error(`the server was not ready within ${withinMs / 1000} s: ${said.trim().split("\n").at(-1)}`);
}

/** Models that will not be served, each with the server's reason. */
async function unserved(url) {
  const answer = await fetch(`${url}/v2/repository/index`, { method: "POST" }).catch(() => null);
  const models = answer?.ok ? await answer.json() : [];
  return models
    .filter(({ state, reason }) => state === "UNAVAILABLE" && reason && reason !== "not loaded")
    .map(({ name, reason }) => `${name} is not served: ${reason}`);
}
