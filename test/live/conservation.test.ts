/**
 * Whatever clients, workers and models do, every request is answered once and counted once, nothing stays behind, and
 * the scheduler, this process and the accelerators count the same batches in flight (D8). Over a fake pool, with the
 * scheduler on threads, in real time; between the callbacks of one it runs in virtual time (test/virtual/conservation.test.ts).
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { durationUs } from "../../src/core/time.js";
import { type Ended, FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

const SEED = 20_260_202;

const action = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("infer" as const),
      model: fc.nat(3),
      timeoutMs: fc.integer({ min: 1, max: 60 }),
      rows: fc.integer({ min: 1, max: 3 }),
      cancelAfterMs: fc.option(fc.integer({ min: 0, max: 20 }), { freq: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("pause" as const), ms: fc.integer({ min: 0, max: 5 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("crash" as const),
      accelerator: fc.nat(2),
      restartMs: fc.option(fc.integer({ min: 1, max: 20 })),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("stall" as const), accelerator: fc.nat(2), ms: fc.nat(30) }) },
);

const specs = [
  modelSpec({ name: "plain", emulated: { alphaMs: 1, betaMs: 2, tableMs: null }, queueRequestsMax: 20 }),
  modelSpec({ name: "slo", emulated: { alphaMs: 1, betaMs: 3, tableMs: null }, sloUs: durationUs(25_000) }),
  modelSpec({
    name: "timeout",
    policy: "timeout",
    policyOptions: { timeout_ms: 4 },
    emulated: { alphaMs: 0.5, betaMs: 2, tableMs: null },
    sloUs: durationUs(30_000),
  }),
  modelSpec({
    name: "paper",
    policyOptions: { idle_dispatch: false },
    emulated: { alphaMs: 1, betaMs: 2, tableMs: null },
    sloUs: durationUs(20_000),
    batchSizeMax: 4,
  }),
];

async function run(actions: readonly (typeof action extends fc.Arbitrary<infer T> ? T : never)[]): Promise<void> {
  const fake = new FakeServer(specs, [group(3)], { schedulerMode: { threads: 2 }, retriesMax: 1 });
  let failing = 0;
  // Every ninth batch is refused by its model: a retry alone of each member, then the error.
  fake.pool.failure = () => (++failing % 9 === 0 ? { cause: "model-error", message: "refused by the test" } : null);
  await fake.start();
  const ends: Promise<Ended>[] = [];
  for (const step of actions) {
    if (step.kind === "pause") await sleep(step.ms);
    else if (step.kind === "crash") fake.pool.crash(step.accelerator, step.restartMs);
    else if (step.kind === "stall") fake.pool.stall(step.accelerator, step.ms);
    else {
      const { model, timeoutMs, rows, cancelAfterMs } = step;
      ends.push(fake.infer({ model: specs[model]!.name, timeoutMs, rows }, cancelAfterMs));
    }
  }
  const ended = await Promise.race([Promise.all(ends), fake.whenBroken]);
  await Promise.race([fake.server.driver.idle(), fake.whenBroken]);
  await sleep(2);
  expect(fake.broken).toBeNull();
  expect(fake.extraAnswers).toBe(0);
  expect(fake.server.driver.requests.count).toBe(0);
  expect(fake.pool.holds).toEqual([0, 0, 0]);
  expect(await fake.metric("rubato_scheduler_requests")).toBe(0);
  expect(await fake.metric("rubato_scheduler_batches")).toBe(0);
  for (const name of ["rubato_requests_in_flight", "rubato_queue_requests", "rubato_queue_bytes"])
    expect(await fake.metric(name)).toBe(0);
  const refused = await fake.metric("rubato_requests_refused_total");
  expect(await fake.metric("rubato_requests_total")).toBe(ended.length - refused);
  const replies = ended.filter(({ reply }) => reply !== null).length;
  expect(await fake.metric("rubato_requests_total", ['outcome="finished"'])).toBe(replies);
  const cancelled = ended.filter(({ reply, error }) => reply === null && error === null).length;
  expect(await fake.metric("rubato_requests_total", ['reason="cancelled"'])).toBe(cancelled);
  await fake.stop();
}

describe("conservation", { retry: 2 }, () => {
  it(`with the scheduler on many threads (seed ${SEED})`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 50, maxLength: 200 }), (actions) => run(actions)),
      { seed: SEED, numRuns: 4, endOnFailure: true },
    );
  });
});
