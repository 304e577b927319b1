/** The scheduler on queue threads and a rank, behind real doors and real workers: `scheduler: { threads: 2 }`. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { Agent, request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { durationUs } from "../../src/core/time.js";
import type { RunningServer } from "../../src/serve/running-server.js";
import { ProcessPool } from "../../src/serve/workers/process-pool.js";
import { GRPCInferenceServiceService, ModelInferRequest } from "../../src/wire/proto/inference.js";
import { type Ended, FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";
import { buildOnnx } from "../support/onnx-builder.js";
import { serveIn } from "../support/running-server.js";

const THREADS = { schedulerMode: { threads: 2 } } as const;

/** Threads of this process, by what they are called. */
const threadsOf = (): number => Number(/^Threads:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))![1]);

describe("doors and workers", { retry: 2 }, () => {
  const CONFIG = `
http: { port: 0 }
grpc: { port: 1 }
groups:
  emulated: { kind: emulated, count: 3 }
  cpu: { kind: onnx, count: 1, threads: 1 }
workers: { warm_up_ms: 0 }
profile: { budget_s: 0.2 }
scheduler: { threads: 2 }
model_control: explicit
log: { level: silent }
`;
  let folder: string;
  let running: RunningServer;
  let grpc: Client;
  const agent = new Agent({ connections: 64 });

  const model = (name: string, ...lines: string[]): void => {
    mkdirSync(path.join(folder, "models", name), { recursive: true });
    writeFileSync(path.join(folder, "models", name, "rubato.yaml"), lines.join("\n"));
  };

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "rubato-threads-"));
    const tensors = ["inputs: {x: {datatype: FP32, shape: [-1, 1]}}", "outputs: {y: {datatype: FP32, shape: [-1, 1]}}"];
    const emulated = ["group: emulated", "batch_max: 8", "emulated: {alpha_ms: 1, beta_ms: 4}", ...tensors];
    model("slo", "slo_ms: 2000", ...emulated);
    model("plain", ...emulated);
    model("fixed", "slo_ms: 2000", "policy: timeout", "policy_options: {timeout_ms: 2}", ...emulated);
    model("plus", "slo_ms: 2000", "policy: deferred+", ...emulated);
    model("identity", "slo_ms: 2000", "group: cpu", "batch_max: 8");
    mkdirSync(path.join(folder, "models", "identity", "1"));
    const dims = ["batch", 1];
    const onnx = buildOnnx({
      inputs: [{ name: "x", type: 1, dims }],
      outputs: [{ name: "y", type: 1, dims }],
      nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
    });
    writeFileSync(path.join(folder, "models", "identity", "1", "model.onnx"), onnx);
    running = await serveIn(folder, CONFIG);
    grpc = new Client(running.grpcTarget!, credentials.createInsecure());
  });
  afterAll(async () => {
    grpc.close();
    await running.stop(0);
    await agent.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const post = async (at: string, body: unknown = {}) => {
    const options = { method: "POST", body: JSON.stringify(body), dispatcher: agent } as const;
    const answer = await request(`${running.httpUrl}${at}`, options);
    return { status: answer.statusCode, text: await answer.body.text() };
  };
  const overHttp = async (name: string): Promise<boolean> => {
    const inputs = [{ name: "x", datatype: "FP32", shape: [1, 1], data: [7] }];
    const { status, text } = await post(`/v2/models/${name}/infer`, { inputs });
    return status === 200 && JSON.parse(text).outputs[0].shape[0] === 1;
  };
  const overGrpc = (modelName: string): Promise<boolean> => {
    const { modelInfer } = GRPCInferenceServiceService;
    const contents = { fp32Contents: [7] };
    const call = { modelName, inputs: [{ name: "x", datatype: "FP32", shape: ["1", "1"], contents }] };
    return new Promise((resolve) => {
      grpc.makeUnaryRequest(
        modelInfer.path,
        modelInfer.requestSerialize,
        modelInfer.responseDeserialize,
        ModelInferRequest.fromPartial(call as never),
        new Metadata(),
        (error) => resolve(error === null),
      );
    });
  };
  const metric = async (name: string): Promise<number> => {
    const { body } = await request(`${running.httpUrl}/metrics`, { dispatcher: agent });
    const lines = (await body.text()).split("\n").filter((line) => line.startsWith(name));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  };

  it("serves HTTP and gRPC on emulated and onnx workers; metrics count", async () => {
    const names = ["slo", "plain", "fixed", "plus", "identity"];
    for (const name of names) expect(await post(`/v2/repository/models/${name}/load`)).toMatchObject({ status: 200 });
    const before = await metric("rubato_requests_total");
    const calls = Array.from({ length: 200 }, (_, n) => (n % 2 === 0 ? overHttp : overGrpc)(names[n % 5]!));
    expect(await Promise.all(calls)).toEqual(calls.map(() => true));
    // The scheduler says that a request ended just after its answer went out.
    await expect.poll(async () => (await metric("rubato_requests_total")) - before).toBe(200);
    expect(await metric("rubato_scheduler_turns_total")).toBeGreaterThan(10);
    expect(await metric("rubato_scheduler_due_turns_total")).toBeGreaterThan(0);
    await expect.poll(() => metric("rubato_scheduler_requests")).toBe(0);
    expect(await metric("rubato_scheduler_batches")).toBe(0);
    await post("/v2/repository/models/plain/unload");
    expect(await overHttp("plain")).toBe(false);
    await post("/v2/repository/models/plain/load");
    expect(await overGrpc("plain")).toBe(true);
  });
});

