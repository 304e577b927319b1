/** D5: the rate flips between 10/s and 300/s; nobody tuned anything. */
import { expect, it } from "vitest";
import { durationUs } from "../../src/core/time.js";
import { FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

/** As in the simulated test: l(b) = b + 44 ms on 2 accelerators, where staggered execution holds 12 at 300/s. */
const BEST = 12;
const PHASE_MS = 2000;

it("rate flips 10/s <-> 300/s, SLO 100 ms: little waiting when slow, full batches when fast (D5)", {
  retry: 2,
}, async () => {
  const spec = modelSpec({
    batchSizeMax: 56,
    emulated: { alphaMs: 1, betaMs: 44, tableMs: null },
    sloUs: durationUs(100_000),
  });
  const fake = await new FakeServer([spec], [group(2)]).start();
  const slow: number[] = [];
  const fast: number[] = [];
  let served = 0;
  let sent = 0;
  const phase = async (perS: number, onEnd: (afterMs: number) => void): Promise<number[]> => {
    const startedAt = performance.now();
    const firstRun = fake.pool.runs.length;
    const calls: Promise<void>[] = [];
    while (performance.now() - startedAt < PHASE_MS) {
      const due = Math.floor(((performance.now() - startedAt) / 1000) * perS) + 1;
      for (; calls.length < due; sent++)
        calls.push(
          fake.infer().then(({ reply, afterMs }) => {
            if (reply === null) return;
            served++;
            onEnd(afterMs);
          }),
        );
      await sleep(1);
    }
    await Promise.all(calls);
    return fake.pool.runs.slice(firstRun).map(({ batch }) => batch.members.length);
  };
  for (let flip = 0; flip < 2; flip++) {
    // The first of a slow phase may still stand behind the last of a fast one.
    const own: number[] = [];
    await phase(10, (afterMs) => own.push(afterMs));
    slow.push(...own.slice(1));
    fast.push(...(await phase(300, () => {})));
  }
  const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  await fake.stop();
  // 45 ms of execution; what is above is waiting and transport.
  expect(mean(slow) - 45).toBeLessThan(5);
  expect(mean(fast)).toBeGreaterThanOrEqual(0.8 * BEST);
  expect(served / sent).toBeGreaterThan(0.97);
});
