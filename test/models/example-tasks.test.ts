/** The examples that ask an elastic model and register a task, on the model that ships and a real server. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunningServer } from "../../src/serve/running-server.js";
import { serveIn } from "../support/running-server.js";
import { modelsDir } from "./direct-client.js";
import { runExample } from "./run-example.js";

const folder = mkdtempSync(path.join(tmpdir(), "rubato-tasks-"));
let running: RunningServer;
beforeAll(async () => {
  cpSync(path.join(modelsDir, "elastic-vit"), path.join(folder, "models", "elastic-vit"), { recursive: true });
  const file =
    "http: { port: 0 }\ngroups: { cpu: { kind: onnx, count: 1, threads: 1 } }\nprofile: { budget_s: 0.5 }\nlog: { level: silent }\n";
  running = await serveIn(folder, file);
}, 120_000);
afterAll(async () => {
  await running.stop(0);
  rmSync(folder, { recursive: true, force: true });
});

test("query.mjs prints the class that was found, the label, and the gamma that the server chose", async () => {
  const asked = await runExample("elastic/query.mjs", "--http", running.httpUrl, "--timeout-ms", "30000");
  expect(asked.stderr).toBe("");
  expect(asked.stdout).toMatch(/^digits image 7: class (\d) \(label \1\), gamma -?\d+, [\d.]+ ms\n$/);
  expect(asked.status).toBe(0);
}, 60_000);

test("register.mjs registers a task, waits for its profile, asks it and deletes it", async () => {
  const { status, stdout, stderr } = await runExample("elastic/register.mjs", "--http", running.httpUrl);
  expect(stderr).toBe("");
  const [registered, profiled, asked, deleted] = stdout.split("\n");
  expect(registered).toBe("reversed: registered");
  expect(profiled).toMatch(/^reversed: READY, right by gamma (-?\d+: [01](\.\d+)?(, |$)){8}/);
  // Its classes run backwards, so that a class that is named right came through the new head.
  expect(asked).toMatch(/^reversed: image 32 is "(\d)" \(label \1\), gamma -?\d+$/);
  expect(deleted).toBe("reversed: deleted");
  expect(status).toBe(0);
  const left = await fetch(`${running.httpUrl}/v2/repository/models/elastic-vit/tasks/reversed`);
  expect(left.status).toBe(404);
}, 300_000);
