/** On how many workers a model's batches may be at once, over a fake pool. */
import { afterEach, expect, test } from "vitest";
import type { Confinement } from "../../src/serve/workers/worker-pool.js";
import { FakeServer, group, modelSpec } from "../fakes/fake-server.js";

let fake: FakeServer;
afterEach(async () => {
  expect(fake.broken).toBeNull();
  await fake.stop();
});

const busy = (): number => fake.pool.holds.filter((held) => held > 0).length;

test.each<[Confinement, number]>([
  ["all", 3],
  ["all-but-one", 2],
  ["one", 1],
])(
  "three workers, a model confined to %s: %i hold its batches at most, and all requests are served",
  async (to, most) => {
    const spec = modelSpec({ policy: "eager", batchSizeMax: 1 });
    fake = await new FakeServer([spec], [group(3)], { execMs: () => 50 }).start();
    fake.pool.confine("m", to);
    let seen = 0;
    const watch = setInterval(() => {
      seen = Math.max(seen, busy());
    }, 2);
    const ends = await Promise.all(Array.from({ length: 6 }, () => fake.infer({ timeoutMs: 10_000 })));
    clearInterval(watch);
    expect(ends.map(({ error }) => error)).toEqual(Array(6).fill(null));
    expect(seen).toBe(most);
  },
);

test("two workers: all but one is one, and with one worker none is kept from it", async () => {
  const spec = modelSpec({ policy: "eager", batchSizeMax: 1 });
  fake = await new FakeServer([spec], [group(2)], { execMs: () => 50 }).start();
  fake.pool.confine("m", "all-but-one");
  const first = fake.infer({ timeoutMs: 10_000 });
  const second = fake.infer({ timeoutMs: 10_000 });
  await expect.poll(busy).toBe(1);
  expect((await first).error).toBeNull();
  fake.pool.crash(1, null);
  expect((await second).error).toBeNull();
  expect((await fake.infer({ timeoutMs: 10_000 })).error).toBeNull();
});
