/** The autoscaler of a server over the fake pool: advice in metrics, acting where told to, nothing lost meanwhile. */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { AcceleratorGroupSpec } from "../../src/config/model.js";
import { durationUs } from "../../src/core/time.js";
import { SCALE_DEFAULTS } from "../../src/scaling/advisor.js";
import { FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

function scaled(start: number, max: number, act: boolean): AcceleratorGroupSpec {
  const options = { ...SCALE_DEFAULTS, max, intervalUs: 100_000, downCooldownUs: 300_000 };
  return group(max, { autoscale: { options, act, start, keepWarmUs: durationUs(1_000_000) } });
}

const spec = modelSpec({
  batchSizeMax: 8,
  emulated: { alphaMs: 5, betaMs: 20, tableMs: null },
  sloUs: durationUs(150_000),
});

/** About `perS` requests per second for `ms`. */
async function load(fake: FakeServer, perS: number, ms: number) {
  const calls: ReturnType<FakeServer["infer"]>[] = [];
  const startedAt = performance.now();
  while (performance.now() - startedAt < ms) {
    const due = Math.floor(((performance.now() - startedAt) / 1000) * perS) + 1;
    while (calls.length < due) calls.push(fake.infer());
    await sleep(2);
  }
  return Promise.all(calls);
}

it("without act it advises: metrics say how many and why, and the pool is left alone", { retry: 2 }, async () => {
  const fake = await new FakeServer([spec], [group(2, { autoscale: { ...scaled(2, 64, false).autoscale! } })]).start();
  expect(await fake.metric("rubato_autoscale_advice_accelerators", ['group="g"'])).toBe(2);
  const loaded = load(fake, 500, 900);
  await sleep(600);
  // 5 requests of 5 ms and a share of 20 ms: 500 per second keep about four busy.
  expect(await fake.metric("rubato_autoscale_advice_accelerators")).toBeGreaterThanOrEqual(4);
  expect(await fake.metric("rubato_autoscale_needed_accelerators")).toBeGreaterThanOrEqual(4);
  expect(await fake.metric("rubato_autoscale_demand_accelerators")).toBeGreaterThan(2);
  expect(await fake.metric("rubato_autoscale_bad_rate")).toBeGreaterThan(0.1);
  expect(await fake.metric("rubato_autoscale_idle_fraction")).toBeLessThan(0.3);
  expect(await fake.metric("rubato_autoscale_reason")).toBe(1);
  expect(await fake.metric("rubato_autoscale_acts")).toBe(0);
  expect(await fake.metric("rubato_autoscale_changes_total", ['direction="up"'])).toBeGreaterThanOrEqual(1);
  expect(fake.server.scaling()[0]).toMatchObject({ group: "g", configured: 2, serving: 2, isActive: true });
  await loaded;
  expect(fake.pool.sizes.size).toBe(0);
  await sleep(500);
  expect(fake.server.scaling()[0]).toMatchObject({ isActive: false });
  await fake.stop();
});

it("a group without configuration is advised on with the defaults", async () => {
  const fake = await new FakeServer([spec], [group(3)]).start();
  expect(fake.server.scaling()).toEqual([
    expect.objectContaining({ group: "g", acts: false, advice: 3, configured: 3, last: null }),
  ]);
  await fake.stop();
});

it("with act the pool follows, up at once and down after the cooldown", { retry: 2 }, async () => {
  const fake = await new FakeServer([spec], [scaled(1, 6, true)]).start();
  expect(fake.server.scaling()[0]).toMatchObject({ acts: true, serving: 1, configured: 1 });
  await load(fake, 500, 900);
  const high = fake.pool.sizes.get("g")!;
  expect(high).toBeGreaterThanOrEqual(4);
  expect(fake.server.scaling()[0]!.serving).toBe(high);
  const ended = await load(fake, 20, 900);
  expect(ended.every(({ reply }) => reply !== null)).toBe(true);
  expect(fake.pool.sizes.get("g")).toBeLessThanOrEqual(2);
  expect(await fake.metric("rubato_accelerator_up")).toBe(fake.pool.sizes.get("g"));
  expect(await fake.metric("rubato_worker_exits_total")).toBe(0);
  await fake.stop();
});

it("however a group is resized under load, every request ends once and none fails", async () => {
  const SEED = 20_261_128;
  const sizes = fc.array(fc.record({ size: fc.integer({ min: 1, max: 4 }), ms: fc.nat(40) }), {
    minLength: 5,
    maxLength: 15,
  });
  await fc.assert(
    fc.asyncProperty(sizes, async (all) => {
      const slow = modelSpec({ emulated: { alphaMs: 2, betaMs: 15, tableMs: null }, sloUs: durationUs(5_000_000) });
      // The test resizes, not the advice.
      const options = { ...SCALE_DEFAULTS, max: 4, intervalUs: 3_600_000_000 };
      const autoscale = { options, act: true, start: 2, keepWarmUs: durationUs(1_000_000) };
      const fake = await new FakeServer([slow], [group(4, { autoscale })]).start();
      const calls: ReturnType<FakeServer["infer"]>[] = [];
      for (const { size, ms } of all) {
        fake.pool.resize("g", size);
        for (let i = 0; i < 12; i++) calls.push(fake.infer());
        await sleep(ms);
      }
      const ended = await Promise.race([Promise.all(calls), fake.whenBroken]);
      expect(ended.filter(({ reply }) => reply === null).map(({ error }) => error?.message)).toEqual([]);
      expect(fake.extraAnswers).toBe(0);
      expect(fake.broken).toBeNull();
      await fake.stop();
    }),
    { seed: SEED, numRuns: 8 },
  );
});
