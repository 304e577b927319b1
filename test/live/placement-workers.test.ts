/** Placement on real worker processes over HTTP: a server from its configuration file, load that shifts, models that move. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { serverConfigFrom } from "../../src/config/server/server.js";
import { parseSource } from "../../src/config/source.js";
import { type RunningServer, runServer } from "../../src/serve/running-server.js";

const NAMES = ["a", "b", "c", "d"] as const;
const CONFIG = `
http: { port: 0 }
grpc: { enabled: false }
groups:
  e0: { kind: emulated, count: 2 }
  e1: { kind: emulated, count: 2 }
placement: { groups: [e0, e1], epoch_s: 1, moves_max: 1, load_imbalance_max: 0.3, time_limit_s: 0.2 }
log: { level: silent }
`;

let folder: string;
let running: RunningServer;
const agent = new Agent({ connections: 64 });

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-placement-"));
  for (const name of NAMES) {
    mkdirSync(path.join(folder, "models", name), { recursive: true });
    const lines = ["slo_ms: 250", "batch_max: 8", "memory_mb: 100", "emulated: {alpha_ms: 2, beta_ms: 8}"];
    writeFileSync(path.join(folder, "models", name, "rubato.yaml"), lines.join("\n"));
  }
});
afterAll(async () => {
  await running.stop(0);
  await agent.close();
  rmSync(folder, { recursive: true, force: true });
});

async function get(at: string): Promise<{ status: number; text: string }> {
  const answer = await request(`${running.httpUrl}${at}`, { dispatcher: agent });
  return { status: answer.statusCode, text: await answer.body.text() };
}

async function infer(model: string): Promise<number> {
  const body = JSON.stringify({ inputs: [{ name: "INPUT", datatype: "FP32", shape: [1, 1], data: [1] }] });
  const url = `${running.httpUrl}/v2/models/${model}/infer`;
  const answer = await request(url, { method: "POST", body, dispatcher: agent });
  await answer.body.text();
  return answer.statusCode;
}

/** As clients see it: the instance group of the model's configuration. */
async function groupOf(model: string): Promise<string> {
  return JSON.parse((await get(`/v2/models/${model}/config`)).text).instance_group[0].name;
}

it("two busy models of one group are parted; every request is answered, the server stays ready", {
  retry: 2,
}, async () => {
  await running?.stop(0);
  const machine = { cpus: 2, folder };
  const config = serverConfigFrom(parseSource(CONFIG, "rubato.config.yaml"), folder, machine);
  running = await runServer(config, "test", (error) => {
    throw error;
  });
  await running.started;
  const at = await Promise.all(NAMES.map(groupOf));
  expect([...at].sort()).toEqual(["e0", "e0", "e1", "e1"]);
  const busy = NAMES.filter((_, i) => at[i] === at[0]);
  const statuses: Promise<number>[] = [];
  const ready: Promise<{ status: number }>[] = [];
  const sent = new Map<string, number>();
  const startedAt = performance.now();
  const timer = setInterval(() => {
    const s = (performance.now() - startedAt) / 1000;
    for (const name of NAMES)
      for (let n = sent.get(name) ?? 0; n < s * (busy.includes(name) ? 50 : 5); n++) {
        sent.set(name, n + 1);
        statuses.push(infer(name));
      }
    if (ready.length < s * 20) ready.push(get("/v2/health/ready"));
  }, 4);
  await expect
    .poll(async () => (await groupOf(busy[0]!)) !== (await groupOf(busy[1]!)), { timeout: 6000, interval: 50 })
    .toBe(true);
  await new Promise((resolve) => setTimeout(resolve, 500));
  clearInterval(timer);
  const codes = await Promise.all(statuses);
  expect(codes.length).toBeGreaterThan(100);
  expect(codes.filter((code) => code !== 200).length / codes.length).toBeLessThanOrEqual(0.01);
  expect(new Set((await Promise.all(ready)).map(({ status }) => status))).toEqual(new Set([200]));
  const { text } = await get("/metrics");
  expect(text).toMatch(/rubato_placement_moves_total\{outcome="moved"\} 1/);
  // Prometheus refuses a page on which a series comes twice.
  const series = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const keys = series.map((line) => line.slice(0, line.lastIndexOf(" ")));
  expect(keys.length).toBe(new Set(keys).size);
  const counted = [...text.matchAll(/^rubato_requests_total\{.*\} (\d+)$/gm)].reduce(
    (sum, [, n]) => sum + Number(n),
    0,
  );
  expect(counted).toBe(codes.length);
});
