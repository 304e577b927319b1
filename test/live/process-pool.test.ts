import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { ModelSpec } from "../../src/config/model.js";
import { durationUs } from "../../src/core/time.js";
import { interpolateTable } from "../../src/serve/models/model-profile.js";
import { profileModel } from "../../src/serve/models/profiler.js";
import { readRepository } from "../../src/serve/repository/repository.js";
import type { PoolEvent } from "../../src/serve/workers/worker-pool.js";
import { monotonicNow } from "../../src/wire/clock/monotonic-clock.js";
import { buildOnnx } from "../support/onnx-builder.js";
import { isAlive, PoolProbe } from "../support/pool-probe.js";
import { emulatedSpec, floats, fp32, group, modelSpec, padded, tensorSpec } from "../support/specs.js";

const root = path.resolve(import.meta.dirname, "../..");
let folder: string;
let probe: PoolProbe;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-pool-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  const pids = probe.pool.groups.flatMap((g) => g.scales.map((_, i) => probe.pool.pidOf(i))).filter((pid) => pid > 0);
  await probe.pool.stop(2000);
  for (const pid of pids) expect(isAlive(pid)).toBe(false);
  expect(probe.inFlight).toBe(0);
  expect(probe.violations).toEqual([]);
});

const member = (...values: number[]) => [fp32("x", [1, 2], values)];

/** y = x W with a symbolic batch: position-wise, so that padding and batching change nothing. */
function matmul(name: string, size = 2) {
  const file = path.join(folder, `${name}.onnx`);
  const floats_ = Array.from({ length: size * 2 }, (_, i) => ((i * 7) % 11) / 11 - 0.5);
  writeFileSync(
    file,
    buildOnnx({
      inputs: [{ name: "x", type: 1, dims: ["batch", 2] }],
      outputs: [{ name: "y", type: 1, dims: ["batch", size] }],
      nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["y"] }],
      initializers: [{ name: "w", dims: [2, size], floats: floats_ }],
    }),
  );
  const inputs = [tensorSpec("x", "FP32", [-1, 2])];
  return modelSpec({ name, file, inputs, outputs: [tensorSpec("y", "FP32", [-1, size])] });
}

