/** An elastic model over both doors on a real worker: queries of tasks, tasks registered, replaced, deleted, restarts. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serverConfigFrom } from "../../src/config/server/server.js";
import { parseSource } from "../../src/config/source.js";
import { type RunningServer, runServer } from "../../src/serve/running-server.js";
import { ModelInferRequest } from "../../src/wire/proto/inference.js";
import { type Task, TasksClient } from "../../src/wire/proto/tasks.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { unary } from "../doors/harness.js";
import {
  type DrawnTask,
  drawnImages,
  drawnTask,
  GAMMAS,
  imageAt,
  putModel,
  putTask,
  Reference,
  TINY,
  taskTensors,
} from "../support/elastic-repository.js";

const CONFIG = `
http: { port: 0 }
grpc: { port: 1 }
groups: { cpu: { kind: onnx, count: 1, threads: 1 } }
profile: { budget_s: 0.3 }
log: { level: silent }
`;
const IMAGES = drawnImages(24);
const shoes = drawnTask("shoes", 3);
const letters = drawnTask("letters", 5);

let folder: string;
let reference: Reference;
let running: RunningServer;

const start = async (): Promise<RunningServer> => {
  const source = parseSource(CONFIG, "rubato.config.yaml");
  const config = serverConfigFrom(source, folder, { cpus: 2, folder }, { grpcPort: 0 });
  const server = await runServer(config, "test", (error) => {
    throw error;
  });
  await server.started;
  return server;
};

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-elastic-"));
  const model = putModel(path.join(folder, "models"), "vit");
  for (const task of [shoes, letters]) putTask(model, task);
  const fast = putModel(path.join(folder, "models"), "fast", "  gamma: -4\n  registration: false\n");
  putTask(fast, letters);
  reference = await Reference.create();
  running = await start();
}, 120_000);
afterAll(async () => {
  await running.stop(0);
  await reference.release();
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are asserted member by member
  readonly json: any;
}

async function ask(method: string, where: string, body?: object | Buffer, headers: Record<string, string> = {}): Promise<Answer> {
  const given = body === undefined ? {} : { body: Buffer.isBuffer(body) ? new Uint8Array(body) : JSON.stringify(body) };
  const answer = await fetch(`${running.httpUrl}${where}`, { method, headers, ...given });
  return { status: answer.status, json: await answer.json() };
}

function query(model: string, image: number, parameters: object): Promise<Answer> {
  const inputs = [{ name: "image", datatype: "FP32", shape: [1, 1, TINY.side, TINY.side], data: [...imageAt(IMAGES, image)] }];
  return ask("POST", `/v2/models/${model}/infer`, { inputs, parameters });
}

const tasksOf = (model: string): string => `/v2/repository/models/${model}/tasks`;

/** As a client with binary tensors writes it. */
function registration(tensors: readonly Tensor[], parameters: object = {}): [Buffer, Record<string, string>] {
  const inputs = tensors.map(({ name, datatype, shape, data }) => ({
    name,
    datatype,
    shape,
    parameters: { binary_data_size: data.byteLength },
  }));
  const text = Buffer.from(JSON.stringify({ inputs, parameters }));
  return [
    Buffer.concat([text, ...tensors.map(({ data }) => data)]),
    { "inference-header-content-length": String(text.byteLength) },
  ];
}

async function register(task: DrawnTask, labels: readonly number[], parameters: object = {}): Promise<Answer> {
  const images = IMAGES.subarray(0, labels.length * TINY.side ** 2);
  const [body, headers] = registration(taskTensors(task, images, labels), parameters);
  return ask("POST", `${tasksOf("vit")}/${task.name}`, body, headers);
}

async function untilSettled(task: string): Promise<Answer["json"]> {
  for (;;) {
    const { json } = await ask("GET", `${tasksOf("vit")}/${task}`);
    if (json.profiling_version === undefined) return json;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** What each image is at gamma 0, by the model itself. */
const labelsOf = (task: DrawnTask, count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, (_, at) => reference.classOf(task, imageAt(IMAGES, at), 0)));

function expectLogits(answer: Answer, expected: readonly number[]): void {
  const logits = answer.json.outputs.find((output: { name: string }) => output.name === "logits");
  expect(logits.shape).toEqual([1, expected.length]);
  for (const [at, value] of expected.entries()) expect(logits.data[at]).toBeCloseTo(value, 4);
}

test("queries of both tasks at once: each has its own logits, and the gamma that it was served with", async () => {
  const asked = Array.from({ length: 12 }, (_, at) => ({ task: at % 2 === 0 ? shoes : letters, at }));
  const answers = await Promise.all(asked.map(({ task, at }) => query("vit", at, { task: task.name })));
  for (const [index, answer] of answers.entries()) {
    const { task, at } = asked[index]!;
    expect(answer.status).toBe(200);
    expect(answer.json.parameters).toEqual({ gamma: 0 });
    expectLogits(answer, await reference.logits(task, imageAt(IMAGES, at), 0));
  }
  const fast = await query("fast", 3, { task: "letters", utility: 0.5 });
  expect(fast.json.parameters).toEqual({ gamma: -4 });
  expectLogits(fast, await reference.logits(letters, imageAt(IMAGES, 3), -4));
});
