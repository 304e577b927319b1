/** A server's pipeline that names no budget has that of the policy that all groups of its models have. */
import { expect, test } from "vitest";
import { group, modelSpec } from "../fakes/fake-server.js";
import { VirtualPipeline } from "../support/virtual-pipeline.js";

const model = (name: string) =>
  modelSpec({ name, group: name, batchSizeMax: 4, emulated: { alphaMs: 1, betaMs: 2, tableMs: null } });

test.each([
  ["pard", "pard", "", "forecast"],
  ["nexus", "naive", "", "whole"],
  ["pard", null, "", "staggered"],
  ["pard", "pard", "budget: share\n", "share"],
])("groups with %s and %s, %j: %s", async (first, second, budget, rule) => {
  const groups = Object.entries({ a: first, b: second }).map(([name, policy]) =>
    group(1, { name, ...(policy === null ? {} : { policy: { name: policy, options: {} } }) }),
  );
  const file = `slo_ms: 200\n${budget}modules:\n  - { id: 0, name: a }\n  - { id: 1, name: b, pres: [0], inputs: { x: { tensor: x } } }\n`;
  const world = new VirtualPipeline(groups, [model("a"), model("b")], file);
  await world.start();
  expect(world.server.pipelines.specs()[0]!.parameters).toMatchObject({ "rubato.budget": rule });
  await world.end(world.clock.now() + 1_000_000);
});
