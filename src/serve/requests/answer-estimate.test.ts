import { expect, test } from "vitest";
import type { AcceleratorGroupSpec } from "../../config/model.js";
import { PLAIN } from "../../core/tables/request-table.js";
import type { InferCall } from "../gateway.js";
import { AcceleratorGroup } from "../groups/accelerator-group.js";
import { RunRatio } from "../models/run-ratio.js";
import type { ServedModel, ServedQueue } from "../models/served-model.js";
import { answerEstimate, entryEstimate, retryAfterS } from "./answer-estimate.js";
import { InFlight } from "./in-flight.js";

const RECEIVED_AT = 1_000_000;
const NOW = 1_005_000;
const DELAYS = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };

/** A request received 5 ms ago to a model of 10 ms, whose runs deviate by a tenth, on one accelerator. */
function create() {
  const spec = { name: "g", kind: "onnx", count: 1, threads: 1, scales: [1] } as unknown as AcceleratorGroupSpec;
  const group = new AcceleratorGroup(spec, 0, 0, DELAYS, {} as never);
  group.joined(0, 0);
  const queue = { aloneUs: 10_000, ratio: new RunRatio() } as ServedQueue;
  const queues = new Map([["", queue]]);
  const model = {
    apps: { traitsOf: () => PLAIN },
    group,
    meter: { current: DELAYS },
    queues,
  } as unknown as ServedModel;
  const call = { receivedAt: RECEIVED_AT, byteLength: 1, parameters: {} } as unknown as InferCall;
  const request = new InFlight(model, queue, call, RECEIVED_AT + 6000, { onReply: () => {}, onError: () => {} });
  const run = (execAt: number, predictedUs: number) => {
    const batch = { accelerator: 0, dispatchedAt: execAt, execAt, predictedUs, wasIdle: true };
    group.dispatched(batch);
    return batch;
  };
  const estimate = () => {
    const { estimateUs, estimateSpreadUs } = answerEstimate(request, NOW);
    return [estimateUs, estimateSpreadUs];
  };
  return { group, model, queue, request, run, estimate };
}

test("on an idle accelerator: the time spent, delays, and a run", () => {
  expect(create().estimate()).toEqual([5000 + 300 + 10_000 + 200, 1000]);
});

test("behind what runs and what others wait for; its own part of that does not count", () => {
  const { group, request, run, estimate } = create();
  run(NOW - 1000, 8000);
  group.waits(4000);
  group.waits(1500);
  request.workUs = 1500;
  expect(estimate()).toEqual([15_500 + 7000 + 4000, 2100]);
});

test("behind a batch that is overdue, which is all uncertain", () => {
  const { run, estimate } = create();
  run(NOW - 11_000, 8000);
  expect(estimate()).toEqual([15_500 + 3000, 1000 + 3000]);
});

test("by the run times of its queue's last batches", () => {
  const { queue, estimate } = create();
  for (let n = 0; n < 100; n++) queue.ratio.measured(30_000, 10_000);
  expect(estimate()).toEqual([5000 + 300 + 30_000 + 200, 0]);
});

test("of one that runs: until its batch ends, not what runs behind it", () => {
  const { request, run, estimate } = create();
  request.batch = run(NOW - 1000, 8000);
  run(NOW + 7000, 50_000);
  expect(estimate()).toEqual([5000 + 7000 + 200, 800]);
});

test("of one that has run: what it took", () => {
  const { request, run, estimate } = create();
  request.batch = run(NOW - 8000, 8000);
  request.execEndAt = NOW - 100;
  expect(estimate()).toEqual([5000, 0]);
});

test("of one that did not enter, and when to come back: behind all that is there", () => {
  const { group, model, run } = create();
  run(NOW, 8000);
  group.waits(2_000_000);
  expect(entryEstimate(model, null, RECEIVED_AT, NOW).estimateUs).toBe(15_500 + 8000 + 2_000_000);
  expect(retryAfterS(group, NOW)).toBe(3);
  expect(retryAfterS(create().group, NOW)).toBe(1);
});
