/** What a pipeline leaves behind that is loaded anew, in virtual time. */
import { expect, test } from "vitest";
import { fp32, group, modelSpec } from "../fakes/fake-server.js";
import { VirtualPipeline } from "../support/virtual-pipeline.js";

test("one that was replaced is kept until its last request has ended, and no longer", async () => {
  const spec = modelSpec({ name: "a", group: "g", emulated: { alphaMs: 0, betaMs: 50, tableMs: null } });
  const world = new VirtualPipeline(
    [group(1, { name: "g" })],
    [spec],
    "slo_ms: 500\nmodules: [{ id: 0, name: a, pres: [] }]\n",
  );
  const { clock } = world;
  const { pipelines } = world.server;
  await world.start();
  const ends: boolean[] = [];
  clock.in(10, () => world.ask([fp32("x", 1, 7)], (reply) => ends.push(reply !== null)));
  await clock.run(clock.now() + 1000);
  for (let load = 0; load < 5; load++) await pipelines.load("p", false);
  await clock.run(clock.now() + 1000);
  // The first one has a request on its accelerator, the others had none.
  expect([ends, pipelines.live, pipelines.leavingCount]).toEqual([[], 1, 1]);
  await clock.run(clock.now() + 100_000);
  expect([ends, pipelines.live, pipelines.leavingCount]).toEqual([[true], 0, 0]);
  await world.end(clock.now() + 1_000_000);
});
