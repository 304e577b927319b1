/** D1 (a deadline is end to end), D4 (a client that went away) and D5 (nobody tunes a batch delay), over a fake pool. */
import { afterEach, describe, expect, it } from "vitest";
import { durationUs } from "../../src/core/time.js";
import { FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

let fake: FakeServer;
const slow = (ms: number) => ({ alphaMs: 0, betaMs: ms, tableMs: null });

afterEach(async () => {
  expect(fake.broken).toBeNull();
  expect(fake.extraAnswers).toBe(0);
  await fake.stop();
});

describe("deadlines (D1)", { retry: 2 }, () => {
  it("answers B at its deadline while A still runs", async () => {
    fake = await new FakeServer([modelSpec({ emulated: slow(900), batchSizeMax: 1 })], [group(1)]).start();
    const a = fake.infer({ timeoutMs: 100 });
    await sleep(5);
    const b = await fake.infer({ timeoutMs: 100 });
    expect(b.error?.code).toBe("deadline-exceeded");
    expect(b.error?.details).toMatchObject({ reason: "expired", deadlineUs: 100_000 });
    expect(b.afterMs).toBeGreaterThan(98);
    expect(b.afterMs).toBeLessThan(150);
    expect(fake.pool.holds).toEqual([1]);
    const late = await a;
    expect(late.error?.details.reason).toBe("late");
    expect(fake.pool.runs.length).toBe(1);
  });

  it("serves 2 of 4 with queue limit 1 and refuses 2 at once, whatever the gaps", async () => {
    fake = await new FakeServer(
      [modelSpec({ emulated: slow(60), batchSizeMax: 1, queueRequestsMax: 1 })],
      [group(1)],
    ).start();
    for (const gapMs of [5, 0, 1, 20, 0, 1]) {
      const calls = [];
      for (let n = 0; n < 4; n++) {
        calls.push(fake.infer());
        if (gapMs > 0) await sleep(gapMs);
      }
      const ends = await Promise.all(calls);
      const refused = ends.filter(({ error }) => error !== null);
      expect(ends.filter(({ reply }) => reply !== null).length).toBe(gapMs === 20 && refused.length === 1 ? 3 : 2);
      for (const { error, afterMs } of refused) {
        expect(error?.code).toBe("resource-exhausted");
        expect(error?.details.reason).toBe("queue-full");
        expect(error?.details.retryAfterS).toBeGreaterThanOrEqual(1);
        expect(afterMs).toBeLessThan(20);
      }
      await sleep(5);
    }
  });

  it("begins no execution after a deadline, and is empty soon after the load stops", async () => {
    fake = await new FakeServer([modelSpec({ emulated: slow(100), batchSizeMax: 1 })], [group(1)]).start();
    const deadlines: number[] = [];
    const calls = [];
    for (let n = 0; n < 60; n++) {
      const call = fake.call({ timeoutMs: 300, value: n });
      deadlines.push(call.receivedAt + 300_000);
      calls.push(fake.infer({ timeoutMs: 300, value: n, receivedAt: call.receivedAt }));
      await sleep(33);
    }
    await Promise.all(calls);
    for (const run of fake.pool.runs) {
      const tensor = run.batch.members[0]![0]!;
      const n = new DataView(tensor.data.buffer).getFloat32(0, true);
      expect(run.startedAt).toBeLessThanOrEqual(deadlines[n]!);
    }
    await sleep(150);
    expect(fake.server.driver.requests.count).toBe(0);
    expect(await fake.metric("rubato_queue_requests")).toBe(0);
  });

  it("drops at 30 ms what has a timeout of 30,000 us behind 100 ms of queue, without an SLO", async () => {
    fake = await new FakeServer([modelSpec({ emulated: slow(50), batchSizeMax: 1 })], [group(1)]).start();
    const before = [fake.infer(), fake.infer()];
    const { error, afterMs } = await fake.infer({ timeoutMs: 30 });
    expect(error?.details.reason).toBe("expired");
    expect(afterMs).toBeGreaterThan(28);
    expect(afterMs).toBeLessThan(80);
    await Promise.all(before);
  });

  it("says infeasible at once where the SLO is shorter than one request takes, and warns at load", async () => {
    fake = await new FakeServer([modelSpec({ emulated: slow(50), sloUs: durationUs(20_000) })], [group(1)]).start();
    expect(fake.server.repositoryIndex(false)[0]?.reason).toContain(
      "slo_ms is 20, less than the profiled time of one request (50.000 ms)",
    );
    const { error, afterMs } = await fake.infer();
    expect(error?.code).toBe("deadline-exceeded");
    expect(error?.details.reason).toBe("infeasible");
    expect(afterMs).toBeLessThan(20);
  });

  it("takes the earlier of transport deadline and timeout, and refuses a timeout beyond the model's bound", async () => {
    fake = await new FakeServer(
      [modelSpec({ emulated: slow(200), timeoutMaxUs: durationUs(1_000_000) })],
      [group(1)],
    ).start();
    const receivedAt = fake.call().receivedAt;
    const early = await fake.infer({ timeoutMs: 500, receivedAt, transportDeadlineAt: (receivedAt + 40_000) as never });
    expect(early.error?.details.deadlineUs).toBe(40_000);
    const refused = await fake.infer({ timeoutMs: 1001 });
    expect(refused.error?.code).toBe("invalid-argument");
    expect(refused.error?.message).toContain("must be at most 1000000 microseconds; was 1001000");
  });
});

describe("clients that went away (D4)", { retry: 2 }, () => {
  it("never runs what was cancelled in the queue", async () => {
    fake = await new FakeServer([modelSpec({ emulated: slow(100), batchSizeMax: 1 })], [group(1)]).start();
    const first = fake.infer({ value: 1 });
    const second = fake.infer({ value: 2 }, 20);
    await Promise.all([first, second]);
    await sleep(120);
    expect(fake.pool.runs.length).toBe(1);
    expect(await fake.metric("rubato_requests_total", ['reason="cancelled"'])).toBe(1);
    expect(fake.server.driver.requests.count).toBe(0);
  });

  it("goes on when a member of a running batch is cancelled", async () => {
    fake = await new FakeServer([modelSpec({ emulated: slow(50) })], [group(1)]).start();
    const ends = await Promise.all([fake.infer(), fake.infer({}, 60), fake.infer()]);
    expect(ends.map(({ reply }) => reply !== null)).toEqual([true, false, true]);
    await fake.server.driver.idle();
    expect(await fake.metric("rubato_scheduler_requests")).toBe(0);
  });
});

describe("no batch delay to tune (D5)", { retry: 2 }, () => {
  it("runs the first of 5 requests alone and the other 4 as one batch", async () => {
    fake = await new FakeServer([modelSpec()], [group(1)]).start();
    await Promise.all([1, 2, 3, 4, 5].map((value) => fake.infer({ value })));
    expect(fake.pool.runs.map(({ batch }) => batch.members.length)).toEqual([1, 4]);
  });

  it("counts why each batch was closed, in sum the number of executions", async () => {
    fake = await new FakeServer([modelSpec({ sloUs: durationUs(200_000) })], [group(2)]).start();
    const calls = [];
    for (let n = 0; n < 60; n++) {
      calls.push(fake.infer());
      await sleep(n % 3);
    }
    await Promise.all(calls);
    expect(await fake.metric("rubato_batches_closed_total")).toBe(fake.pool.runs.length);
    expect(await fake.metric("rubato_batch_size_requests_sum")).toBe(60);
    expect(await fake.metric("rubato_batch_execution_seconds_count")).toBe(fake.pool.runs.length);
  });

  it("gives 64 closed-loop clients a mean batch of at least 8", async () => {
    const spec = modelSpec({ batchSizeMax: 64, emulated: { alphaMs: 0.1, betaMs: 10, tableMs: null } });
    fake = await new FakeServer([spec], [group(1)]).start();
    const until = Date.now() + 600;
    const client = async (): Promise<void> => {
      while (Date.now() < until) await fake.infer();
    };
    await Promise.all(Array.from({ length: 64 }, client));
    const sizes = fake.pool.runs.map(({ batch }) => batch.members.length);
    expect(sizes.reduce((sum, size) => sum + size, 0) / sizes.length).toBeGreaterThanOrEqual(8);
  });
});
