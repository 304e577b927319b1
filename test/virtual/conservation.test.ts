/**
 * Conservation, over 1,000 seeds of faults and without waiting (D8): the whole server between the doors and the worker
 * processes, in virtual time. See test/support/virtual-server.ts for what goes wrong.
 */
import { describe, expect, it } from "vitest";
import { SHADOW_OUTCOMES } from "../../src/core/shadow/profiler.js";
import { itOverSeeds } from "../support/seeded-parts.js";
import { type Call, isRefusal, isRequest, VirtualServer } from "../support/virtual-server.js";

const SEEDS = 1000;
/** In as many tests, so that a failure names its hundred and an editor can run one. */
const PARTS = 10;
const MS = 1000;
const FAILURES = ["worker-crashed", "worker-hung", "model-error", "internal", "draining"];
/** An alarm's step, and what a turn of callbacks may take. */
const GRAIN_US = 3 * MS;

/** Over all seeds, by outcome. */
const runsAgain = new Map<string, number>();

async function check(seed: number): Promise<void> {
  const world = new VirtualServer(seed, false, { profiledPart: 0.08 });
  const { clock, server } = world;
  await world.live(seed, async () => {
    if (seed % 3 === 1) await checkRecovered(world);
  });
  expect(clock.pending, "alarms that are set for ever").toBe(0);
  const { driver } = server;
  expect(driver.requests.count, "slots in use").toBe(0);
  expect(driver.batches.count, "batches in flight").toBe(0);
  for (const row of driver.models.rows()) expect(row).toMatchObject({ inFlight: 0, queued: 0, bytes: 0 });
  for (const group of driver.groups) expect(group.presentCount, "accelerators").toBe(0);
  expect(world.workers.live.size, "processes").toBe(0);
  await checkCounts(world);
}

/** Whatever was refused, doubted, confined or parked for what went wrong is served again, at the latest when all of that is forgotten. */
async function checkRecovered(world: VirtualServer): Promise<void> {
  await world.pass(1000_000 * MS);
  for (const { name } of world.specs) {
    if (!world.server.modelReady(name, "")) await world.until(world.server.load(name, {}));
    // The first may be who finds out.
    for (let attempt = 1; ; attempt++) {
      const call = world.call({ model: name, timeoutMs: 5000, isPlain: true });
      await world.pass(6000 * MS);
      if (call.end === "reply") break;
      expect(attempt, `calls of ${name} that were not served: ${JSON.stringify(call)}`).toBeLessThan(3);
    }
  }
  const wanted = world.groups.reduce((sum, { count }) => sum + count, 0);
  for (const { name, count } of world.groups) world.pool.resize(name, count);
  await world.pass(5000 * MS);
  expect(
    world.server.driver.groups.reduce((sum, { presentCount }) => sum + presentCount, 0),
    "accelerators",
  ).toBe(wanted);
}

/** Each client was told once and in time, and the metrics agree with what the clients and the workers counted. */
async function checkCounts(world: VirtualServer): Promise<void> {
  const { calls, workers } = world;
  for (const call of calls) {
    expect(call.told, `times that call ${call.id} was told: ${JSON.stringify(call)}`).toBe(1);
    if (call.end === "reply") expect(call.reason).toBe("");
    const limitAt = call.deadlineAt + GRAIN_US + world.stalledBetween(call.deadlineAt, call.endedAt);
    if (call.end !== "refused") expect(call.endedAt, `call ${JSON.stringify(call)}`).toBeLessThanOrEqual(limitAt);
  }
  const { ended, again, refused, batches } = await world.counted();
  const count = (is: (call: Call) => boolean): number => calls.filter(is).length;
  const of = (key: string): number => ended.get(key) ?? 0;
  const all = [...ended.values()].reduce((sum, each) => sum + each, 0);
  expect(refused, "refused").toBe(count(isRefusal));
  expect(all, "finished + late + dropped + failed").toBe(count(isRequest));
  expect(of("finished"), "finished").toBe(count(({ end }) => end === "reply"));
  expect(of("dropped: cancelled"), "cancelled").toBe(count(({ end }) => end === "cancelled"));
  const ran = again.get("ran") ?? 0;
  // Cancelled on its way, a run may still have been made.
  expect(batches + ran, "batches finished").toBeLessThanOrEqual(workers.finished);
  expect(batches + ran + (again.get("cancelled") ?? 0), "batches finished").toBeGreaterThanOrEqual(workers.finished);
  for (const [outcome, count] of again) runsAgain.set(outcome, (runsAgain.get(outcome) ?? 0) + count);
  const told = (...reasons: string[]): number => count((call) => isRequest(call) && reasons.includes(call.reason));
  for (const reason of ["expired", "infeasible", "predicted-late", "queue-full", "bytes-full"])
    expect(of(`dropped: ${reason}`), reason).toBe(told(reason));
  expect(of("failed: no-accelerator"), "no accelerator").toBe(
    count((call) => isRequest(call) && call.reason === "no-accelerator"),
  );
  // A client that was told at its deadline hears no more of what becomes of its batch.
  const failed = FAILURES.reduce((sum, cause) => sum + of(`failed: ${cause}`), 0);
  expect(of("late"), "late").toBeLessThanOrEqual(told("late"));
  expect(of("late") + failed, "late or failed").toBe(told("late", ...FAILURES));
}

// A thousand refusals a second would each gather a stack.
Error.stackTraceLimit = 2;

describe("the live server in virtual time", () => {
  itOverSeeds("keeps every request", SEEDS, PARTS, check);

  it("ran some of them again, and lost some of those", () => {
    for (const outcome of SHADOW_OUTCOMES) expect(runsAgain.get(outcome) ?? 0, outcome).toBeGreaterThan(0);
  });
});
