/** Fan-out over what is quick: on an idle server all parts are in time, and who is given up by its budget is told so. */
import { expect, test } from "vitest";
import { expandScenario } from "../../src/config/scenario/expand-scenario.js";
import { parseScenario } from "../../src/config/scenario/scenario.js";
import type { InferReply } from "../../src/serve/gateway.js";
import { simulate } from "../../src/sim/simulate.js";
import type { ServingError } from "../../src/wire/serving-error.js";
import { group, modelSpec } from "../fakes/fake-server.js";
import { fp32 } from "../support/specs.js";
import { VirtualPipeline } from "../support/virtual-pipeline.js";

const PARTS = 200;
const SLO_MS = 800;
const MODEL_MS = 9;
const IO = "takes: { x: { datatype: FP32, shape: [-1, 1] } }, gives: { y: { datatype: FP32, shape: [-1, 1] } }";

interface End {
  readonly reply: InferReply | null;
  readonly error: ServingError | null;
  readonly afterUs: number;
}

/** One request of so many parts to a server that is idle: a step for each, a model for each, and a join. */
async function live(stepMs: number, rule: string, sloMs = SLO_MS): Promise<End> {
  const spec = modelSpec({
    name: "a",
    group: "g",
    batchSizeMax: 8,
    policy: "eager",
    emulated: { alphaMs: 1, betaMs: MODEL_MS - 1, tableMs: null },
  });
  const file = `
slo_ms: ${sloMs}
budget: ${rule}
steps: { threads: 2 }
modules:
  - { id: 0, name: judge, step: ./s.mjs, time_ms: ${stepMs}, ${IO}, fan_out: { tensors: [x] } }
  - { id: 1, name: a, pres: [0], inputs: { x: { module: judge, tensor: y } } }
  - { id: 2, name: end, step: ./s.mjs#end, time_ms: ${stepMs}, pres: [1], join: true, ${IO}, inputs: { x: { module: a, tensor: y } } }
`;
  const world = new VirtualPipeline([group(4, { name: "g" })], [spec], file);
  await world.start();
  const startAt = world.clock.now();
  const ends: End[] = [];
  world.clock.in(1000, () =>
    world.ask([fp32("x", [PARTS, 1], new Array<number>(PARTS).fill(0))], (reply, error) =>
      ends.push({ reply, error, afterUs: world.clock.now() - startAt - 1000 }),
    ),
  );
  await world.end(startAt + 20_000_000);
  expect(ends).toHaveLength(1);
  return ends[0]!;
}

function simulated(stepMs: number, rule: string): number {
  const report = simulate(
    expandScenario(
      parseScenario(`
groups: [{ name: g, accelerators: 4 }, { name: steps, accelerators: 2, policy: eager }]
models:
  - { name: a, group: g, profile: { alpha_ms: 1, beta_ms: ${MODEL_MS - 1} }, batch_max: 8 }
  - { name: step, group: steps, profile: { alpha_ms: 0, beta_ms: ${stepMs} }, batch_max: 1 }
pipelines:
  - name: p
    slo_ms: ${SLO_MS}
    budget: ${rule}
    modules:
      - { id: 0, name: judge, model: step, fan_out: ${PARTS} }
      - { id: 1, name: a, pres: [0] }
      - { id: 2, name: end, model: step, pres: [1], join: true }
arrivals: { process: uniform, rate_rps: 1 }
duration_s: 5
network: { control_us: 0, data_us_per_request: 0, response_us: 0 }
policy: eager
`),
    ),
  );
  return report.finish_rate;
}

test.each(["share", "staggered", "measured", "split", "worst", "whole"])(
  "%s: 200 parts of a step of 1 ms before a model of 9 are in time",
  async (rule) => {
    const { reply, afterUs } = await live(1, rule);
    expect(reply).not.toBeNull();
    // 100 ms for the step on 2 threads; the model keeps up.
    expect(afterUs).toBeGreaterThan(100_000);
    expect(simulated(1, rule)).toBe(1);
    // A step that is quick beside its model keeps up, too.
    expect((await live(0.02, rule)).reply).not.toBeNull();
    expect(simulated(0.02, rule)).toBe(1);
  },
);

test("who cannot be done in its module's budget is told of that, and what deadline it needed", async () => {
  // 200 parts are 1 s of 2 threads; the least that must follow a part is 9 ms and the join's 10.
  const { error, afterUs } = await live(10, "share");
  expect(afterUs).toBeLessThan(SLO_MS * 1000);
  expect(error!.message).toMatch(
    /^pipeline 'p': module 'judge': step '.\/s.mjs': the part could not be done in the module's budget: 781.0 ms of the 800.0 ms left when it came \(budget: share\); it would take at least 1000.0 ms here, and 19.\d ms are kept for the modules after it: the request would need a deadline of at least 1019.\d ms; was 800.0 ms$/,
  );
  expect(error!.details).toMatchObject({ reason: "budget", module: "judge", deadlineUs: SLO_MS * 1000 });
  expect(error!.details.estimateUs).toBeGreaterThanOrEqual(1_019_000);
  expect(simulated(10, "share")).toBe(0);
});

test("who cannot be in time at all is told of the deadline, whatever its budget", async () => {
  const { error } = await live(10, "whole");
  expect(error!.details.reason).toMatch(/^(infeasible|expired)$/);
  expect(error!.message).not.toContain("budget");
  expect(error!.message).toContain("the request would need a deadline of at least");
});
