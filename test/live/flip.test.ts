/** D5: the rate flips between 10/s and 300/s; nobody tuned anything. */
import { expect, it } from "vitest";
import { durationUs } from "../../src/core/time.js";
import { FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

it("rate flips 10/s <-> 300/s, SLO 100 ms: little waiting when slow, full batches when fast (D5)", async () => {
  const spec = modelSpec({
    batchSizeMax: 16,
    emulated: { alphaMs: 1, betaMs: 9, tableMs: null },
    sloUs: durationUs(100_000),
  });
  const fake = await new FakeServer([spec], [group(1)], { schedulerMode: "thread" }).start();
  const slow: number[] = [];
  const fastFrom: number[] = [];
  const phase = async (perS: number, ms: number, onEnd: (afterMs: number) => void): Promise<number[]> => {
    const startedAt = performance.now();
    const firstRun = fake.pool.runs.length;
    const calls: Promise<void>[] = [];
    while (performance.now() - startedAt < ms) {
      const due = Math.floor(((performance.now() - startedAt) / 1000) * perS) + 1;
      while (calls.length < due)
        calls.push(fake.infer().then(({ reply, afterMs }) => reply !== null && onEnd(afterMs)) as Promise<void>);
      await sleep(1);
    }
    await Promise.all(calls);
    return fake.pool.runs.slice(firstRun).map(({ batch }) => batch.members.length);
  };
  for (let flip = 0; flip < 2; flip++) {
    // The first of a slow phase may still stand behind the last of a fast one.
    const own: number[] = [];
    await phase(10, 1000, (afterMs) => own.push(afterMs));
    slow.push(...own.slice(1));
    fastFrom.push(...(await phase(300, 1500, () => {})));
  }
  const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  await fake.stop();
  // 10 ms of execution; what is above is waiting and transport.
  expect(mean(slow) - 10).toBeLessThan(8);
  expect(mean(fastFrom)).toBeGreaterThan(3);
});