describe("emulated accelerators", { retry: 2 }, () => {
  async function start(count: number, options = {}) {
    probe = new PoolProbe([group({ name: "emulated", kind: "emulated", count })], { hangFloorMs: 300, ...options });
    await probe.start();
  }

  test("take as long as the profile says, run one batch at a time, and echo", async () => {
    await start(2);
    await probe.pool.load(emulatedSpec("m", { alphaMs: 2, betaMs: 10 }));
    const [first, second, other] = await Promise.all([
      probe.run(0, "m", [member(1, 2), member(3, 4)]),
      probe.run(0, "m", [member(5, 6)]),
      probe.run(1, "m", [member(7, 8)]),
    ]);
    if (first.kind !== "finished" || second.kind !== "finished" || other.kind !== "finished") throw new Error("failed");
    expect(first.finishedAt - first.startedAt).toBe(14_000);
    expect(second.startedAt).toBeGreaterThanOrEqual(first.finishedAt);
    expect(other.startedAt).toBeLessThan(first.finishedAt);
    expect(first.outputs.map((outputs) => floats(outputs[0]!))).toEqual([
      [1, 2],
      [3, 4],
    ]);
  });

  test("start no earlier than told; a batch that has not begun can be taken back", async () => {
    await start(1);
    await probe.pool.load(emulatedSpec("m", { betaMs: 5 }));
    const earliestStartAt = (monotonicNow() + 50_000) as ReturnType<typeof monotonicNow>;
    const later = await probe.run(0, "m", [member(1, 2)], { earliestStartAt });
    expect(later).toMatchObject({ kind: "finished", startedAt: earliestStartAt });
    void probe.run(0, "m", [member(1, 2)], { batch: 70 });
    void probe.run(0, "m", [member(1, 2)], { batch: 71 });
    expect(await probe.pool.cancel(0, 71)).toBe(true);
    probe.forget(71);
    expect(await probe.pool.cancel(0, 71)).toBe(false);
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("a cancellation overtakes a tensor frame of 50 MB that is still on its way", async () => {
    await start(1);
    const wide = emulatedSpec("wide", { betaMs: 200 }, { inputs: [tensorSpec("x", "FP32", [-1, -1])], outputs: [] });
    await probe.pool.load(wide);
    void probe.run(0, "wide", [[fp32("x", [1, 1], [1])]], { batch: 80 });
    void probe.run(0, "wide", [[fp32("x", [1, 2], [1, 2])]], { batch: 81 });
    await new Promise((resolve) => setTimeout(resolve, 20));
    const big = { name: "x", datatype: "FP32", shape: [1, 12_500_000], data: new Uint8Array(50_000_000) } as const;
    expect(await probe.pool.cancel(0, 81)).toBe(true);
    probe.forget(81);
    const sent = probe.run(0, "wide", [[big]], { batch: 82 });
    const askedAt = monotonicNow();
    await probe.pool.cancel(0, 83);
    const answeredAt = monotonicNow();
    expect((await sent).kind).toBe("finished");
    const arrivedAt = monotonicNow();
    expect(answeredAt - askedAt).toBeLessThan(arrivedAt - askedAt);
  });

  test("a crash fails the batches inside once each, then the worker is replaced with its models", async () => {
    await start(2);
    await probe.pool.load(emulatedSpec("m", { betaMs: 300 }));
    const pid = probe.pool.pidOf(0);
    const running = [
      probe.run(0, "m", [member(1, 2)]),
      probe.run(0, "m", [member(3, 4)]),
      probe.run(1, "m", [member(5, 6)]),
    ];
    const back = probe.next((event) => event.kind === "joined");
    process.kill(pid, "SIGKILL");
    for (const ended of await Promise.all(running))
      expect(ended).toMatchObject({ kind: "failed", cause: "worker-crashed", message: /signal SIGKILL/ });
    await back;
    const tail = probe.kinds().slice(2);
    expect(tail.slice(0, 6)).toEqual(["failed", "failed", "failed", "left", "left", "joined"]);
    expect(probe.events.find((event) => event.kind === "left")).toMatchObject({
      willRestart: true,
      cause: "worker-crashed",
    });
    expect(probe.pool.pidOf(0)).not.toBe(pid);
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("a batch that hangs is killed and says so; the one behind it only lost its worker", async () => {
    await start(1);
    await probe.pool.load(emulatedSpec("m", { betaMs: 2 }));
    await probe.pool.fault(0, { kind: "hang" });
    const predictedUs = durationUs(2000);
    const back = probe.next((event) => event.kind === "joined");
    const [hung, behind] = await Promise.all([
      probe.run(0, "m", [member(1, 2)], { predictedUs }),
      probe.run(0, "m", [member(1, 2)], { predictedUs }),
    ]);
    expect(hung).toMatchObject({
      kind: "failed",
      cause: "worker-hung",
      message: /ran longer than 10 x its predicted 2000 µs/,
    });
    expect(behind).toMatchObject({ kind: "failed", cause: "worker-crashed" });
    await back;
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("a batch that keeps its worker keeps its model from the last worker where another model shares them", async () => {
    await start(2, { hangFloorMs: 10_000 });
    const isConfined = (event: PoolEvent): boolean => event.kind === "confined";
    await probe.pool.load(emulatedSpec("slow", { betaMs: 400 }));
    const predictedUs = durationUs(1000);
    await probe.run(0, "slow", [member(1, 2)], { predictedUs });
    expect(probe.kinds()).toContain("overdue");
    expect(probe.kinds()).not.toContain("confined");
    const alone = probe.run(0, "slow", [member(1, 2)], { predictedUs });
    await probe.next(({ kind }) => kind === "overdue");
    const told = probe.next(isConfined);
    await probe.pool.load(emulatedSpec("other", { betaMs: 2 }));
    expect(await told).toMatchObject({ model: "slow", to: "all-but-one" });
    const free = probe.next(isConfined);
    await alone;
    expect(await free).toMatchObject({ model: "slow", to: "all" });
  });

  test("slow and stall take effect; what is slow but within the limit is left alone", async () => {
    await start(1);
    await probe.pool.load(emulatedSpec("m", { betaMs: 10 }));
    await probe.pool.fault(0, { kind: "slow", factor: 5 });
    const slow = await probe.run(0, "m", [member(1, 2)], { predictedUs: durationUs(10_000) });
    if (slow.kind !== "finished") throw new Error(slow.message);
    expect(slow.finishedAt - slow.startedAt).toBe(50_000);
    await probe.pool.fault(0, { kind: "slow", factor: 1 });
    await probe.pool.fault(0, { kind: "stall", us: 100_000 });
    const askedAt = monotonicNow();
    const stalled = await probe.run(0, "m", [member(1, 2)]);
    if (stalled.kind !== "finished") throw new Error(stalled.message);
    expect(stalled.startedAt - askedAt).toBeGreaterThan(90_000);
  });

  test("a poisonous request trips the breaker; other models are served on", async () => {
    await start(1, { breakerKillsMax: 2, respawnMinMs: 10 });
    await probe.pool.load(emulatedSpec("poisoned", { betaMs: 1 }));
    await probe.pool.load(emulatedSpec("healthy", { betaMs: 1 }));
    const poison = [{ ...member(1, 2)[0]!, data: Uint8Array.of(99, 0, 0, 0, 0, 0, 0, 0) }];
    for (let i = 0; i < 2; i++) {
      await probe.pool.fault(0, { kind: "poison", byte: 99 });
      const back = probe.next((event) => event.kind === "joined");
      expect(await probe.run(0, "poisoned", [poison])).toMatchObject({ kind: "failed", cause: "worker-crashed" });
      await back;
    }
    expect(await probe.run(0, "poisoned", [poison])).toMatchObject({
      kind: "failed",
      cause: "worker-crashed",
      message: /model 'poisoned' keeps ending its workers; retried in \d+\.\d s/,
    });
    expect(probe.logs.join("\n")).toContain("model 'poisoned' keeps ending its workers: its batches are refused");
    expect(await probe.run(0, "healthy", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("workers that are killed from outside are nobody's fault: the model they ran is served on", async () => {
    await start(1, { respawnMinMs: 10, respawnMaxMs: 10 });
    await probe.pool.load(emulatedSpec("m", { betaMs: 200 }));
    for (let i = 0; i < 6; i++) {
      const back = probe.next((event) => event.kind === "joined");
      const ended = probe.run(0, "m", [member(1, 2)]);
      process.kill(probe.pool.pidOf(0), "SIGKILL");
      expect(await ended).toMatchObject({ kind: "failed", cause: "worker-crashed", isGuilty: false });
      await back;
    }
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
    expect(probe.kinds()).not.toContain("confined");
  });

  test("the in-flight count returns to zero after any mix of endings (worker's and pool's agree)", async () => {
    await start(4, { emulatedPerProcess: 2 });
    await probe.pool.load(emulatedSpec("m", { betaMs: 3 }));
    const endings: Promise<unknown>[] = [];
    for (let round = 0; round < 30; round++) {
      for (let accelerator = 0; accelerator < 4; accelerator++)
        endings.push(
          probe.run(accelerator, "m", [round % 7 === 3 ? [fp32("x", [20, 2], new Array(40).fill(0))] : member(1, 2)]),
        );
      const back = probe.next((event) => event.kind === "joined" && event.accelerator === 1);
      if (round === 10) process.kill(probe.pool.pidOf(0), "SIGKILL");
      await Promise.all(endings);
      if (round === 10) await back;
    }
    const ended = probe.events.filter((event) => event.kind === "finished" || event.kind === "failed");
    expect(ended.length).toBe(120);
    expect(
      ended.filter((event) => event.kind === "failed" && event.cause === "model-error").length,
    ).toBeGreaterThanOrEqual(12);
    expect(probe.inFlight).toBe(0);
  });

  test("what cannot run is refused by event, never thrown or lost", async () => {
    await start(1);
    expect(await probe.run(0, "nobody", [member(1, 2)])).toMatchObject({ kind: "failed", cause: "no-accelerator" });
    await probe.pool.load(emulatedSpec("m", { betaMs: 1 }, { batchSizeMax: 1 }));
    expect(await probe.run(0, "m", [member(1, 2), member(1, 2)])).toMatchObject({
      cause: "model-error",
      message: "model 'm' takes at most 1 rows; was 2",
    });
    await probe.pool.unload("m");
    await expect(probe.pool.unload("m")).rejects.toThrow("model 'm' is not loaded");
    await expect(probe.pool.load(matmul("real"))).rejects.toThrow("group must be one of emulated; was cpu");
    process.kill(probe.pool.pidOf(0), "SIGKILL");
    await probe.next((event) => event.kind === "left");
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "failed" });
    await probe.next((event) => event.kind === "joined");
  });

  test("stop lets what runs finish and kills what does not", async () => {
    await start(2, { emulatedPerProcess: 1 });
    await probe.pool.load(emulatedSpec("m", { betaMs: 50 }));
    await probe.pool.fault(1, { kind: "hang" });
    const [fine, hung] = [probe.run(0, "m", [member(1, 2)]), probe.run(1, "m", [member(1, 2)])];
    await probe.pool.stop(300);
    expect(await fine).toMatchObject({ kind: "finished" });
    expect(await hung).toMatchObject({ kind: "failed", cause: "draining" });
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "failed", cause: "draining" });
    expect(probe.events.filter((event) => event.kind === "left").every((event) => !event.willRestart)).toBe(true);
  });
});

describe("onnx accelerators", { retry: 2 }, () => {
  async function start(count: number, options = {}) {
    probe = new PoolProbe([group({ name: "cpu", kind: "onnx", count })], { warmUpMs: 50, ...options });
    await probe.start();
  }

  test("run batches of real tensors; outputs come back to their members", async () => {
    await start(1);
    await probe.pool.load(matmul("m"));
    const ended = await probe.run(0, "m", [member(1, 0), member(0, 1), member(2, 4)]);
    if (ended.kind !== "finished") throw new Error(ended.message);
    const [a, b, c] = ended.outputs.map((outputs) => floats(outputs[0]!));
    for (const [i, value] of c!.entries()) expect(value).toBeCloseTo(2 * a![i]! + 4 * b![i]!, 5);
    expect(ended.finishedAt).toBeGreaterThanOrEqual(ended.startedAt);
  });

  test("an error of the runtime fails its batch with the runtime's text; the worker lives on", async () => {
    await start(1);
    await probe.pool.load(matmul("m"));
    const pid = probe.pool.pidOf(0);
    const bad = [fp32("x", [1, 3], [1, 2, 3])];
    expect(await probe.run(0, "m", [bad])).toMatchObject({
      cause: "model-error",
      code: "invalid-argument",
      message: /Got: 3 Expected: 2/,
    });
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
    expect(probe.pool.pidOf(0)).toBe(pid);
  });

  test("kill -9 under load: every batch ends once, capacity and models are back", async () => {
    await start(2);
    await probe.pool.load(matmul("m", 4096));
    const pids = [0, 1].map((i) => probe.pool.pidOf(i));
    const killedAt = Date.now();
    const back = probe.next((event) => event.kind === "joined" && event.accelerator === 0);
    const many = Array.from({ length: 8 }, () => member(1, 2));
    let failed = 0;
    let finished = 0;
    for (let i = 0; i < 60; i++) {
      if (i === 20) process.kill(pids[0]!, "SIGKILL");
      for (const ended of await Promise.all([
        probe.run(0, "m", many),
        probe.run(1, "m", many),
        probe.run(0, "m", many),
      ]))
        if (ended.kind === "failed") {
          failed++;
          expect(ended).toMatchObject({ accelerator: 0, cause: "worker-crashed" });
        } else finished++;
    }
    expect(failed).toBeGreaterThan(0);
    expect(failed + finished).toBe(180);
    await back;
    expect(Date.now() - killedAt).toBeLessThan(10_000);
    expect(await probe.run(0, "m", many)).toMatchObject({ kind: "finished" });
    expect(probe.pool.pidOf(1)).toBe(pids[1]);
  });

  test("two parallel loads of one model are one load; a broken file changes nothing and says why at once", async () => {
    await start(2);
    const model = matmul("m");
    const first = probe.pool.load(model);
    expect(probe.pool.load({ ...model })).toBe(first);
    await first;
    const file = path.join(folder, "broken.onnx");
    writeFileSync(file, "not a model");
    const from = Date.now();
    await expect(probe.pool.load({ ...model, file })).rejects.toThrow(
      /model 'm' .*broken\.onnx.* cannot be loaded: .*protobuf/i,
    );
    // 1 s on a machine of its own; the error is there as soon as a thread has started.
    expect(Date.now() - from).toBeLessThan(5000);
    expect(await probe.run(1, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("loading another model does not hold up the one that serves: its runs go on meanwhile", async () => {
    await start(1);
    await probe.pool.load(matmul("m"));
    const large = matmul("large", 2_000_000);
    let loaded = false;
    const load = probe.pool.load(large).then(() => {
      loaded = true;
    });
    let during = 0;
    while (!loaded) {
      expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
      if (!loaded) during++;
    }
    await load;
    expect(during).toBeGreaterThan(5);
  });

  test("a new version replaces the old without a gap; unload frees and refuses", async () => {
    await start(1);
    await probe.pool.load(matmul("m"));
    const swap = probe.pool.load({ ...matmul("m", 3), version: "2", outputs: [tensorSpec("y", "FP32", [-1, 3])] });
    const sizes = new Set<number>();
    let done = false;
    void swap.then(() => {
      done = true;
    });
    while (!done) {
      const ended = await probe.run(0, "m", [member(1, 2)]);
      if (ended.kind === "finished") sizes.add(ended.outputs[0]![0]!.shape[1]!);
      else expect(ended.message).toBe("");
    }
    const after = await probe.run(0, "m", [member(1, 2)]);
    if (after.kind === "finished") sizes.add(after.outputs[0]![0]!.shape[1]!);
    expect([...sizes]).toEqual([2, 3]);
    await probe.pool.unload("m");
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ cause: "no-accelerator" });
  });

  test("loaded beside: each batch runs on what it was meant for, until that is released", async () => {
    await start(1);
    const old = matmul("m");
    await probe.pool.load(old);
    const next = { ...matmul("m", 3), version: "2", outputs: [tensorSpec("y", "FP32", [-1, 3])] };
    await probe.pool.loadBeside(next);
    const columns = async (spec?: ModelSpec) => {
      const ended = await probe.run(0, "m", [member(1, 2)], spec === undefined ? {} : { spec });
      return ended.kind === "finished" ? ended.outputs[0]![0]!.shape[1] : ended.cause;
    };
    expect([await columns(old), await columns(next), await columns()]).toEqual([2, 3, 3]);
    await probe.pool.release(next);
    expect([await columns(old), await columns(next), await columns()]).toEqual([2, "no-accelerator", 2]);
    await probe.pool.release(old);
    expect(await columns()).toBe("no-accelerator");
  });

  test("frames beyond the limit are refused with limit and size, both ways", async () => {
    await start(1, { payloadBytesMax: 100_000 });
    await probe.pool.load(matmul("m", 100_000));
    const wide = [fp32("x", [20_000, 2], new Array(40_000).fill(1))];
    expect(await probe.run(0, "m", [wide])).toMatchObject({
      cause: "model-error",
      message: "frame payload must be at most 100000 bytes; was 160000",
    });
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({
      cause: "model-error",
      message: "frame payload must be at most 100000 bytes; was 400000",
    });
  });

  test("faults are refused by real accelerators; a thread budget above the machine is a warning", async () => {
    await start(1, { cores: 0 });
    await expect(probe.pool.fault(0, { kind: "hang" })).rejects.toThrow("fault 'hang' is for emulated accelerators");
    expect(probe.logs[0]).toContain("onnx groups use 1 threads in all (count x threads) on 0 hardware threads");
  });

  test("a worker that cannot start fails the start of the pool, and nothing is left running", async () => {
    probe = new PoolProbe([group({ name: "cpu", kind: "onnx", count: 2 })], { startTimeoutMs: 1 });
    await expect(probe.start()).rejects.toThrow(
      /a worker cannot start: worker process ended \(start took longer than 1 ms\)/,
    );
    expect([0, 1].map((i) => probe.pool.pidOf(i))).toEqual([0, 0]);
  });

  test("all workers killed at once: they come back, warmed up one at a time", async () => {
    await start(2, { warmUpMs: 100 });
    await probe.pool.load(matmul("m", 4096));
    const pids = [0, 1].map((i) => probe.pool.pidOf(i));
    const back = [0, 1].map((i) => probe.next((event) => event.kind === "joined" && event.accelerator === i));
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await Promise.all(back);
    for (const i of [0, 1]) expect(await probe.run(i, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("a worker that stands still holds up no unload: it is replaced", async () => {
    await start(1, { loadTimeoutMs: 2000 });
    await probe.pool.load(matmul("m"));
    await probe.pool.load(matmul("other"));
    process.kill(probe.pool.pidOf(0), "SIGSTOP");
    const back = probe.next((event) => event.kind === "joined");
    await probe.pool.unload("m");
    await back;
    expect(probe.logs.join("\n")).toContain("unload took longer than 2000 ms");
    expect(await probe.run(0, "other", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("a worker over its memory limit is replaced, and says why", async () => {
    await start(1, { memoryBytesMax: 1, respawnMinMs: 3000 });
    await probe.next((event) => event.kind === "left");
    expect(probe.logs.join("\n")).toMatch(/ended: memory must be at most 1 bytes; was \d+$/m);
  });

  test("profiles: sizes and buckets, alone and with all workers busy, fitted, and read as a table", async () => {
    await start(2);
    const file = path.join(folder, "variable.onnx");
    writeFileSync(
      file,
      buildOnnx({
        inputs: [{ name: "x", type: 1, dims: ["batch", "n", 64] }],
        outputs: [{ name: "y", type: 1, dims: ["batch", "n", 64] }],
        nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["y"] }],
        initializers: [{ name: "w", dims: [64, 64], floats: new Array(4096).fill(0.01) }],
      }),
    );
    const inputs = [tensorSpec("x", "FP32", [-1, -1, 64], { variable: padded(1, [16, 256]) })];
    const spec = modelSpec({ name: "v", file, inputs, outputs: [tensorSpec("y", "FP32", [-1, -1, 64])] });
    await probe.pool.load(spec);
    const steps: number[] = [];
    const runtime = probe.pool.runtimeOf("cpu");
    const onProgress = (progress: { spent: number }) => steps.push(progress.spent);
    const profile = await profileModel(probe.pool, spec, { budgetMs: 1500, onProgress, runtime });
    expect(runtime).toMatch(/^onnxruntime \d/);
    expect(profile.environment).toMatchObject({ threads: 1, accelerators: 2, runtime });
    expect(profile.complete).toBe(true);
    expect(profile.points.map((p) => [p.extent, p.batchSize])).toEqual(
      [16, 256].flatMap((extent) => [1, 2, 4, 8].map((b) => [extent, b])),
    );
    expect(steps.length).toBe(8);
    const [short, long] = [interpolateTable(profile, 16), interpolateTable(profile, 256)];
    expect(long[8]!).toBeGreaterThan(short[8]!);
    expect(profile.fits[1]!.alone.alphaUs).toBeGreaterThan(0);
  });

  test("a model that refuses what profiling feeds names the setting that helps", async () => {
    await start(1);
    const spec = modelSpec({ ...matmul("m"), inputs: [tensorSpec("x", "FP32", [-1, -1])] });
    await probe.pool.load(spec);
    expect(probe.logs.join("\n")).toContain("Got: 32 Expected: 2");
    await expect(profileModel(probe.pool, spec)).rejects.toThrow("give inputs.x.profile_shape in rubato.yaml");
  });

  test("models of packages come from a repository and run", async () => {
    const repository = path.join(folder, "repository");
    mkdirSync(path.join(repository, "vad"), { recursive: true });
    writeFileSync(
      path.join(repository, "vad", "rubato.yaml"),
      "slo_ms: 20\nmodel_file: npm:@ricky0123/vad-web/dist/silero_vad_v5.onnx\ninputs:\n  input: { batch_axis: 0, profile_shape: [1, 576] }\n  state: { batch_axis: 1 }\n  sr: { profile_value: 16000 }\noutputs: { stateN: { batch_axis: 1 } }\n",
    );
    const { models, errors } = readRepository(repository);
    expect(errors).toEqual([]);
    await start(1);
    await probe.pool.load(models[0]!);
    expect(probe.logs.join("\n")).not.toContain("not warmed up");
    const profile = await profileModel(probe.pool, models[0]!, { budgetMs: 500 });
    expect(profile.points.length).toBeGreaterThan(2);
  });
});

/** Runs a script against the built pool, with models as its arguments. @returns what it printed. */
async function runPool(script: string, models: readonly ModelSpec[], env: Record<string, string>): Promise<string> {
  const source = `import { ProcessPool } from ${JSON.stringify(path.join(root, "dist/serve/workers/process-pool.js"))};\n${script}`;
  const child = spawn(
    process.execPath,
    ["--input-type=module", "-e", source, ...models.map((m) => JSON.stringify(m))],
    {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, ...env },
    },
  );
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  await new Promise((resolve) => child.once("close", resolve));
  return said;
}

test("a worker reports to nobody: it leaves nothing in the home's cache or the temporary folder", async () => {
  probe = new PoolProbe([group({ name: "cpu", kind: "onnx" })]);
  const script = `
    const pool = new ProcessPool([{ name: "cpu", kind: "onnx", count: 1, threads: 1, scales: [1] }]);
    await pool.start(() => {});
    await pool.load(JSON.parse(process.argv[1]));
    await pool.time(0, "m", 1, null, 3);
    await pool.stop(2000);
    console.log("done");
  `;
  const [home, tmp] = ["home", "tmp"].map((name) => path.join(folder, name));
  for (const made of [home!, tmp!]) mkdirSync(made);
  const env = { HOME: home!, XDG_CACHE_HOME: home!, TMPDIR: tmp!, ORT_DISABLE_TELEMETRY: "0" };
  expect(await runPool(script, [matmul("m")], env)).toBe("done\n");
  expect([home!, tmp!].map((made) => readdirSync(made))).toEqual([[], []]);
});

test("no worker outlives a server that is killed, not even one that runs a batch", async () => {
  probe = new PoolProbe([group({ name: "cpu", kind: "onnx" })]);
  const script = `
    import { ProcessPool } from ${JSON.stringify(path.join(root, "dist/serve/workers/process-pool.js"))};
    const pool = new ProcessPool([{ name: "cpu", kind: "onnx", count: 2, threads: 1, scales: [1, 1] }]);
    await pool.start(() => {});
    await pool.load(JSON.parse(process.argv[1]));
    void pool.time(0, "m", 8, null, 1e9);
    console.log([pool.pidOf(0), pool.pidOf(1)].join(" "));
  `;
  const server = spawn(process.execPath, ["--input-type=module", "-e", script, JSON.stringify(matmul("m", 4096))], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const pids = await new Promise<number[]>((resolve) => {
    server.stdout.once("data", (chunk: Buffer) => resolve(chunk.toString().trim().split(" ").map(Number)));
  });
  expect(pids.every(isAlive)).toBe(true);
  server.kill("SIGKILL");
  for (let i = 0; i < 100 && pids.some(isAlive); i++) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(pids.map(isAlive)).toEqual([false, false]);
});

const NONE_LEFT = "a worker process needs pipes and no file descriptor is left (ulimit -n)";
test("without file descriptors a worker cannot start, but one that ended is replaced", async () => {
  probe = new PoolProbe([group({ name: "emulated", kind: "emulated" })]);
  const script = `
    import { openSync, closeSync } from "node:fs";
    import { ProcessPool } from ${JSON.stringify(path.join(root, "dist/serve/workers/process-pool.js"))};
    const groups = [{ name: "emulated", kind: "emulated", count: 1, threads: 1, scales: [1] }];
    const logs = [];
    const create = () => new ProcessPool(groups, { respawnMinMs: 20, respawnMaxMs: 20, log: ({ message }) => logs.push(message) });
    const held = [];
    const fill = () => { try { for (;;) held.push(openSync("/dev/null")); } catch {} };
    fill();
    await create().start(() => {}).catch((error) => console.log(error.message));
    for (const file of held.splice(0)) closeSync(file);
    const pool = create();
    let joins = 0;
    await pool.start((event) => { if (event.kind === "joined") joins++; });
    fill();
    const until = async (test) => { while (!test()) await new Promise((resolve) => setTimeout(resolve, 10)); };
    for (let round = 2; round <= 5; round++) {
      process.kill(pool.pidOf(0), "SIGKILL");
      await until(() => joins === round);
      fill();
    }
    for (const file of held) closeSync(file);
    await pool.stop(1000);
    console.log("replaced");
  `;
  const command = `ulimit -n 128; exec "$0" --input-type=module -e "$1"`;
  const child = spawn("bash", ["-c", command, process.execPath, script], { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  expect([await new Promise((resolve) => child.once("exit", resolve)), said]).toEqual([
    0,
    `a worker cannot start: ${NONE_LEFT}\nreplaced\n`,
  ]);
});

test("a server whose own thread stood still does not take its workers for hung", async () => {
  probe = new PoolProbe([group({ name: "emulated", kind: "emulated" })], { hangFloorMs: 200 });
  await probe.start();
  await probe.pool.load(emulatedSpec("m", { betaMs: 100 }));
  const ended = probe.run(0, "m", [member(1, 2)], { predictedUs: durationUs(50_000) });
  // The hang timer is due before the answer, long there, can be read.
  for (const until = monotonicNow() + 1_500_000; monotonicNow() < until; );
  expect(await ended).toMatchObject({ kind: "finished" });
  expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  expect(probe.kinds()).not.toContain("left");
});

test("starting and stopping leaves no file descriptor open", async () => {
  const open = () => readdirSync("/proc/self/fd").length;
  const cycle = async (): Promise<void> => {
    probe = new PoolProbe([group({ name: "emulated", kind: "emulated" })]);
    await probe.start();
    await probe.pool.stop(1000);
  };
  await cycle();
  const before = open();
  for (let i = 0; i < 3; i++) await cycle();
  expect(open()).toBeLessThanOrEqual(before);
});
