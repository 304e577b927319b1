/** An elastic model over both doors on a real worker: queries of tasks, tasks registered, replaced, deleted, restarts. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RunningServer } from "../../src/serve/running-server.js";
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
import { serveIn } from "../support/running-server.js";

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

const start = (): Promise<RunningServer> => serveIn(folder, CONFIG);

/** Nothing is chosen: all batches run with `elastic.gamma`. */
const ONE_GAMMA = "slo_ms: 5000\ntimeout_max_ms: 60000\npolicy_options: { adapt_tokens: false }\n";

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-elastic-"));
  const model = putModel(path.join(folder, "models"), "vit", "", ONE_GAMMA);
  for (const task of [shoes, letters]) putTask(model, task);
  const fast = putModel(path.join(folder, "models"), "fast", "  gamma: -4\n  registration: false\n", ONE_GAMMA);
  putTask(fast, letters);
  putTask(putModel(path.join(folder, "models"), "chosen"), letters);
  putModel(path.join(folder, "models"), "strict", "  accuracy_min: 0.9\n");
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

async function ask(
  method: string,
  where: string,
  body?: object | Buffer,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const given = body === undefined ? {} : { body: Buffer.isBuffer(body) ? new Uint8Array(body) : JSON.stringify(body) };
  const answer = await fetch(`${running.httpUrl}${where}`, { method, headers, ...given });
  return { status: answer.status, json: await answer.json() };
}

