/** D3 (recovery after a stall), D8 (tails stay flat), D2 and failing workers, over a fake pool. */
import { afterEach, describe, expect, it } from "vitest";
import { durationUs } from "../../src/core/time.js";
import { ServingError } from "../../src/wire/serving-error.js";
import { type Ended, FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

let fake: FakeServer;
afterEach(async () => {
  expect(fake.broken).toBeNull();
  expect(fake.extraAnswers).toBe(0);
  await fake.stop();
});

/** Open loop at `perS` for `ms`; ends in the order of sending, with when each was sent. */
async function load(perS: number, ms: number, changes: object = {}): Promise<{ sentMs: number; end: Ended }[]> {
  const startedAt = performance.now();
  const calls: Promise<{ sentMs: number; end: Ended }>[] = [];
  while (performance.now() - startedAt < ms) {
    const due = Math.floor(((performance.now() - startedAt) / 1000) * perS);
    while (calls.length < due) {
      const sentMs = performance.now() - startedAt;
      calls.push(fake.infer(changes).then((end) => ({ sentMs, end })));
    }
    await sleep(1);
  }
  return Promise.all(calls);
}

const p = (values: number[], q: number): number => values.sort((a, b) => a - b)[Math.floor(q * (values.length - 1))]!;

describe("recovery after a stall (D3)", { retry: 2 }, () => {
  it("serves within a deadline's time of the end of a 1 s stall, the backlog swept", async () => {
    const spec = modelSpec({ emulated: { alphaMs: 2, betaMs: 8, tableMs: null }, sloUs: durationUs(300_000) });
    fake = await new FakeServer([spec], [group(1)]).start();
    setTimeout(() => fake.pool.stall(0, 1000), 300);
    setTimeout(() => fake.pool.stall(0, 0), 350);
    const ends = await load(200, 2500);
    const served = ends.filter(({ end }) => end.reply !== null);
    // The stalled run begins at 300 to 350 ms and takes about 1 s more.
    const after = served.map(({ sentMs, end }) => sentMs + end.afterMs).filter((at) => at > 1200);
    expect(Math.min(...after)).toBeLessThan(1850);
    const tail = ends.filter(({ sentMs }) => sentMs > 1900);
    expect(tail.filter(({ end }) => end.reply !== null).length / tail.length).toBeGreaterThanOrEqual(0.95);
  });
});

describe("one slow accelerator of four (D8)", { retry: 2 }, () => {
  it("keeps p99 within 1.5 times that of four healthy ones", async () => {
    const spec = modelSpec({ emulated: { alphaMs: 2, betaMs: 18, tableMs: null }, sloUs: durationUs(400_000) });
    const measure = async (scales: number[]): Promise<number> => {
      fake = await new FakeServer([spec], [group(4, { scales })]).start();
      const ends = await load(60, 1500);
      expect(ends.every(({ end }) => end.reply !== null)).toBe(true);
      const p99 = p(
        ends.map(({ end }) => end.afterMs),
        0.99,
      );
      await fake.stop();
      return p99;
    };
    const healthy = await measure([1, 1, 1, 1]);
    const mixed = await measure([1, 1, 1, 5]);
    expect(mixed).toBeLessThanOrEqual(Math.max(1.5 * healthy, healthy + 10));
  });
});

describe("workers that fail (D15)", { retry: 2 }, () => {
  it("answers the members of a crashed batch from a second try, alone", async () => {
    const spec = modelSpec({ emulated: { alphaMs: 0, betaMs: 40, tableMs: null } });
    fake = await new FakeServer([spec], [group(1)]).start();
    const first = fake.infer();
    await sleep(15);
    fake.pool.crash(0, 20);
    const { reply } = await first;
    expect(reply).not.toBeNull();
    expect(fake.pool.runs.map(({ batch }) => batch.members.length)).toEqual([1, 1]);
    expect(await fake.metric("rubato_batches_closed_total", ['reason="retry"'])).toBe(1);
    expect(await fake.metric("rubato_worker_exits_total", ['cause="worker-crashed"'])).toBe(1);
  });

  it("says 503 with the cause when tries are spent, and at once when no accelerator is left", async () => {
    const spec = modelSpec({ emulated: { alphaMs: 0, betaMs: 40, tableMs: null }, batchSizeMax: 1 });
    fake = await new FakeServer([spec], [group(1)], { retriesMax: 0 }).start();
    const crashed = fake.infer();
    const queued = fake.infer();
    await sleep(10);
    fake.pool.crash(0, null);
    const [first, second] = await Promise.all([crashed, queued]);
    expect(first.error).toMatchObject({ code: "unavailable", details: { reason: "worker-crashed" } });
    expect(first.error?.message).toContain("crashed by the test");
    expect(second.error).toMatchObject({ code: "unavailable", details: { reason: "no-accelerator" } });
    const third = await fake.infer();
    expect(third.error?.details.reason).toBe("no-accelerator");
    expect(third.error?.details.retryAfterS).toBeGreaterThanOrEqual(1);
    expect(third.afterMs).toBeLessThan(20);
  });

  it("lets only the culprit fail when the model refuses a batch, with the runtime's text and the right side blamed", async () => {
    fake = await new FakeServer([modelSpec()], [group(1)]).start();
    fake.pool.failure = ({ members }) =>
      members.some(([tensor]) => new DataView(tensor!.data.buffer).getFloat32(0, true) === 13)
        ? { cause: "model-error", code: "invalid-argument", message: "Got invalid dimensions for input: x" }
        : null;
    const ends = await Promise.all([1, 2, 13, 4].map((value) => fake.infer({ value })));
    expect(ends.map(({ reply }) => reply !== null)).toEqual([true, true, false, true]);
    expect(ends[2]!.error).toMatchObject({ code: "invalid-argument", details: { reason: "invalid-argument" } });
    expect(ends[2]!.error?.message).toContain("Got invalid dimensions");
  });

  it("blames no client for a model's failure, and none for the request beside it", async () => {
    fake = await new FakeServer([modelSpec()], [group(1)]).start();
    fake.pool.failure = () => ({ cause: "model-error", message: "out of bounds" });
    expect((await fake.infer()).error?.code).toBe("internal");
    await fake.stop();
    // 200 ms of 250 are gone when the batch of two fails: too late to be tried alone, and nobody knows whose fault it was.
    const slow = modelSpec({ emulated: { alphaMs: 0, betaMs: 100, tableMs: null }, policy: "eager" });
    fake = await new FakeServer([slow], [group(1)]).start();
    fake.pool.failure = ({ members }) =>
      members.length > 1 ? { cause: "model-error", code: "invalid-argument", message: "one of you" } : null;
    const timeoutUs = durationUs(250_000);
    const before = fake.infer();
    const ends = await Promise.all([1, 2].map((value) => fake.infer({ value, timeoutUs })));
    for (const { error } of ends) expect(error).toMatchObject({ code: "internal", details: { reason: "model-error" } });
    expect((await before).error).toBeNull();
  });
});

describe("limits (D2)", { retry: 2 }, () => {
  it("refuses bytes beyond the model's limit and requests beyond the table, naming limit and value", async () => {
    const spec = modelSpec({
      emulated: { alphaMs: 0, betaMs: 30, tableMs: null },
      queueBytesMax: 100,
      batchSizeMax: 1,
    });
    fake = await new FakeServer([spec], [group(1)], { slots: 3 }).start();
    const calls = [fake.infer({ byteLength: 60 })];
    const bytes = await fake.infer({ byteLength: 60 });
    expect(bytes.error).toMatchObject({ code: "resource-exhausted", details: { reason: "bytes-full" } });
    expect(bytes.error?.message).toContain("must be at most 100 bytes; was 120");
    calls.push(fake.infer(), fake.infer());
    const full = await fake.infer();
    expect(full.error).toMatchObject({ code: "resource-exhausted", details: { reason: "in-flight-full" } });
    await Promise.all(calls);
    expect(await fake.metric("rubato_requests_total", ['reason="bytes-full"'])).toBe(1);
    expect(await fake.metric("rubato_requests_refused_total", ['reason="in-flight-full"'])).toBe(1);
  });

  it("removes the share group unused for longest at the limit, and refuses when all are in use", async () => {
    const spec = modelSpec({ emulated: { alphaMs: 0, betaMs: 10, tableMs: null } });
    fake = await new FakeServer([spec], [group(1)], { shareGroupsMax: 2 }).start();
    const three = [1, 2, 3].map((rows) => fake.infer({ rows }));
    const ends = await Promise.all(three);
    expect(ends[2]!.error?.details.reason).toBe("share-groups-full");
    await fake.server.driver.idle();
    expect((await fake.infer({ rows: 3 })).reply).not.toBeNull();
    expect(await fake.metric("rubato_share_groups")).toBe(2);
  });
});

describe("loading and unloading", { retry: 2 }, () => {
  it("loads once for two calls, changes nothing when a load fails, says why, and drains on unload", async () => {
    fake = await new FakeServer([modelSpec()], [group(1)], { modelControl: "explicit" }).start();
    expect((await fake.infer()).error).toMatchObject({ code: "unavailable", details: { reason: "unloaded" } });
    await Promise.all([fake.server.load("m", {}), fake.server.load("m", {})]);
    expect(fake.pool.loads).toBe(1);
    fake.pool.loadError = new Error("Protobuf parsing failed");
    await expect(fake.server.load("m", {})).rejects.toThrow();
    expect(fake.server.modelReady("m", "")).toBe(true);
    const running = fake.infer();
    await sleep(3);
    await fake.server.unload("m");
    expect((await running).reply).not.toBeNull();
    expect(fake.server.repositoryIndex(false)).toMatchObject([{ name: "m", state: "UNAVAILABLE", reason: "unloaded" }]);
    await expect(fake.server.load("nobody", {})).rejects.toMatchObject({ code: "not-found" });
    expect(fake.server.repositoryIndex(false).length).toBe(1);
  });

  it("a load called during an unload comes after it, and the other way round", async () => {
    fake = await new FakeServer([modelSpec()], [group(1)], { modelControl: "explicit" }).start();
    await fake.server.load("m", {});
    const running = fake.infer();
    await sleep(3);
    const unload = fake.server.unload("m");
    await Promise.all([unload, fake.server.load("m", {}), fake.server.unload("m")]);
    expect((await running).reply).not.toBeNull();
    expect(fake.server.modelReady("m", "")).toBe(true);
    await Promise.all([fake.server.load("m", {}), fake.server.unload("m")]);
    expect(fake.server.modelReady("m", "")).toBe(false);
    expect(fake.pool.loaded).toEqual([]);
  });

  it("what waits when a model is reloaded runs on what it was checked against; only the new one is kept", async () => {
    const specs = [modelSpec({ batchSizeMax: 1 })];
    fake = await new FakeServer(specs, [group(1)], { modelControl: "explicit" }).start();
    await fake.server.load("m", {});
    const before = Array.from({ length: 5 }, () => fake!.infer());
    specs[0] = modelSpec({ batchSizeMax: 1, version: "2", versions: ["2"] });
    await fake.server.load("m", {});
    expect((await fake.infer()).reply?.version).toBe("2");
    expect(new Set((await Promise.all(before)).map(({ reply }) => reply?.version))).toEqual(new Set(["1"]));
    const ran = fake.pool.runs.map(({ batch }) => batch.spec?.version);
    expect(ran).toEqual(["1", "1", "1", "1", "1", "2"]);
    await sleep(1);
    expect(fake.pool.loaded.map(({ version }) => version)).toEqual(["2"]);
  });

  it("a model that loads and cannot be timed leaves nothing behind", async () => {
    fake = await new FakeServer([modelSpec()], [group(1)], { modelControl: "explicit" }).start();
    fake.timesError = new Error("no synthetic input");
    await expect(fake.server.load("m", {})).rejects.toThrow();
    expect(fake.pool.loaded).toEqual([]);
    fake.timesError = null;
    await fake.server.load("m", {});
    fake.timesError = new Error("no synthetic input");
    await expect(fake.server.load("m", {})).rejects.toThrow();
    expect((await fake.infer()).reply).not.toBeNull();
    expect(fake.pool.loaded.length).toBe(1);
  });

  it("at the start, a load that its worker did not live to end is tried again", async () => {
    fake = new FakeServer([modelSpec()], [group(1)]);
    fake.pool.loadError = new ServingError("unavailable", "worker process ended (signal SIGKILL)");
    const started = fake.start();
    await sleep(50);
    fake.pool.loadError = null;
    await started;
    expect([fake.pool.loads, fake.server.ready, (await fake.infer()).reply !== null]).toEqual([2, true, true]);
  });

  it("is ready when every model to be loaded at the start is served, or, told so, when one is", async () => {
    const specs = [modelSpec(), modelSpec({ name: "bad", group: "nowhere" })];
    const ready = async (options: ConstructorParameters<typeof FakeServer>[2]): Promise<boolean> => {
      fake = new FakeServer(specs, [group(1)], options);
      expect(fake.server.ready).toBe(false);
      await fake.start();
      return fake.server.ready;
    };
    expect(await ready({})).toBe(false);
    expect(fake.server.modelReady("m", "")).toBe(true);
    expect((await fake.infer()).reply).not.toBeNull();
    await fake.stop();
    expect(await ready({ readyWhen: "any_model" })).toBe(true);
    await fake.stop();
    specs.shift();
    expect(await ready({ readyWhen: "any_model" })).toBe(false);
    await fake.stop();
    specs.shift();
    expect(await ready({})).toBe(true);
    await fake.stop();
    // By request: who asks for a model that cannot be loaded is told, and takes the server from nobody.
    specs.push(modelSpec({ name: "bad", group: "nowhere" }), modelSpec());
    expect(await ready({ modelControl: "explicit" })).toBe(true);
    await expect(fake.server.load("bad", {})).rejects.toThrow();
    expect(fake.server.ready).toBe(true);
    await fake.server.load("m", {});
    await fake.server.unload("m");
    expect(fake.server.ready).toBe(true);
  });

  it("refuses load and unload where models are not controlled by request", async () => {
    fake = await new FakeServer([modelSpec()], [group(1)]).start();
    await expect(fake.server.load("m", {})).rejects.toMatchObject({ code: "unavailable" });
  });
});
