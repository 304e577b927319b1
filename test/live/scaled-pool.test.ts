/** Workers that are started, drained and parked: what the pool promises about it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { AcceleratorGroupSpec } from "../../src/config/model.js";
import { durationUs } from "../../src/core/time.js";
import { SCALE_DEFAULTS } from "../../src/scaling/advisor.js";
import { buildOnnx } from "../support/onnx-builder.js";
import { isAlive, PoolProbe } from "../support/pool-probe.js";
import { emulatedSpec, fp32, group, modelSpec, tensorSpec } from "../support/specs.js";

let probe: PoolProbe;
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-scaled-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  await probe.pool.stop(2000);
  expect(probe.inFlight).toBe(0);
  expect(probe.violations).toEqual([]);
});

const member = (...values: number[]) => [fp32("x", [1, 2], values)];
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function scaled(kind: "emulated" | "onnx", start: number, max: number, keepWarmMs: number): AcceleratorGroupSpec {
  const autoscale = {
    options: { ...SCALE_DEFAULTS, max, intervalUs: 1_000_000 },
    act: true,
    start,
    keepWarmUs: durationUs(keepWarmMs * 1000),
  };
  return group({ name: kind === "onnx" ? "cpu" : "emulated", kind, count: max, autoscale });
}

const pids = (count: number): number[] => Array.from({ length: count }, (_, i) => probe.pool.pidOf(i));

describe("a pool whose group is resized", { retry: 2 }, () => {
  test("starts with its start size; a new worker has its models before it joins", async () => {
    probe = new PoolProbe([scaled("emulated", 1, 3, 1000)]);
    await probe.start();
    expect(pids(3).map((pid) => pid > 0)).toEqual([true, false, false]);
    await probe.pool.load(emulatedSpec("m", { betaMs: 5 }));
    probe.pool.resize("emulated", 2);
    await probe.event("joined", 1);
    expect(await probe.run(1, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
    expect(probe.pool.pidOf(2)).toBe(0);
  });

  test("drains: batches on an accelerator that leaves end, also one sent a moment later; then it leaves", async () => {
    probe = new PoolProbe([scaled("emulated", 2, 2, 5000)]);
    await probe.start();
    await probe.pool.load(emulatedSpec("m", { betaMs: 150 }));
    const running = probe.run(1, "m", [member(1, 2)]);
    probe.pool.resize("emulated", 1);
    await probe.event("draining", 1);
    const after = probe.run(1, "m", [member(3, 4)]);
    expect(await running).toMatchObject({ kind: "finished" });
    expect(await after).toMatchObject({ kind: "finished" });
    await probe.event("left", 1);
    const order = probe.events
      .filter((event) => "accelerator" in event && event.accelerator === 1)
      .map(({ kind }) => kind);
    expect(order).toEqual(["joined", "draining", "finished", "finished", "left"]);
  });

  test("is back at once while its process is warm, and while it drains", async () => {
    probe = new PoolProbe([scaled("emulated", 2, 2, 5000)]);
    await probe.start();
    await probe.pool.load(emulatedSpec("m", { betaMs: 5 }));
    const pid = probe.pool.pidOf(1);
    probe.pool.resize("emulated", 1);
    probe.pool.resize("emulated", 2);
    expect(probe.events.at(-1)).toMatchObject({ kind: "joined", accelerator: 1 });
    await sleep(150);
    probe.pool.resize("emulated", 1);
    await probe.event("left", 1);
    probe.pool.resize("emulated", 2);
    expect(probe.events.at(-1)).toMatchObject({ kind: "joined", accelerator: 1 });
    expect(probe.pool.pidOf(1)).toBe(pid);
    expect(await probe.run(1, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("ends a parked process after its warm time, and starts another when it is wanted again", async () => {
    probe = new PoolProbe([scaled("emulated", 2, 2, 50)]);
    await probe.start();
    await probe.pool.load(emulatedSpec("m", { betaMs: 5 }));
    const pid = probe.pool.pidOf(1);
    probe.pool.resize("emulated", 1);
    await probe.event("left", 1);
    for (let i = 0; i < 200 && probe.pool.pidOf(1) !== 0; i++) await sleep(10);
    expect(probe.pool.pidOf(1)).toBe(0);
    expect(isAlive(pid)).toBe(false);
    expect(probe.logs.filter((line) => line.startsWith("error"))).toEqual([]);
    // Loaded while it was parked: it must have this one as well.
    await probe.pool.load(emulatedSpec("n", { betaMs: 5 }));
    const joined = probe.events.length;
    probe.pool.resize("emulated", 2);
    await probe.event("joined", 1, joined);
    expect(await probe.run(1, "n", [member(1, 2)])).toMatchObject({ kind: "finished" });
    expect(await probe.run(1, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("a parked worker that crashes stays away; a wanted one is replaced", async () => {
    probe = new PoolProbe([scaled("emulated", 2, 2, 5000)], { respawnMinMs: 10 });
    await probe.start();
    await probe.pool.load(emulatedSpec("m", { betaMs: 5 }));
    probe.pool.resize("emulated", 1);
    await probe.event("left", 1);
    await probe.pool.fault(1, { kind: "crash" });
    for (let i = 0; i < 200 && probe.pool.pidOf(1) !== 0; i++) await sleep(10);
    await sleep(300);
    expect(probe.pool.pidOf(1)).toBe(0);
    const before = probe.events.length;
    await probe.pool.fault(0, { kind: "crash" });
    await probe.event("joined", 0, before);
    expect(await probe.run(0, "m", [member(1, 2)])).toMatchObject({ kind: "finished" });
  });

  test("scales onnx workers: one process each, loaded again when it comes back", async () => {
    probe = new PoolProbe([scaled("onnx", 1, 2, 50)]);
    await probe.start();
    const file = path.join(folder, "identity.onnx");
    const dims = ["batch", 2];
    writeFileSync(
      file,
      buildOnnx({
        inputs: [{ name: "x", type: 1, dims }],
        outputs: [{ name: "y", type: 1, dims }],
        nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
      }),
    );
    await probe.pool.load(
      modelSpec({
        name: "m",
        file,
        inputs: [tensorSpec("x", "FP32", [-1, 2])],
        outputs: [tensorSpec("y", "FP32", [-1, 2])],
      }),
    );
    probe.pool.resize("cpu", 2);
    await probe.event("joined", 1);
    const running = probe.run(1, "m", [member(1, 2)]);
    probe.pool.resize("cpu", 1);
    expect(await running).toMatchObject({ kind: "finished" });
    await probe.event("left", 1);
    for (let i = 0; i < 300 && probe.pool.pidOf(1) !== 0; i++) await sleep(10);
    expect(probe.pool.pidOf(1)).toBe(0);
    const before = probe.events.length;
    probe.pool.resize("cpu", 2);
    await probe.event("joined", 1, before);
    expect(await probe.run(1, "m", [member(3, 4)])).toMatchObject({ kind: "finished" });
  });
});
