/** The online profiler of the live server: in virtual time, under faults and without, and on a real model. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { serverConfigFrom } from "../../src/config/server/server.js";
import { parseSource } from "../../src/config/source.js";
import { decodeLog, replay } from "../../src/core/event-log.js";
import { LOG_SHADOW_ADDED, LOG_WIDTH } from "../../src/core/event-rows.js";
import { durationUs } from "../../src/core/time.js";
import { liveSpec } from "../../src/policies/live.js";
import { groupPolicy } from "../../src/policies/registry.js";
import { profileOfEmulated } from "../../src/serve/models/model-profile.js";
import { ModelTimes } from "../../src/serve/models/model-times.js";
import { silentLog } from "../../src/serve/observation/log.js";
import { runServer } from "../../src/serve/running-server.js";
import { Server } from "../../src/serve/server.js";
import { stream } from "../../src/sim/random.js";
import { fp32, group, modelSpec } from "../fakes/fake-server.js";
import { VirtualPool } from "../fakes/virtual-pool.js";
import { modelFile } from "../models/direct-client.js";
import { VirtualClock } from "../support/virtual-clock.js";
import { VirtualServer } from "../support/virtual-server.js";

const MS = 1000;
const SEEDS = [8, 25, 36, 43];

/** @returns what clients saw, and how requests fared that were run again. */
async function serve(seed: number, file: string): Promise<{ calls: string; again: Map<string, number> }> {
  const world = new VirtualServer(seed, false, { profiledPart: 1, eventLog: { file, bytesMax: 1 << 26 } });
  await world.start();
  world.traffic(500 * MS);
  await world.pass(8500 * MS);
  await world.stop(1000);
  return { calls: JSON.stringify(world.calls), again: (await world.counted()).again };
}

