/**
 * Conservation with pipelines: models of the same server are called by clients and by modules, while workers die, models and
 * the pipeline come and go, and clients leave. See conservation.test.ts.
 */
import { describe, expect, it } from "vitest";
import { itOverSeeds } from "../support/seeded-parts.js";
import { type Call, isRefusal, isRequest, PIPELINE, VirtualServer } from "../support/virtual-server.js";

const SEEDS = 400;
const PARTS = 4;
const MS = 1000;
const GRAIN_US = 3 * MS;

const seen = {
  replies: 0,
  modules: new Set<string>(),
  reasons: new Set<string>(),
  /** Of modules that are steps. */
  ofSteps: new Set<string>(),
  /** What pipelines have that answered well. */
  kinds: new Set<string>(),
};

async function check(seed: number): Promise<void> {
  const world = new VirtualServer(seed, true);
  const { clock, server } = world;
  await world.live(seed);
  expect(clock.pending, "alarms that are set for ever").toBe(0);
  const { driver, pipelines } = server;
  expect([driver.requests.count, driver.batches.count, pipelines.live], "in flight").toEqual([0, 0, 0]);
  for (const row of driver.models.rows()) expect(row).toMatchObject({ inFlight: 0, queued: 0, bytes: 0 });
  for (const row of pipelines.pipelines()) expect(row).toMatchObject({ inFlight: 0, bytes: 0 });
  await checkCounts(world);
}

async function checkCounts(world: VirtualServer): Promise<void> {
  const { calls } = world;
  for (const call of calls) {
    expect(call.told, `times that call ${call.id} was told: ${JSON.stringify(call)}`).toBe(1);
    if (call.end === "reply") expect(call.reason).toBe("");
    const limitAt = call.deadlineAt + GRAIN_US + world.stalledBetween(call.deadlineAt, call.endedAt);
    if (call.end !== "refused") expect(call.endedAt, `call ${JSON.stringify(call)}`).toBeLessThanOrEqual(limitAt);
  }
  const whole = calls.filter(({ model }) => model === PIPELINE);
  const count = (is: (call: Call) => boolean): number => whole.filter(is).length;
  const { ended, parts } = await world.counted("rubato_pipeline_requests_total");
  const all = [...ended.values()].reduce((sum, each) => sum + each, 0);
  expect(all, "finished + late + dropped + failed").toBe(count(isRequest));
  expect(ended.get("finished") ?? 0, "finished").toBe(count(({ end }) => end === "reply"));
  expect(ended.get("dropped: cancelled") ?? 0, "cancelled").toBe(count(({ end }) => end === "cancelled"));
  for (const { end, reason, details, text } of whole) {
    if (end === "reply") {
      seen.replies++;
      for (const kind of ["step:", "fan_out:", "branch:", "join:"])
        if (world.pipeline.includes(kind)) seen.kinds.add(kind);
    }
    if (end !== "error") continue;
    expect(details.module, reason).toMatch(/^s\d$/);
    seen.modules.add(details.module!);
    seen.reasons.add(reason);
    if (text.includes(": step './s.mjs': ")) seen.ofSteps.add(reason);
  }
  const models = await world.counted();
  const requests = [...models.ended.values()].reduce((sum, each) => sum + each, 0);
  const direct = calls.filter((call) => call.model !== PIPELINE && isRequest(call)).length;
  // A part that its model refused was no request there.
  expect(requests).toBeLessThanOrEqual(direct + parts);
  expect(requests).toBeGreaterThanOrEqual(direct);
  expect(models.refused).toBeGreaterThanOrEqual(calls.filter(isRefusal).length);
}

Error.stackTraceLimit = 2;

describe("pipelines of the live server in virtual time", () => {
  itOverSeeds("every request ends once", SEEDS, PARTS, check);

  it("in all ways", () => {
    expect(seen.replies).toBeGreaterThan(1000);
    expect([...seen.modules].sort()).toEqual(["s0", "s1", "s2", "s3", "s4"]);
    expect(seen.kinds.size).toBe(4);
    expect([...seen.ofSteps]).toEqual(
      expect.arrayContaining(["infeasible", "late", "queue-full", "model-error", "worker-hung", "worker-crashed"]),
    );
    expect([...seen.reasons]).toEqual(
      expect.arrayContaining([
        "expired",
        "infeasible",
        "late",
        "worker-crashed",
        "model-error",
        "unloaded",
        "draining",
      ]),
    );
  });
});
