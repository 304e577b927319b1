/** D15: a worker is killed under load, with real worker processes behind the real server. */
import { expect, it } from "vitest";
import type { Server } from "../../src/serve/server.js";
import { ProcessPool } from "../../src/serve/workers/process-pool.js";
import { FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

it("SIGKILL of a worker under load: its requests are tried again in time or get 503; capacity is back in 2 s", async () => {
  const groups = [group(2, { scales: [1, 1] })];
  const pool = new ProcessPool(groups, { emulatedPerProcess: 1, warmUpMs: 0 });
  const spec = modelSpec({
    emulated: { alphaMs: 1, betaMs: 10, tableMs: null },
    sloUs: null,
    defaultTimeoutUs: 3_000_000 as never,
  });
  const fake = new FakeServer([spec], groups, { pool });
  const server: Server = fake.server;
  await fake.start();
  const ends: ReturnType<FakeServer["infer"]>[] = [];
  const sender = setInterval(() => ends.push(fake.infer()), 5);
  await sleep(300);
  process.kill(pool.pidOf(0), "SIGKILL");
  const killedAt = performance.now();
  await expect.poll(() => fake.metric("rubato_accelerator_up"), { timeout: 1000, interval: 2 }).toBe(1);
  await expect.poll(() => fake.metric("rubato_accelerator_up"), { timeout: 5000, interval: 10 }).toBe(2);
  const backMs = performance.now() - killedAt;
  await sleep(300);
  clearInterval(sender);
  const ended = await Promise.all(ends);
  for (const { error } of ended) if (error !== null) expect(error.code).toBe("unavailable");
  expect(ended.filter(({ reply }) => reply !== null).length / ended.length).toBeGreaterThan(0.97);
  await server.driver.idle();
  expect(await fake.metric("rubato_worker_exits_total", ['cause="worker-crashed"'])).toBe(1);
  expect(await fake.metric("rubato_scheduler_batches")).toBe(0);
  expect(backMs).toBeLessThan(2000);
  expect(fake.broken).toBeNull();
  await fake.stop();
});
