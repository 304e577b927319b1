/** What both baselines keep under any events: each request ends exactly once, batches within bounds, the same events the same commands. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HandDriven } from "../../../test/support/hand-driven.js";
import { FAIL_MODEL_ERROR, FAIL_WORKER_CRASHED, FAIL_WORKER_HUNG } from "../../core/outcome.js";
import type { Policy } from "../../core/policy.js";
import { tfserving, triton } from "../registry.js";

const ACCELERATORS = 3;
const MODELS = 2;
const SIZE_MAX = 6;

const event = fc.record({
  afterUs: fc.integer({ min: 0, max: 150 }),
  kind: fc.constantFrom("arrive", "arrive", "arrive", "cancel", "fail", "leave", "join"),
  which: fc.nat(1000),
  count: fc.integer({ min: 1, max: 9 }),
});
type Event = typeof event extends fc.Arbitrary<infer T> ? T : never;

function play(policy: Policy, events: readonly Event[]): { run: HandDriven; arrived: number } {
  const run = new HandDriven({
    policy,
    accelerators: ACCELERATORS,
    models: MODELS,
    sizeMax: SIZE_MAX,
    lengthMax: 40,
  });
  let at = 0;
  let arrived = 0;
  for (const { afterUs, kind, which, count } of events) {
    at += afterUs;
    const id = which % ACCELERATORS;
    if (kind === "arrive") for (let i = 0; i < count; i++) run.arrive(at, arrived++, which % MODELS, at + 400);
    else if (kind === "cancel") run.cancel(at, which % (arrived + 1));
    else if (kind === "fail") run.fail(at, id, [FAIL_MODEL_ERROR, FAIL_WORKER_CRASHED, FAIL_WORKER_HUNG][which % 3]!);
    else if (kind === "leave") {
      if (run.scheduler.accelerators.inFlight(id) === 0) run.leave(at, id);
    } else if (!run.isPresent(id)) run.join(at, id);
  }
  for (let id = 0; id < ACCELERATORS; id++) if (!run.isPresent(id)) run.join(at, id);
  run.until(at + 1_000_000);
  return { run, arrived };
}

const policies: [string, () => Policy][] = [
  ["tfserving, defaults", () => tfserving()],
  [
    "tfserving, timeout and padding",
    () => tfserving({ batch_timeout_micros: 120, allowed_batch_sizes: [2, 5], max_enqueued_batches: 3 }),
  ],
  ["triton, defaults", () => triton()],
  ["triton, delay and sizes", () => triton({ max_queue_delay_microseconds: 120, preferred_batch_size: [2, 5] })],
  [
    "triton, queue policy REJECT",
    () => triton({ max_queue_delay_microseconds: 90, default_timeout_microseconds: 150, max_queue_size: 12 }),
  ],
  [
    "triton, queue policy DELAY",
    () =>
      triton({
        preferred_batch_size: [3],
        max_queue_delay_microseconds: 200,
        default_timeout_microseconds: 150,
        timeout_action: "DELAY",
      }),
  ],
];

describe.each(policies)("%s", (_, policy) => {
  test("arrived = ended, each once, and nothing is left, over arrivals, cancels, failures and accelerators that come and go", () => {
    let batches = 0;
    const outcomes = new Set<string>();
    fc.assert(
      fc.property(fc.array(event, { minLength: 20, maxLength: 60, size: "max" }), (events) => {
        const { run, arrived } = play(policy(), events);
        expect(run.ended.size).toBe(arrived);
        expect(run.scheduler.requests.live).toBe(0);
        expect(run.scheduler.batches.live).toBe(0);
        expect(run.scheduler.nextWakeAt).toBe(Number.POSITIVE_INFINITY);
        for (let model = 0; model < MODELS; model++) expect(run.scheduler.queueLength(model)).toBe(0);
        batches += run.dispatches.length;
        for (const outcome of run.ended.values()) outcomes.add(outcome);
      }),
      { numRuns: 150, seed: 20260 },
    );
    expect(batches).toBeGreaterThan(1000);
    // The events reach every end.
    for (const outcome of ["finished", "late", "dropped cancelled", "dropped queue-full", "failed model-error"])
      expect(outcomes).toContain(outcome);
  });

  test("the same events give the same commands", () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 20, maxLength: 40, size: "max" }), (events) => {
        const { run } = play(policy(), events);
        const again = play(policy(), events).run;
        expect(again.dispatches).toEqual(run.dispatches);
        expect([...again.ended]).toEqual([...run.ended]);
      }),
      { numRuns: 30, seed: 7 },
    );
  });
});
