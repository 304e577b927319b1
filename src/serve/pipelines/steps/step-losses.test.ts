import { expect, test } from "vitest";
import { VirtualClock } from "../../../../test/support/virtual-clock.js";
import { FAIL_WORKER_CRASHED, FAIL_WORKER_HUNG } from "../../../core/outcome.js";
import type { Log } from "../../observation/log.js";
import { StepLosses } from "./step-losses.js";

test("every thread that ends is counted; of many in a second one is logged, and later how many were not", () => {
  const clock = new VirtualClock();
  const counted: string[] = [];
  const lines: object[] = [];
  const log = { warn: (fields: object) => lines.push(fields) } as unknown as Log;
  const losses = new StepLosses("p", (cause) => counted.push(cause), clock, log);
  losses.lost(FAIL_WORKER_HUNG, "./s.mjs", "took too long");
  for (let each = 0; each < 3; each++) losses.lost(FAIL_WORKER_CRASHED, "./s.mjs", "exit code 3");
  clock.in(1_000_000, () => losses.lost(FAIL_WORKER_CRASHED, "", "exit code 3"));
  clock.advance(2_000_000);
  expect(counted).toEqual(["worker-hung", ...Array(4).fill("worker-crashed")]);
  expect(lines).toEqual([
    { pipeline: "p", cause: "worker-hung", step: "./s.mjs", because: "took too long", unsaid: 0 },
    { pipeline: "p", cause: "worker-crashed", step: "", because: "exit code 3", unsaid: 3 },
  ]);
});