describe("under load", { retry: 2 }, () => {
  let fake: FakeServer;
  afterEach(() => fake.stop());

  it("every request ends once though a worker is killed and its models are reloaded", async () => {
    const groups = [group(3)];
    const pool = new ProcessPool(groups, { emulatedPerProcess: 1, warmUpMs: 0 });
    const options = { sloUs: durationUs(500_000), emulated: { alphaMs: 1, betaMs: 5, tableMs: null } };
    const specs = ["a", "b", "c"].map((name) => modelSpec({ name, ...options }));
    fake = new FakeServer(specs, groups, { pool, ...THREADS, modelControl: "explicit" });
    await fake.start();
    for (const { name } of specs) await fake.server.load(name, {});
    const ends: Promise<Ended>[] = [];
    const sender = setInterval(() => {
      for (const { name } of specs) {
        ends.push(fake.infer({ model: name }));
        if (ends.length % 5 === 0) ends.push(fake.infer({ model: name }, 3));
      }
    }, 5);
    await sleep(300);
    process.kill(pool.pidOf(1), "SIGKILL");
    await sleep(200);
    const reloads = [fake.server.load("a", {}), fake.server.load("b", {})];
    await sleep(300);
    await Promise.all(reloads);
    await expect.poll(() => fake.metric("rubato_accelerator_up"), { timeout: 5000 }).toBe(3);
    await sleep(200);
    clearInterval(sender);
    const ended = await Promise.race([Promise.all(ends), fake.whenBroken]);
    await fake.server.driver.idle();
    const count = (is: (end: Ended) => boolean): number => ended.filter(is).length;
    expect(fake.extraAnswers).toBe(0);
    expect(await fake.metric("rubato_requests_total")).toBe(ended.length);
    expect(await fake.metric("rubato_requests_total", ['outcome="finished"'])).toBe(
      count(({ reply }) => reply !== null),
    );
    const cancelled = count(({ reply, error }) => reply === null && error === null);
    expect(await fake.metric("rubato_requests_total", ['reason="cancelled"'])).toBe(cancelled);
    expect(cancelled).toBeGreaterThan(0);
    expect(count(({ reply }) => reply !== null) / (ended.length - cancelled)).toBeGreaterThan(0.95);
    for (const name of ["rubato_scheduler_requests", "rubato_scheduler_batches", "rubato_requests_in_flight"])
      expect(await fake.metric(name)).toBe(0);
    expect(await fake.metric("rubato_worker_exits_total", ['cause="worker-crashed"'])).toBe(1);
    expect(fake.broken).toBeNull();
  });

  it("groups share the threads, and stopping ends them", async () => {
    const before = threadsOf();
    const groups = ["g", "h", "i"].map((name) => group(2, { name }));
    const specs = groups.map(({ name }) => modelSpec({ name, group: name, sloUs: durationUs(500_000) }));
    fake = await new FakeServer(specs, groups, THREADS).start();
    expect(threadsOf() - before).toBeLessThanOrEqual(3);
    const ended = await Promise.all(
      specs.flatMap(({ name }) => Array.from({ length: 20 }, () => fake.infer({ model: name }))),
    );
    expect(ended.filter(({ reply }) => reply === null)).toEqual([]);
    await fake.server.driver.idle();
    await fake.stop();
    await expect.poll(threadsOf, { timeout: 2000 }).toBeLessThanOrEqual(before);
    expect(fake.broken).toBeNull();
  });

  it("plans follow what runs take: a model that is three times its profile", async () => {
    const spec = modelSpec({ emulated: { alphaMs: 1, betaMs: 4, tableMs: null } });
    fake = await new FakeServer([spec], [group(1, { kind: "onnx" })], { ...THREADS, execMs: () => 15 }).start();
    for (let n = 0; n < 20; n++) await fake.infer();
    expect(fake.pool.runs[0]!.batch.predictedUs).toBe(5000);
    expect(fake.pool.runs.at(-1)!.batch.predictedUs).toBeGreaterThan(10_000);
  });

  it("stops with requests waiting and running: each is told so once", async () => {
    fake = await new FakeServer([modelSpec()], [group(1)], { ...THREADS, execMs: () => 300 }).start();
    const ends = Array.from({ length: 40 }, () => fake.infer({ timeoutMs: 5000 }));
    await expect.poll(() => fake.pool.runs.length).toBeGreaterThan(0);
    await fake.stop();
    const ended = await Promise.all(ends);
    expect(ended.filter(({ error }) => error !== null && error.details.reason !== "draining")).toEqual([]);
    expect(fake.extraAnswers).toBe(0);
    expect(fake.broken).toBeNull();
  });
});
