/** The request parameter `app`, through both doors and a pipeline, to the scheduler; over reloads. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { decodeLog } from "../../src/core/event-log.js";
import { LOG_ARRIVED, LOG_TRAITS, LOG_WIDTH } from "../../src/core/event-rows.js";
import type { RunningServer } from "../../src/serve/running-server.js";
import {
  GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelInferResponse,
} from "../../src/wire/proto/inference.js";
import { unary } from "../doors/harness.js";
import { FakeServer, group, modelSpec } from "../fakes/fake-server.js";
import { serveIn } from "../support/running-server.js";

let folder: string;
let running: RunningServer;
let client: GRPCInferenceServiceClient;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-apps-"));
  const put = (name: string, file: string, text: string): void => {
    mkdirSync(path.join(folder, "models", name), { recursive: true });
    writeFileSync(path.join(folder, "models", name, file), text);
  };
  const tensor = (name: string) => `{ ${name}: { datatype: FP32, shape: [-1, 1], batch_axis: 0 } }`;
  const model = `platform: rubato_emulated
slo_ms: 5000
emulated: { alpha_ms: 1, beta_ms: 1 }
inputs: ${tensor("x")}
outputs: ${tensor("x")}
`;
  put("first", "rubato.yaml", `${model}apps: [search]\n`);
  put("second", "rubato.yaml", model);
  const modules = `
  - { id: 0, name: first }
  - { id: 1, name: second, pres: [0], inputs: { x: { module: first, tensor: x } } }`;
  put("both", "pipeline.yaml", `slo_ms: 5000\nmodules:${modules}\noutputs: { y: { module: second, tensor: x } }\n`);
  const text = `
http: { port: 0 }
grpc: { port: 1 }
groups: { emulated: { kind: emulated, count: 1 } }
model_control: explicit
event_log: { file: events.log }
log: { level: silent }
`;
  running = await serveIn(folder, text);
  for (const name of ["first", "second", "both"]) await running.server.load(name, {});
  client = new GRPCInferenceServiceClient(running.grpcTarget!, credentials.createInsecure());
}, 60_000);
afterAll(async () => {
  client.close();
  rmSync(folder, { recursive: true, force: true });
});

async function byHttp(model: string, app?: unknown): Promise<[number, string]> {
  const inputs = [{ name: "x", datatype: "FP32", shape: [1, 1], data: [1] }];
  const parameters = app === undefined ? {} : { app };
  const answer = await fetch(`${running.httpUrl}/v2/models/${model}/infer`, {
    method: "POST",
    body: JSON.stringify({ inputs, parameters }),
  });
  return [answer.status, ((await answer.json()) as { error?: string }).error ?? ""];
}

type Choice = { $case: "stringParam"; value: string } | { $case: "int64Param"; value: bigint };

async function byGrpc(modelName: string, parameterChoice: Choice): Promise<[number, string]> {
  const request = ModelInferRequest.fromPartial({
    modelName,
    inputs: [{ name: "x", datatype: "FP32", shape: [1n, 1n], contents: { fp32Contents: [1] } }],
    parameters: { app: { parameterChoice } },
  });
  const { error } = await unary<ModelInferRequest, ModelInferResponse>(client.modelInfer, client, request);
  return [error?.code ?? 0, error?.details ?? ""];
}

test("apps: one kind for a name at both doors, in pipelines' parts, after reloads; wrong names are refused", async () => {
  const text = (value: string): Choice => ({ $case: "stringParam", value });
  const bound = "parameter 'app' must be a text of 1 to 64 printable characters; was";
  // Kinds in first: search 1 (of its file), chat 2, mail 3; in second: mail 1, chat 2.
  expect(await byHttp("first", "chat")).toEqual([200, ""]);
  expect(await byGrpc("first", text("chat"))).toEqual([0, ""]);
  expect(await byGrpc("first", text("search"))).toEqual([0, ""]);
  expect(await byHttp("both", "mail")).toEqual([200, ""]);
  expect(await byHttp("first")).toEqual([200, ""]);
  await running.server.load("first", {});
  expect(await byHttp("first", "mail")).toEqual([200, ""]);
  await running.server.unload("first");
  await running.server.load("first", {});
  expect(await byGrpc("both", text("chat"))).toEqual([0, ""]);
  for (const model of ["first", "both"]) {
    expect(await byHttp(model, "")).toEqual([400, `${bound} the string ""`]);
    expect(await byHttp(model, 7)).toEqual([400, `${bound} 7`]);
    expect(await byGrpc(model, { $case: "int64Param", value: 7n })).toEqual([3, `${bound} 7`]);
    expect(await byGrpc(model, text("a\tb"))).toEqual([3, `${bound} the string "a\\tb"`]);
  }
  await running.stop(0);
  const { rows } = decodeLog(readFileSync(path.join(folder, "events.log")));
  const kinds: number[] = [];
  for (let row = 0; row < rows.length; row += LOG_WIDTH)
    if (rows[row] === LOG_ARRIVED) kinds.push(rows[row - LOG_WIDTH] === LOG_TRAITS ? rows[row - LOG_WIDTH + 3]! : 0);
  expect(kinds).toEqual([2, 2, 1, 3, 1, 0, 3, 2, 2]);
}, 60_000);

test.each([["inline"], [{ threads: 1 }]] as const)(
  "apps: past the limit requests are served and counted, scheduler %j",
  async (schedulerMode) => {
    const fake = await new FakeServer([modelSpec()], [group(1)], { schedulerMode, execMs: () => 0 }).start();
    try {
      const calls = Array.from({ length: 258 }, (_, app) => fake.infer({ parameters: { app: `app ${app}` } }));
      for (const { reply } of await Promise.all(calls)) expect(reply).not.toBeNull();
      const kinds = fake.pool.runs.flatMap(({ batch }) => (batch.kinds.length > 0 ? batch.kinds : [0]));
      expect(kinds.filter((kind) => kind > 0).sort((a, b) => a - b)).toEqual(
        Array.from({ length: 255 }, (_, at) => at + 1),
      );
      expect(await fake.metric("rubato_requests_beyond_apps_total")).toBe(3);
    } finally {
      await fake.stop();
    }
  },
);
