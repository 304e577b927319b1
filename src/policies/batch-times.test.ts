/** l(b) = 10 b + 90 µs; control 5 µs, data 2 µs a request. */
import { describe, expect, test } from "vitest";
import { linearTable, ProfiledLatency } from "../core/latency/latency.js";
import { CLOSE_EAGER } from "../core/outcome.js";
import type { QueueView } from "../core/policy.js";
import { AcceleratorTable } from "../core/tables/accelerator-table.js";
import { BatchTable } from "../core/tables/batch-table.js";
import { BatchTimes } from "./batch-times.js";

function setUp() {
  const accelerators = new AcceleratorTable(2);
  const batches = new BatchTable(4);
  accelerators.join(0, 1, 0);
  accelerators.join(1, 1.5, 0);
  const delays = { controlUs: 5, dataUsPerRequest: 2, responseUs: 0 };
  const core = { accelerators, batches, delaysOf: () => delays } as unknown as QueueView;
  const latency = new ProfiledLatency(linearTable(10, 90, 8));
  const spec = { latency, sloUs: 1000, lengthMax: 8 };
  return { accelerators, batches, latency, times: new BatchTimes(0, spec, core) };
}

describe("times of a batch", () => {
  test("it starts when its inputs are there and its accelerator is free, whatever comes last", () => {
    const { accelerators, times } = setUp();
    expect(times.startOf(4, 1000)).toBe(1000 + 5 + 8);
    accelerators.running[1] = 0;
    accelerators.freeAt[1] = 1200;
    expect(times.freeAt(0, 1000)).toBe(1000);
    expect(times.startOf(4, 1000, times.freeAt(1, 1000))).toBe(1200);
    expect(times.endOf(4, 1000, 1.5, 1200)).toBe(1200 + 130 * 1.5);
  });

  test("without an accelerator: on the fastest that is here", () => {
    const { accelerators, times } = setUp();
    expect(times.endOf(1, 1000)).toBe(1000 + 7 + 100);
    accelerators.leave(0);
    expect(times.endOf(1, 1000)).toBe(1000 + 7 + 150);
  });

  test("one request on an accelerator on trial, and by times that are hoped for", () => {
    const { accelerators, latency, times } = setUp();
    expect([times.sizeMaxOn(0), times.sizeMaxOn(1)]).toEqual([8, 8]);
    accelerators.observe(1, 9, 0);
    expect([times.sizeMaxOn(0), times.sizeMaxOn(1)]).toEqual([8, 1]);
    latency.hope();
    expect(times.sizeMaxOn(0)).toBe(1);
  });

  test("a padded batch takes the time of the size that is executed", () => {
    const { batches, times } = setUp();
    const batch = times.add(3, 5, 1, 2000, CLOSE_EAGER, 8);
    expect([batches.size[batch], batches.executedSize[batch], batches.execUs[batch]]).toEqual([5, 8, 170 * 1.5]);
    expect([batches.first[batch], batches.execAt[batch], batches.finishAt[batch]]).toEqual([3, 2000, 2255]);
  });
});
