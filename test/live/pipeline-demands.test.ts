/** One budget for the whole (D11 of what users demand of servers): modules overlap, a failure stops the graph by name, limits answer. */
import { describe, expect, test } from "vitest";
import { durationUs } from "../../src/core/time.js";
import { BUDGET_RULES } from "../../src/system/budget/budget-spec.js";
import type { ServingError } from "../../src/wire/serving-error.js";
import { fp32, group, modelSpec } from "../fakes/fake-server.js";
import { VirtualPipeline } from "../support/virtual-pipeline.js";

const MS = 1000;
const S = 1_000_000;
const INPUT = "inputs: { x: { tensor: x } }";

/** Each on an accelerator of its own, without batches. */
const model = (name: string, ms: number, policy = "eager", rest: Parameters<typeof modelSpec>[0] = {}) =>
  modelSpec({
    name,
    group: name,
    policy,
    batchSizeMax: 1,
    sloUs: durationUs(200 * MS),
    emulated: { alphaMs: 0, betaMs: ms, tableMs: null },
    ...rest,
  });
const chain = (middle: string, more = ""): string => `slo_ms: 400
${more}
modules:
  - { id: 0, name: first, model: a }
  - { id: 1, name: second, pres: [0], ${middle}, ${INPUT} }
  - { id: 2, name: third, model: c, pres: [1], ${INPUT} }
`;
/**
 * Past capacity `whole` spends the second module on what is late in the third, since it does not look there, and `overload` admits less
 * than could be served: both as published.
 */
const ratesOf = (budget: string): number[] => (budget === "whole" || budget === "overload" ? [100] : [100, 110]);
const groups = ["a", "b", "c"].map((name) => group(1, { name }));

describe("modules of 4, 10 and 4 ms", () => {
  const STEP =
    "step: ./s.mjs, time_ms: 10, takes: { x: { datatype: FP32, shape: [-1, 1] } }, gives: { y: { datatype: FP32, shape: [-1, 1] } }";
  const runs = ["eager", "deferred"].flatMap((policy) =>
    BUDGET_RULES.flatMap((budget) => ratesOf(budget).map((rps) => ({ policy, budget, rps, middle: "model: b" }))),
  );
  const steps = [100, 110].map((rps) => ({ policy: "eager", budget: "share", rps, middle: STEP }));

  test.each([...runs, ...steps])(
    "$policy, $budget, $rps requests/s, $middle: at least 90 % of 100/s",
    async ({ policy, budget, rps, middle }) => {
      const models = [model("a", 4, policy), model("b", 10, policy), model("c", 4, policy)];
      const world = new VirtualPipeline(groups, models, chain(middle, `budget: ${budget}`));
      await world.start();
      const { clock } = world;
      const startAt = clock.now();
      const forUs = 10 * S;
      let finished = 0;
      for (let at = 0; at < forUs; at += S / rps)
        clock.in(at, () =>
          world.ask([fp32("x", 1, at)], (reply) => {
            if (reply !== null && clock.now() <= startAt + forUs) finished++;
          }),
        );
      await world.end(startAt + forUs + S);
      expect(finished).toBeGreaterThanOrEqual(0.9 * 100 * (forUs / S));
    },
  );
});

test("module 2 of 3 fails: module 3 is not called, the client gets module 2's error with its name", async () => {
  const step =
    "step: ./s.mjs, time_ms: 10, takes: { x: { datatype: FP32, shape: [-1, 1] } }, gives: { y: { datatype: FP32, shape: [-1, 1] } }";
  const world = new VirtualPipeline(groups, [model("a", 4), model("c", 4)], chain(step), () => "throws");
  await world.start();
  let error: ServingError | null = null;
  world.ask([fp32("x", 1, 0)], (_, why) => {
    error = why;
  });
  await world.end(world.clock.now() + S);
  expect(error).toMatchObject({
    code: "internal",
    message: "pipeline 'p': module 'second': step './s.mjs': the step failed: thrown",
    details: { module: "second", reason: "model-error" },
  });
  expect(await world.metric("rubato_pipeline_parts_total", 'module="first"', 'outcome="finished"')).toBe(1);
  expect(await world.metric("rubato_batches_ended_total", 'model="c"')).toBe(0);
});

test("accelerator time is counted by how the whole ended: also of a part that ran on when its sibling had failed", async () => {
  const file = `slo_ms: 400
modules:
  - { id: 0, name: first, model: a }
  - { id: 1, name: left, pres: [0], step: ./s.mjs, time_ms: 10, takes: { x: { datatype: FP32, shape: [-1, 1] } }, gives: { y: { datatype: FP32, shape: [-1, 1] } }, inputs: { x: { tensor: x } } }
  - { id: 2, name: right, model: c, pres: [0], ${INPUT} }
outputs: { y: { module: right, tensor: y } }
`;
  let asked = 0;
  const fate = () => (asked === 1 ? "throws" : "ends");
  const world = new VirtualPipeline(groups, [model("a", 4), model("c", 40)], file, fate);
  await world.start();
  const ends: string[] = [];
  const ask = (): void => {
    asked++;
    world.ask([fp32("x", 1, 0)], (reply) => ends.push(reply === null ? "failed" : "finished"));
  };
  ask();
  world.clock.in(200 * MS, ask);
  await world.end(world.clock.now() + S);
  expect(ends).toEqual(["failed", "finished"]);
  const secondsOf = (outcome: string): Promise<number> =>
    world.metric("rubato_pipeline_accelerator_seconds_total", `outcome="${outcome}"`);
  expect(await secondsOf("failed")).toBeCloseTo(0.044, 9);
  expect(await secondsOf("finished")).toBeCloseTo(0.044, 9);
});

test("queue limit 1 on a module, 20 parallel requests: every one is answered", async () => {
  const models = [
    model("a", 4, "eager", { batchSizeMax: 20 }),
    model("b", 10, "eager", { queueRequestsMax: 1 }),
    model("c", 4),
  ];
  const world = new VirtualPipeline(groups, models, chain("model: b"));
  await world.start();
  const ends = new Array<number>(20).fill(0);
  const reasons: string[] = [];
  for (let request = 0; request < ends.length; request++)
    world.ask([fp32("x", 1, request)], (reply, error) => {
      ends[request]!++;
      reasons.push(reply === null ? `${error!.details.reason} in ${error!.details.module}` : "finished");
    });
  await world.end(world.clock.now() + S);
  expect(ends).toEqual(new Array<number>(20).fill(1));
  expect(new Set(reasons)).toEqual(new Set(["finished", "queue-full in second"]));
  expect(reasons.filter((reason) => reason === "finished").length).toBeGreaterThanOrEqual(1);
});
