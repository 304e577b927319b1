/** Pipelines under the ordinary paths: values through both doors and real models, and how their requests end. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { checkModels } from "../../src/cli/repository-check.js";
import type { ModelSpec } from "../../src/config/model.js";
import { parsePipelineFile } from "../../src/config/server/pipelines/pipeline-file.js";
import { durationUs } from "../../src/core/time.js";
import type { RunningServer } from "../../src/serve/running-server.js";
import type { ServerOptions } from "../../src/serve/server.js";
import {
  GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelInferResponse,
} from "../../src/wire/proto/inference.js";
import { unary } from "../doors/harness.js";
import { FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";
import { buildOnnx } from "../support/onnx-builder.js";
import { configIn, serveIn } from "../support/running-server.js";
import { tensorSpec } from "../support/specs.js";

const FLOAT = 1;
// biome-ignore lint/suspicious/noExplicitAny: answers are asserted member by member
type Json = any;

describe("over HTTP and gRPC", () => {
  let folder: string;
  let running: RunningServer | null = null;
  let client: GRPCInferenceServiceClient | null = null;
  afterEach(async () => {
    client?.close();
    await running?.stop(0);
    rmSync(folder, { recursive: true, force: true });
  });

  async function serve(text: string, put: (models: string) => void): Promise<string> {
    folder = mkdtempSync(path.join(tmpdir(), "rubato-pipelines-"));
    const models = path.join(folder, "models");
    mkdirSync(models);
    put(models);
    const file = `http: { port: 0 }\ngrpc: { port: 1 }\nworkers: { warm_up_ms: 0 }\nprofile: { budget_s: 0.2 }\nlog: { level: silent }\n${text}`;
    running = await serveIn(folder, file);
    expect(checkModels(models, configIn(folder, file)).problems).toEqual([]);
    return running.httpUrl;
  }

  const get = async (url: string): Promise<Json> => (await fetch(url)).json();
  const infer = async (url: string, model: string, inputs: unknown, more = {}) => {
    const body = JSON.stringify({ inputs, ...more });
    const answer = await fetch(`${url}/v2/models/${model}/infer`, { method: "POST", body });
    return { status: answer.status, json: (await answer.json()) as Json };
  };
  const x = (data: number[]) => ({ name: "x", datatype: "FP32", shape: [1, data.length], data });

  test("a split that merges, of real models: the values of the whole, by JSON and by gRPC", async () => {
    const tensors = (...names: string[]) => names.map((name) => ({ name, type: FLOAT, dims: ["batch", 2] }));
    const url = await serve("groups: { cpu: { kind: onnx, count: 1, threads: 1 } }\n", (models) => {
      const put = (name: string, inputs: string[], nodes: Parameters<typeof buildOnnx>[0]["nodes"]): void => {
        mkdirSync(path.join(models, name, "1"), { recursive: true });
        writeFileSync(path.join(models, name, "rubato.yaml"), "slo_ms: 5000\n");
        writeFileSync(
          path.join(models, name, "1/model.onnx"),
          buildOnnx({ inputs: tensors(...inputs), outputs: tensors("y"), nodes }),
        );
      };
      put("double", ["x"], [{ op: "Add", inputs: ["x", "x"], outputs: ["y"] }]);
      put("square", ["x"], [{ op: "Mul", inputs: ["x", "x"], outputs: ["y"] }]);
      put("minus", ["a", "b"], [{ op: "Sub", inputs: ["a", "b"], outputs: ["y"] }]);
      mkdirSync(path.join(models, "maths"));
      const from = (module: string): string => `{ module: ${module}, tensor: y }`;
      const file = `slo_ms: 5000
modules:
  - { id: 0, name: double }
  - { id: 1, name: square, pres: [0], inputs: { x: ${from("double")} } }
  - { id: 2, name: minus, pres: [0, 1], inputs: { a: ${from("square")}, b: ${from("double")} } }
outputs: { y: ${from("minus")}, twice: ${from("double")} }
`;
      writeFileSync(path.join(models, "maths/pipeline.yaml"), file);
    });
    // 2x, (2x)^2 - 2x
    const { status, json } = await infer(url, "maths", [x([3, 5])], { id: "me" });
    expect([status, json.model_name, json.id]).toEqual([200, "maths", "me"]);
    const of = (name: string) => json.outputs.find((output: { name: string }) => output.name === name);
    expect([of("y").data, of("twice").data]).toEqual([
      [30, 90],
      [6, 10],
    ]);
    expect((await infer(url, "maths", [x([3, 5])], { outputs: [{ name: "y" }] })).json.outputs).toEqual([
      { name: "y", datatype: "FP32", shape: [1, 2], data: [30, 90] },
    ]);
    client = new GRPCInferenceServiceClient(running!.grpcTarget!, credentials.createInsecure());
    const request = ModelInferRequest.fromPartial({
      modelName: "maths",
      inputs: [{ name: "x", datatype: "FP32", shape: [1n, 2n], contents: { fp32Contents: [1, -1] } }],
    });
    const { modelInfer } = client;
    const { response } = await unary<ModelInferRequest, ModelInferResponse>(modelInfer, client, request);
    expect(response.outputs[0]).toMatchObject({ name: "y", contents: { fp32Contents: [2, 6] } });
    // Metadata, readiness, configuration, index, statistics.
    expect(await get(`${url}/v2/models/maths`)).toMatchObject({
      platform: "rubato_pipeline",
      versions: ["1"],
      inputs: [{ name: "x", datatype: "FP32", shape: [-1, 2] }],
      outputs: [{ name: "y" }, { name: "twice" }],
      properties: { slo_us: "5000000" },
    });
    expect((await fetch(`${url}/v2/models/maths/ready`)).status).toBe(200);
    expect((await get(`${url}/v2/models/maths/config`)).parameters["rubato.modules"]).toEqual({
      string_value: "double (double), square (square), minus (minus)",
    });
    expect((await get(`${url}/v2/models`)).models).toEqual(["double", "minus", "square", "maths"]);
    expect((await get(`${url}/v2/models/maths/stats`)).model_stats[0]).toMatchObject({
      name: "maths",
      inference_count: 3,
    });
    // What is wrong with a call is said of the pipeline.
    const wrong = await infer(url, "maths", [{ ...x([1]), name: "z" }]);
    expect([wrong.status, wrong.json.error]).toEqual([400, expect.stringContaining("'z' for model 'maths'")]);
    expect((await fetch(`${url}/v2/models/maths/versions/2/ready`)).status).toBe(404);
  }, 60_000);

  test.each([0, 1])(
    "the pipeline that ships, on %i queue threads: emulated models, a split with two answers, deadlines by module",
    async (threads) => {
      const groups = "groups: { emulated-1080ti: { kind: emulated, count: 4 } }\n";
      const url = await serve(`${groups}scheduler: { threads: ${threads} }\n`, (models) => {
        for (const name of [
          "emulated-inceptionresnetv2-1080ti",
          "emulated-resnet50-1080ti",
          "emulated-bert-1080ti",
          "emulated-traffic",
        ])
          cpSync(path.join("models", name), path.join(models, name), { recursive: true });
      });
      const image = [x(Array.from({ length: 16 }, (_, index) => index))];
      const { status, json } = await infer(url, "emulated-traffic", image, { parameters: { timeout: 5_000_000 } });
      expect(status).toBe(200);
      expect(json.outputs).toEqual([
        { ...image[0], name: "faces" },
        { ...image[0], name: "text" },
      ]);
      // Detection alone takes 23 ms.
      const late = await infer(url, "emulated-traffic", image, { parameters: { timeout: 10_000 } });
      expect([late.status, late.json]).toEqual([
        504,
        expect.objectContaining({ reason: "infeasible", module: "detect", deadline_us: 10_000 }),
      ]);
      expect(late.json.error).toMatch(/^pipeline 'emulated-traffic': module 'detect': /);
      const metrics = await (await fetch(`${url}/metrics`)).text();
      expect(metrics).toContain(
        'rubato_pipeline_requests_total{pipeline="emulated-traffic",outcome="finished",reason="",module=""} 1',
      );
      expect(metrics).toContain('outcome="dropped",reason="infeasible",module="detect"} 1');
      expect(metrics).toContain(
        'rubato_pipeline_parts_total{pipeline="emulated-traffic",module="text",outcome="finished"} 1',
      );
    },
    60_000,
  );
});

describe("ends", () => {
  let fake: FakeServer;
  afterEach(async () => {
    expect(fake.broken).toBeNull();
    expect(fake.extraAnswers).toBe(0);
    await fake.stop();
    expect(fake.server.pipelines.live).toBe(0);
  });

  const model = (name: string, betaMs: number, rest: Partial<ModelSpec> = {}): ModelSpec =>
    modelSpec({ name, group: name, policy: "eager", emulated: { alphaMs: 0, betaMs, tableMs: null }, ...rest });
  const SPLIT = `
modules:
  - { id: 0, name: first, model: a }
  - { id: 1, name: left, model: b, pres: [0], inputs: { x: { module: first, tensor: y } } }
  - { id: 2, name: right, model: c, pres: [0], inputs: { x: { module: first, tensor: y } } }
outputs: { l: { module: left, tensor: y }, r: { module: right, tensor: y } }
`;
  async function serve(file: string, models: ModelSpec[], options: Partial<ServerOptions> = {}): Promise<void> {
    const groups = models.map(({ name }) => group(1, { name }));
    fake = new FakeServer(models, groups, {
      pipelines: {
        pipelines: () => ["p"],
        isPipeline: (name) => name === "p",
        readPipeline: () => ({ folder: "", read: parsePipelineFile(file, "p/pipeline.yaml") }),
      },
      ...options,
    });
    await fake.start();
    expect(fake.server.modelReady("p", "")).toBe(true);
  }
  const parts = (module: string, outcome: string): Promise<number> =>
    fake.metric("rubato_pipeline_parts_total", [`module="${module}"`, `outcome="${outcome}"`]);

  test("a module that fails ends the request with its name and cause; its sibling is called off", async () => {
    await serve(`slo_ms: 2000\nbudget: rest\n${SPLIT}`, [
      model("a", 1),
      model("b", 20),
      model("c", 400, { batchSizeMax: 1 }),
    ]);
    fake.pool.failure = ({ model: name }) =>
      name === "b" ? { cause: "model-error", message: "no such row", code: "invalid-argument" } : null;
    // The second waits in c behind the first.
    const [first, second] = await Promise.all([fake.infer({ model: "p" }), fake.infer({ model: "p" })]);
    for (const { error, afterMs } of [first, second]) {
      expect(error).toMatchObject({
        code: "invalid-argument",
        details: { module: "left", reason: "invalid-argument" },
      });
      expect(error!.message).toMatch(
        /^pipeline 'p': module 'left': model 'b': the model refused the request's values: no such row \(deadline 2000000 us, estimate /,
      );
      expect(error!.details.deadlineUs).toBe(2_000_000);
      expect(afterMs).toBeLessThan(300);
    }
    expect(await parts("left", "failed")).toBe(2);
    expect(await parts("right", "cancelled")).toBe(2);
    // One ran and is over when its batch is; the other never will.
    await fake.server.idle();
    expect(
      fake.pool.runs.filter(({ batch }) => batch.model === "c").flatMap(({ batch }) => batch.members),
    ).toHaveLength(1);
    expect(await fake.metric("rubato_pipeline_requests_total", ['outcome="failed"', 'module="left"'])).toBe(2);
  });

  test("a client that goes away calls off what is underway, and what would have followed never begins", async () => {
    await serve(`slo_ms: 2000\n${SPLIT}`, [model("a", 60), model("b", 1), model("c", 1)]);
    const { reply, error } = await fake.infer({ model: "p" }, 20);
    expect([reply, error]).toEqual([null, null]);
    await fake.server.idle();
    await sleep(80);
    expect(fake.pool.runs.map(({ batch }) => batch.model)).toEqual(["a"]);
    expect(await fake.metric("rubato_pipeline_requests_total", ['reason="cancelled"'])).toBe(1);
  });

  test("one deadline for the whole: modules' own promises do not count, nor does the time of those before", async () => {
    const short = { sloUs: durationUs(30_000), policy: "deferred" };
    await serve(`slo_ms: 300\nbudget: rest\n${SPLIT}`, [model("a", 60), model("b", 20, short), model("c", 150)]);
    const { reply } = await fake.infer({ model: "p" });
    expect(reply!.outputs.map(({ name }) => name)).toEqual(["l", "r"]);
    const late = await fake.infer({ model: "p", timeoutMs: 100 });
    expect(late.error).toMatchObject({ code: "deadline-exceeded", details: { deadlineUs: 100_000 } });
    expect(late.error!.details.module).toMatch(/^(first|right)$/);
    expect(late.afterMs).toBeLessThan(200);
  });

  test("what is soft may be missing: its taker goes on without", async () => {
    const taker = model("c", 1, {
      inputs: [tensorSpec("x", "FP32", [-1, 1]), tensorSpec("extra", "FP32", [-1, 1], { optional: true })],
    });
    const file = `slo_ms: 2000
modules:
  - { id: 0, name: first, model: a }
  - { id: 1, name: extra, model: b, pres: [0], soft: true, inputs: { x: { module: first, tensor: y } } }
  - { id: 2, name: last, model: c, pres: [0, 1], inputs: { x: { module: first, tensor: y }, extra: { module: extra, tensor: y } } }
`;
    await serve(file, [model("a", 1), model("b", 1), taker]);
    let fails = false;
    fake.pool.failure = ({ model: name }) =>
      fails && name === "b" ? { cause: "model-error", message: "broken" } : null;
    const inputs = () =>
      fake.pool.runs
        .filter(({ batch }) => batch.model === "c")
        .map(({ batch }) => batch.members[0]!.map(({ name }) => name));
    expect((await fake.infer({ model: "p", value: 7 })).error).toBeNull();
    fails = true;
    expect((await fake.infer({ model: "p", value: 7 })).error).toBeNull();
    expect(inputs()).toEqual([["x", "extra"], ["x"]]);
    expect(await parts("extra", "failed")).toBe(1);
  });

  test.each(["staggered", "share", "forecast", "whole"])(
    "what is soft and slow is not waited for for ever: its taker goes on without while there is time (budget: %s)",
    async (budget) => {
      const taker = model("c", 1, {
        inputs: [tensorSpec("x", "FP32", [-1, 1]), tensorSpec("extra", "FP32", [-1, 1], { optional: true })],
      });
      const file = `slo_ms: 1000
budget: ${budget}
modules:
  - { id: 0, name: first, model: a }
  - { id: 1, name: extra, model: b, pres: [0], soft: true, inputs: { x: { module: first, tensor: y } } }
  - { id: 2, name: last, model: c, pres: [0, 1], inputs: { x: { module: first, tensor: y }, extra: { module: extra, tensor: y } } }
`;
      await serve(file, [model("a", 1), model("b", 1500), taker]);
      const { reply, error } = await fake.infer({ model: "p", value: 7 });
      expect([error, reply === null]).toEqual([null, false]);
      const taken = fake.pool.runs.filter(({ batch }) => batch.model === "c").map(({ batch }) => batch.members[0]!);
      expect(taken.map((inputs) => inputs.map(({ name }) => name))).toEqual([["x"]]);
    },
  );

  test("the entrance bounds requests and bytes, those between modules too", async () => {
    const limits = "queue: { requests_max: 3, bytes_max: 40 }";
    await serve(`slo_ms: 2000\n${limits}\n${SPLIT}`, [model("a", 30), model("b", 1), model("c", 1)]);
    // Nothing is known of what they will hold: 4 bytes each.
    const four = await Promise.all([1, 2, 3, 4].map((value) => fake.infer({ model: "p", value })));
    expect(four.filter(({ reply }) => reply !== null)).toHaveLength(3);
    expect(four[3]!.error).toMatchObject({ code: "resource-exhausted", details: { reason: "queue-full" } });
    expect(four[3]!.error!.message).toContain("must be at most 3 requests; was 4");
    // A request holds 16: its own, and three tensors of its modules.
    const more = await Promise.all([1, 2, 3].map((value) => fake.infer({ model: "p", value })));
    expect(more.map(({ reply }) => reply !== null)).toEqual([true, true, false]);
    expect(more[2]!.error).toMatchObject({ code: "resource-exhausted", details: { reason: "bytes-full" } });
    expect(more[2]!.error!.message).toContain("must be at most 40 bytes, those between modules included; was 48");
    expect(await fake.metric("rubato_pipeline_requests_total", ['outcome="dropped"', 'module=""'])).toBe(2);
    expect(await fake.metric("rubato_pipeline_bytes")).toBe(0);
  });

  test("a graceful end lets modules follow; a model that is gone ends requests by name", async () => {
    await serve(`slo_ms: 2000\n${SPLIT}`, [model("a", 40), model("b", 40), model("c", 1)], {
      modelControl: "explicit",
    }).catch(() => {});
    await fake.server.load("p", {});
    expect(fake.server.modelReady("p", "")).toBe(true);
    await fake.server.unload("c");
    expect(fake.server.modelReady("p", "")).toBe(false);
    // The index says the same, and who is missing.
    const why = "model 'c': the model is not loaded: unloaded";
    expect(fake.server.modelFault("p", "")).toBe(why);
    const row = (onlyReady: boolean) => fake.server.repositoryIndex(onlyReady).filter(({ name }) => name === "p");
    expect(row(false)).toEqual([{ name: "p", version: "1", state: "UNAVAILABLE", reason: why }]);
    expect(row(true)).toEqual([]);
    const gone = await fake.infer({ model: "p" });
    expect(gone.error).toMatchObject({ code: "unavailable", details: { module: "right", reason: "unloaded" } });
    await fake.server.load("c", {});
    expect(row(true)).toHaveLength(1);
    const last = fake.infer({ model: "p" });
    await sleep(5);
    const stopped = fake.server.stop(1000, 0, async () => {});
    await sleep(30);
    expect((await fake.infer({ model: "p" })).error).toMatchObject({
      code: "unavailable",
      details: { reason: "draining" },
    });
    expect((await last).reply).not.toBeNull();
    await stopped;
  });
});