test(`requests are run again alike for a seed, and the log replays (seeds ${SEEDS})`, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-profiler-"));
  const file = path.join(folder, "events.log");
  let ran = 0;
  try {
    for (const seed of SEEDS) {
      const first = await serve(seed, file);
      const log = decodeLog(readFileSync(file));
      const kinds = Array.from({ length: log.rows.length / LOG_WIDTH }, (_, row) => log.rows[row * LOG_WIDTH]);
      const again = [...first.again.values()].reduce((sum, each) => sum + each, 0);
      expect(kinds.filter((kind) => kind === LOG_SHADOW_ADDED)).toHaveLength(again);
      const { difference, commands } = replay(log, groupPolicy, liveSpec);
      expect(difference, `seed ${seed}`).toBeNull();
      expect(commands).toBeGreaterThan(100);
      expect(await serve(seed, file), `seed ${seed}`).toEqual(first);
      ran += first.again.get("ran") ?? 0;
    }
    expect(ran).toBeGreaterThan(0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** Rounds of a request of `first`, and of four of `others` that come while it runs and go together. */
async function rounds(count: number, profiler: boolean) {
  const clock = new VirtualClock();
  const groups = [group(1, { kind: "onnx", policy: { name: "distribution+", options: {} } })];
  const twin = modelSpec({ sloUs: durationUs(1000 * MS) });
  const spec = { ...twin, platform: "onnx_onnxv1", emulated: null } as const;
  const times = new ModelTimes(spec, profileOfEmulated(twin));
  const pool = new VirtualPool(clock, groups, (_, size) => times.us(size, null));
  const sizes = new Map<string, number[]>();
  const run = pool.run.bind(pool);
  pool.run = (accelerator, batch) => {
    for (const kind of batch.kinds) sizes.set(String(kind), [...(sizes.get(String(kind)) ?? []), batch.members.length]);
    run(accelerator, batch);
  };
  const server = new Server({
    clock,
    pool,
    log: silentLog(),
    tracer: null,
    slots: 64,
    retriesMax: 1,
    eventLog: null,
    modelControl: "none",
    profiler: profiler ? { timeShare: 0.01, requestShare: 1, observations: 5 } : null,
    random: stream(1, "profiler"),
    onBroken: (error) => {
      throw error;
    },
    models: { names: () => ["m"], read: () => [spec], times: async () => times },
  });
  const started = server.start();
  await clock.run(clock.now() + MS);
  await started;
  const answers: string[] = [];
  const send = (app: string): void => {
    const input = fp32("x", 1, answers.length);
    const at = answers.push("") - 1;
    const call = { model: "m", version: "", id: "", inputs: [input], outputs: [], parameters: { app }, byteLength: 4 };
    const timing = { receivedAt: clock.now(), timeoutUs: null, transportDeadlineAt: null, traceparent: null };
    server.infer(
      { ...call, ...timing },
      {
        onReply: ({ outputs, ran }) => {
          expect(outputs[0]!.data).toBe(input.data);
          answers[at] = `${ran!.size} at ${clock.now()}`;
        },
        onError: ({ message }) => {
          answers[at] = message;
        },
      },
    );
  };
  for (let round = 0; round < count; round++) {
    send("first");
    await clock.run(clock.now() + MS);
    for (let other = 0; other < 4; other++) send("others");
    await clock.run(clock.now() + 200 * MS);
  }
  const text = await server.metrics();
  const value = (line: string): number =>
    Number(
      text
        .split("\n")
        .find((each) => each.startsWith(line))
        ?.split(" ")[1],
    );
  await clock.run(clock.now() + 2000 * MS);
  const ended = server.stop(0, 0, async () => {});
  await clock.run(clock.now() + 10_000 * MS);
  await ended;
  return { answers, sizes, value };
}

test("what is served in batches only is run alone until enough is known of it; nobody's answer or its moment changes", async () => {
  const without = await rounds(250, false);
  const { answers, sizes, value } = await rounds(250, true);
  expect(answers).toEqual(without.answers);
  // Kind 1 is `first`, which is seen alone anyway.
  expect(new Set(without.sizes.get("2"))).toEqual(new Set([4]));
  const alone = sizes.get("2")!.filter((size) => size === 1).length;
  expect(alone).toBeGreaterThanOrEqual(5);
  expect(alone).toBeLessThan(10);
  expect(sizes.get("1")).toEqual(without.sizes.get("1"));
  expect(value('rubato_profiler_runs_total{model="m",app="others",outcome="ran"}')).toBe(alone);
  expect(value("rubato_profiler_seconds_total")).toBeCloseTo(alone * 0.01, 6);
  expect(value("rubato_profiler_share")).toBeLessThan(0.01);
  for (const line of [
    'rubato_requests_total{model="m",outcome="finished"',
    'rubato_batches_ended_total{model="m",outcome="finished"',
    "rubato_batch_size_requests_count",
    "rubato_accelerator_busy_seconds_total",
    "rubato_batch_prediction_quantile_count",
  ]) {
    expect(value(line), line).toBeGreaterThan(0);
    expect(value(line), line).toBe(without.value(line));
  }
});

test("a real model: requests that ran in batches are run again, and each answer is what it was alone", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-profiler-"));
  const own = path.join(folder, "models", "loop");
  mkdirSync(path.join(own, "1"), { recursive: true });
  cpSync(modelFile("loop"), path.join(own, "1", "model.onnx"));
  writeFileSync(
    path.join(own, "rubato.yaml"),
    "slo_ms: 10000\ngroup: cpu\nbatch_max: 8\napps: [short, long]\ninputs:\n  start: { batch_axis: 0 }\n" +
      "  steps: { batch_axis: 0, profile_value: 64 }\noutputs:\n  end: { batch_axis: 0 }\n",
  );
  // Serves all that wait together; distribution+ does so only if the profile, measured beside other tests, says that it pays.
  const text = `
http: { port: 0 }
grpc: { enabled: false }
groups: { cpu: { kind: onnx, count: 1, threads: 1, policy: distribution } }
scheduler: { profiler: { time_share: 0.01, request_share: 1, observations: 1000000 } }
profile: { budget_s: 2 }
log: { level: silent }
`;
  const source = parseSource(text, "rubato.config.yaml");
  const running = await runServer(serverConfigFrom(source, folder, { cpus: 2, folder }), "test", (error) => {
    throw error;
  });
  try {
    await running.started;
    const start = Array.from({ length: 192 }, (_, place) => (place === 7 ? 1 : 0));
    const ask = async (app: string, steps: number): Promise<number[]> => {
      const inputs = [
        { name: "start", datatype: "FP32", shape: [1, 192], data: start },
        { name: "steps", datatype: "INT64", shape: [1, 1], data: [steps] },
      ];
      const body = JSON.stringify({ inputs, parameters: { app } });
      const answer = await fetch(`${running.httpUrl}/v2/models/loop/infer`, { method: "POST", body });
      expect(answer.status).toBe(200);
      return ((await answer.json()) as { outputs: [{ data: number[] }] }).outputs[0].data;
    };
    const STEPS = { short: 8, long: 256 } as const;
    const alone = { short: await ask("short", STEPS.short), long: await ask("long", STEPS.long) };
    const metrics = async (): Promise<string> => (await fetch(`${running.httpUrl}/metrics`)).text();
    const ran = (of: string): boolean => of.includes('app="short",outcome="ran"');
    let sent = 2;
    let last = "";
    while (!ran(last) && sent < 20_000) {
      for (let wave = 0; wave < 10; wave++) {
        const apps = Array.from({ length: 10 }, (_, index) => (index < 5 ? "short" : "long") as keyof typeof STEPS);
        const answers = await Promise.all(apps.map((app) => ask(app, STEPS[app])));
        for (const [index, app] of apps.entries())
          for (const [place, value] of answers[index]!.entries()) expect(value).toBeCloseTo(alone[app][place]!, 5);
        sent += apps.length;
      }
      last = await metrics();
    }
    expect(ran(last), last).toBe(true);
    expect(last).toContain(`rubato_requests_total{model="loop",outcome="finished",reason=""} ${sent}\n`);
    expect(running.server.statistics("loop", "")[0]!.inferenceCount).toBe(sent);
  } finally {
    await running.stop(0);
    rmSync(folder, { recursive: true });
  }
}, 120_000);
