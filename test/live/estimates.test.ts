/** What a refusal says of how long an answer would take, over a fake pool. Lower bounds: a busy machine only adds. */
import { afterEach, expect, test } from "vitest";
import { type Ended, FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

let fake: FakeServer;
const constant = (ms: number) => ({ alphaMs: 0, betaMs: ms, tableMs: null });

afterEach(async () => {
  expect(fake.broken).toBeNull();
  await fake.stop();
});

const estimateMs = ({ error }: Ended): number => error!.details.estimateUs! / 1000;
const spreadMs = ({ error }: Ended): number => error!.details.estimateSpreadUs! / 1000;

test("counts the time already spent, a batch that is overdue, and how uncertain that makes it", async () => {
  fake = await new FakeServer([modelSpec({ emulated: constant(100) })], [group(1)], { execMs: () => 500 }).start();
  const slow = fake.infer({ timeoutMs: 5000 });
  await sleep(250);
  const refused = await fake.infer({ timeoutMs: 40 });
  expect(refused.error?.code).toBe("deadline-exceeded");
  // At least 150 ms late when it came, so as long again, beside its own 100 ms.
  expect(estimateMs(refused)).toBeGreaterThan(240);
  expect(spreadMs(refused)).toBeGreaterThan(140);
  expect((await slow).reply).not.toBeNull();
});

test("of a request whose batch runs: until that ends", async () => {
  fake = await new FakeServer([modelSpec({ emulated: constant(400) })], [group(1)]).start();
  const late = await fake.infer({ timeoutMs: 100 });
  expect(late.error?.details.reason).toBe("late");
  expect(estimateMs(late)).toBeGreaterThan(390);
  // Not behind itself.
  expect(estimateMs(late)).toBeLessThan(Math.max(500, late.afterMs + 300));
});

test("counts what waits for the same accelerators, of other models too", async () => {
  const specs = [
    modelSpec({ name: "other", emulated: constant(50), batchSizeMax: 1 }),
    modelSpec({ emulated: constant(10), batchSizeMax: 1, queueRequestsMax: 1 }),
  ];
  fake = await new FakeServer(specs, [group(1)]).start();
  const others = Array.from({ length: 10 }, () => fake.infer({ model: "other" }));
  await sleep(5);
  const own = [fake.infer({ timeoutMs: 8 }), fake.infer({ timeoutMs: 8 }), fake.infer({ timeoutMs: 8 })];
  for (const ended of await Promise.all(own)) {
    expect(ended.error).not.toBeNull();
    expect(estimateMs(ended)).toBeGreaterThan(400);
  }
  await Promise.all(others);
  // None of them counts any more.
  const alone = await fake.infer({ timeoutMs: 1 });
  expect(estimateMs(alone)).toBeLessThan(200);
});

test("takes run times as the last batches measured them", async () => {
  fake = await new FakeServer([modelSpec({ emulated: constant(5), batchSizeMax: 1 })], [group(1)], {
    execMs: () => 25,
  }).start();
  for (let n = 0; n < 20; n++) await fake.infer();
  const [, refused] = await Promise.all([fake.infer(), fake.infer({ timeoutMs: 1 })]);
  expect(refused.error?.code).toBe("deadline-exceeded");
  // By the profile at most 10.
  expect(estimateMs(refused)).toBeGreaterThan(22);
});
