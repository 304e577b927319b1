import { describe, expect, test } from "vitest";
import { OutcomeCollector } from "./collector.js";
import { PipelineAccounts } from "./pipeline-accounts.js";

/** A pipeline p of modules a and b; one accelerator, counted from 0 to 1 s. */
function accounts() {
  const collector = new OutcomeCollector({
    models: ["p"],
    modules: ["p/a", "p/b"],
    warmupUs: 0,
    endUs: 1_000_000,
    accelerators: 1,
  });
  const pipeline = new PipelineAccounts(collector, 0, 1, 2);
  const invalid = () => {
    const { invalid_rate, per_module } = collector.report({ policy: "x" });
    return [invalid_rate, per_module["p/a"]!.invalid_rate, per_module["p/b"]!.invalid_rate];
  };
  return { collector, pipeline, invalid };
}

describe("accelerator time of a pipeline's requests", () => {
  test("is in vain in all modules when the request does not finish, whatever became of its parts", () => {
    const { pipeline, invalid } = accounts();
    for (const request of [0, 1]) pipeline.opened(request);
    pipeline.ran(0, 0, 300, false, 0);
    pipeline.ran(1, 0, 100, false, 0);
    pipeline.ran(1, 1, 600, false, 0);
    expect(invalid()).toEqual([0, 0, 0]);
    pipeline.closed(0, false);
    pipeline.closed(1, true);
    expect(invalid()).toEqual([0.3, 0.75, 0]);
  });

  test("a part that runs on after its request has ended is in vain, and so is a batch that is lost; each is counted once", () => {
    const { pipeline, invalid } = accounts();
    pipeline.opened(0);
    pipeline.ran(0, 0, 100, true, 0);
    pipeline.closed(0, false);
    pipeline.ran(0, 1, 100, false, 0);
    expect(invalid()).toEqual([1, 1, 1]);
  });

  test("a number that is given out again begins anew, however many there are", () => {
    const { pipeline, invalid } = accounts();
    for (let request = 0; request < 500; request++) pipeline.opened(request);
    pipeline.ran(400, 1, 50, false, 700);
    expect([pipeline.startOf(400), pipeline.startOf(399)]).toEqual([700, -1]);
    pipeline.closed(400, true);
    pipeline.opened(400);
    expect(pipeline.startOf(400)).toBe(-1);
    pipeline.closed(400, false);
    expect(invalid()).toEqual([0, 0, 0]);
  });
});