function query(model: string, image: number, parameters: object): Promise<Answer> {
  const inputs = [
    { name: "image", datatype: "FP32", shape: [1, 1, TINY.side, TINY.side], data: [...imageAt(IMAGES, image)] },
  ];
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

async function register(
  task: DrawnTask,
  labels: readonly number[],
  parameters: object = {},
  model = "vit",
): Promise<Answer> {
  const images = IMAGES.subarray(0, labels.length * TINY.side ** 2);
  const [body, headers] = registration(taskTensors(task, images, labels), parameters);
  return ask("POST", `${tasksOf(model)}/${task.name}`, body, headers);
}

async function untilSettled(task: string, model = "vit"): Promise<Answer["json"]> {
  for (;;) {
    const { json } = await ask("GET", `${tasksOf(model)}/${task}`);
    if (json.profiling_version === undefined) return json;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** What each image is at gamma 0, by the model itself. */
const labelsOf = (task: DrawnTask, count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, (_, at) => reference.classOf(task, imageAt(IMAGES, at), 0)));

function expectLogits(answer: Answer, expected: readonly number[]): void {
  expect([answer.status, answer.json.error]).toEqual([200, undefined]);
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

test("metrics count batches by gamma and requests by task", async () => {
  await Promise.all([query("vit", 0, { task: "shoes" }), query("fast", 0, { task: "letters" })]);
  const text = await (await fetch(`${running.httpUrl}/metrics`)).text();
  expect(text).toMatch(/^rubato_elastic_batches_total\{model="vit",gamma="0"\} [1-9]/m);
  expect(text).toMatch(/^rubato_elastic_batches_total\{model="fast",gamma="-4"\} [1-9]/m);
  expect(text).toMatch(/^rubato_elastic_requests_total\{model="vit",task="shoes",outcome="finished"\} [1-9]/m);
  expect(text).toMatch(/^rubato_elastic_requests_total\{model="fast",task="letters",outcome="finished"\} [1-9]/m);
});

test("who names no policy is served with the gamma that earns the most: beside nothing else, the most accurate", async () => {
  const most = GAMMAS.at(-1)!;
  const answer = await query("chosen", 3, { task: "letters" });
  expect(answer.json.parameters).toEqual({ gamma: most });
  expectLogits(answer, await reference.logits(letters, imageAt(IMAGES, 3), most));
});

test("a task is registered over HTTP: stored whole, profiled, and served only then", async () => {
  const bags = drawnTask("bags", 4);
  const labels = await labelsOf(bags, 20);
  const accepted = await register(bags, labels, { utility: 3, slo_ms: 2000 });
  expect(accepted.status).toBe(202);
  expect(accepted.json).toMatchObject({
    model: "vit",
    name: "bags",
    state: "PROFILING",
    profiling_version: 1,
    utility: 3,
    profiling: { of: 20 * GAMMAS.length },
  });
  const early = await query("vit", 0, { task: "bags" });
  expect([200, 503]).toContain(early.status);
  if (early.status === 503) expect(early.json.reason).toBe("task-profiling");
  const task = await untilSettled("bags");
  expect(task).toMatchObject({ state: "READY", version: 1, classes: bags.classes, utility: 3, slo_ms: 2000 });
  expect(task.gammas.map(({ gamma }: { gamma: number }) => gamma)).toEqual([...GAMMAS]);
  for (const { gamma, accuracy, latency_us } of task.gammas) {
    const right = await Promise.all(labels.map((_, at) => reference.classOf(bags, imageAt(IMAGES, at), gamma)));
    expect(accuracy).toBeCloseTo(right.filter((each, at) => each === labels[at]).length / 20, 9);
    expect(Object.values(latency_us as object).every((us) => us > 0)).toBe(true);
  }
  // By the labels that gamma 0 gave.
  expect(task.gammas[2].accuracy).toBe(1);
  expectLogits(await query("vit", 5, { task: "bags" }), await reference.logits(bags, imageAt(IMAGES, 5), 0));
  const stored = path.join(folder, "models", "vit", "tasks", "bags", "1");
  expect(readdirSync(stored).sort()).toEqual([
    "head.bin",
    "images.bin",
    "labels.bin",
    "prompts-2.bin",
    "prompts-4.bin",
    "task.json",
  ]);
  expect(Object.keys(JSON.parse(readFileSync(path.join(stored, "task.json"), "utf8")).accuracy)).toHaveLength(5);
});

test("registered again it is a new version, and the old one is served until it is ready", async () => {
  const again = drawnTask("bags", 6, 2);
  const labels = await labelsOf(again, 16);
  const accepted = await register(again, labels);
  expect(accepted.json).toMatchObject({ state: "READY", version: 1, profiling_version: 2 });
  const task = await untilSettled("bags");
  expect(task).toMatchObject({ state: "READY", version: 2, classes: again.classes, utility: 1 });
  expectLogits(await query("vit", 1, { task: "bags" }), await reference.logits(again, imageAt(IMAGES, 1), 0));
  // What lies in the folder itself is version 1.
  const shoesAgain = drawnTask("shoes", 3, 2);
  expect((await register(shoesAgain, await labelsOf(shoesAgain, 16))).json).toMatchObject({ profiling_version: 2 });
  expect(await untilSettled("shoes")).toMatchObject({ state: "READY", version: 2 });
  expectLogits(await query("vit", 1, { task: "shoes" }), await reference.logits(shoesAgain, imageAt(IMAGES, 1), 0));
});

test("over gRPC: registered, listed, got, deleted; what names it afterwards is refused", async () => {
  const client = new TasksClient(running.grpcTarget!, credentials.createInsecure());
  const hats = drawnTask("hats", 2);
  const labels = await labelsOf(hats, 16);
  const tensors = taskTensors(hats, IMAGES.subarray(0, 16 * TINY.side ** 2), labels);
  const request = ModelInferRequest.fromPartial({
    modelName: "vit",
    id: "hats",
    inputs: tensors.map(({ name, datatype, shape }) => ({ name, datatype, shape: shape.map(BigInt) })),
    rawInputContents: tensors.map(({ data }) => data),
    parameters: { utility: { parameterChoice: { $case: "doubleParam", value: 0.25 } } },
  });
  const accepted = await unary<ModelInferRequest, Task>(client.registerTask, client, request);
  expect(accepted.error).toBeNull();
  expect(accepted.response).toMatchObject({ modelName: "vit", name: "hats", state: "PROFILING", profilingVersion: 1n });
  expect(accepted.response.profiling).toMatchObject({ of: 80n });
  await untilSettled("hats");
  const named = { modelName: "vit", name: "hats" };
  const got = await unary<object, Task>(client.getTask, client, named);
  expect(got.response).toMatchObject({ state: "READY", version: 1n, utility: 0.25, classes: hats.classes });
  expect(got.response.gammas).toHaveLength(5);
  const listed = await unary<object, { tasks: Task[] }>(client.listTasks, client, { modelName: "vit" });
  expect(listed.response.tasks.map(({ name }) => name)).toEqual(["bags", "hats", "letters", "shoes"]);
  expect((await unary<object, Task>(client.deleteTask, client, named)).response).toMatchObject({ version: 1n });
  expect(existsSync(path.join(folder, "models", "vit", "tasks", "hats"))).toBe(false);
  for (const method of [client.getTask, client.deleteTask])
    expect((await unary<object, Task>(method, client, named)).error).toMatchObject({
      code: 5,
      details: "model 'vit' has no task 'hats'; it has bags, letters, shoes",
    });
  for (const method of [client.getTask, client.deleteTask])
    expect((await unary<object, Task>(method, client, { modelName: "vit", name: ".." })).error).toMatchObject({
      code: 3,
      details: expect.stringContaining("name of a task must be 1 to 64 letters"),
    });
  const { status, json } = await query("vit", 0, { task: "hats" });
  expect([status, json.reason]).toEqual([404, "unknown-task"]);
  client.close();
});

test("a server that is started again serves what was registered, and profiles what was not", async () => {
  const model = path.join(folder, "models", "vit");
  const pens = drawnTask("pens", 3);
  const labels = await labelsOf(pens, 16);
  // As a server leaves it that ended while it profiled.
  const put = putTask(model, pens, { accuracy: undefined, images: 16 });
  writeFileSync(path.join(put, "images.bin"), Buffer.from(IMAGES.buffer, 0, 16 * TINY.side ** 2 * 4));
  writeFileSync(path.join(put, "labels.bin"), Buffer.from(Int32Array.from(labels).buffer));
  mkdirSync(path.join(model, "tasks", "broken"));
  writeFileSync(path.join(model, "tasks", "broken", "task.json"), "{");
  const ties = drawnTask("ties", 3);
  await register(ties, await labelsOf(ties, 24));
  await running.stop(0);
  running = await start();
  const { json } = await ask("GET", tasksOf("vit"));
  const seen = json.tasks.map(({ name, version }: { name: string; version: number }) => [name, version]);
  expect(seen.filter(([name]: [string]) => name !== "pens" && name !== "ties")).toEqual([
    ["bags", 2],
    ["broken", 0],
    ["letters", 1],
    ["shoes", 2],
  ]);
  const broken = json.tasks.find(({ name }: { name: string }) => name === "broken");
  expect([broken.state, broken.reason]).toEqual(["UNAVAILABLE", expect.stringContaining("vit/tasks/broken/task.json")]);
  for (const name of ["pens", "ties"]) expect(await untilSettled(name)).toMatchObject({ state: "READY", version: 1 });
  const bags = drawnTask("bags", 6, 2);
  expectLogits(await query("vit", 2, { task: "bags" }), await reference.logits(bags, imageAt(IMAGES, 2), 0));
}, 120_000);

test("tasks are changed neither by web pages nor where their owner forbids it; a wrong method says what is right", async () => {
  const url = `${tasksOf("vit")}/letters`;
  expect((await ask("DELETE", url, undefined, { origin: "http://elsewhere" })).json.reason).toBe("origin");
  const closed = await ask("DELETE", `${tasksOf("fast")}/letters`);
  expect([closed.status, closed.json.reason]).toEqual([403, "registration"]);
  expect((await ask("GET", `${tasksOf("fast")}/letters`)).json.state).toBe("READY");
  const wrong = await ask("PUT", url);
  expect([wrong.status, wrong.json.reason]).toEqual([405, "method-not-allowed"]);
  expect((await ask("GET", tasksOf("none"))).status).toBe(404);
});

test("a task that is wrong too often is rejected with the reason, and nothing of it stays; right, it is served", async () => {
  const caps = drawnTask("caps", 3);
  const labels = await labelsOf(caps, 16);
  const wrong = labels.map((label, at) => (at < 4 ? (label + 1) % 3 : label));
  expect((await register(caps, wrong, {}, "strict")).status).toBe(202);
  const rejected = await untilSettled("caps", "strict");
  const reason = "accuracy at gamma 0 must be at least 0.9 (elastic.accuracy_min); was 0.7500 of 16 images";
  expect(rejected).toMatchObject({ state: "UNAVAILABLE", version: 0, reason });
  const { status, json } = await query("strict", 0, { task: "caps" });
  expect([status, json.error]).toEqual([404, `task 'caps' of model 'strict' is not served: ${reason}`]);
  expect((await register(caps, labels, {}, "strict")).json).toMatchObject({ profiling_version: 2 });
  expect(await untilSettled("caps", "strict")).toMatchObject({ state: "READY", version: 2 });
});

test("while tasks come, change and go, every query of others is answered as if nothing happened", async () => {
  const belts = drawnTask("belts", 3);
  const labels = await labelsOf(belts, 16);
  const expected = await reference.logits(letters, imageAt(IMAGES, 7), 0);
  let isOver = false;
  let asked = 0;
  const asking = Array.from({ length: 3 }, async () => {
    for (; !isOver; asked++) expectLogits(await query("vit", 7, { task: "letters" }), expected);
  });
  for (let round = 0; round < 2; round++) {
    for (let version = 1; version <= 2; version++) {
      expect((await register(belts, labels)).status).toBe(202);
      expect(await untilSettled("belts")).toMatchObject({ state: "READY", version });
    }
    expect((await ask("DELETE", `${tasksOf("vit")}/belts`)).status).toBe(200);
  }
  isOver = true;
  await Promise.all(asking);
  expect(asked).toBeGreaterThan(0);
}, 120_000);

test("a worker that is replaced has the tasks that were registered before", async () => {
  const children = execFileSync("ps", ["-o", "pid=,args=", "--ppid", String(process.pid)])
    .toString()
    .split("\n");
  const pid = Number(
    children
      .find((line) => line.includes("rubato-worker onnx"))!
      .trim()
      .split(" ")[0],
  );
  process.kill(pid, "SIGKILL");
  const bags = drawnTask("bags", 6, 2);
  const expected = await reference.logits(bags, imageAt(IMAGES, 4), 0);
  for (;;) {
    const answer = await query("vit", 4, { task: "bags" });
    if (answer.status === 503 || answer.status === 504) continue;
    expectLogits(answer, expected);
    break;
  }
}, 120_000);
