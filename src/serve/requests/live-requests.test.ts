import { expect, test } from "vitest";
import { VirtualClock } from "../../../test/support/virtual-clock.js";
import { DROP_CANCELLED, DROPPED } from "../../core/outcome.js";
import { PLAIN } from "../../core/tables/request-table.js";
import type { InferCall, InferReply } from "../gateway.js";
import { RunRatio } from "../models/run-ratio.js";
import type { ServedModel, ServedQueue } from "../models/served-model.js";
import { InFlight } from "./in-flight.js";
import { LiveRequests } from "./live-requests.js";

const SLO_US = 50_000;
const RECEIVED_AT = 1_000_000;

/** Requests of one model before a scheduler that only notes what it is told. */
function create(spec: object = {}) {
  const arrived: unknown[][] = [];
  const queue = { id: 3, live: 0, arrived: 0, lastUsedAt: 0, perRequestUs: 700, ratio: new RunRatio() } as ServedQueue;
  const group = {
    isDeserted: false,
    presentCount: 1,
    waitingUs: 0,
    waits: (us: number) => {
      group.waitingUs += us;
    },
    load: { ended: () => {} },
  };
  const model = {
    spec: {
      name: "m",
      version: "1",
      sloUs: SLO_US,
      timeoutMaxUs: 60_000_000,
      timeoutOverride: "always",
      queueBytesMax: 1000,
      queueRequestsMax: 10,
      ...spec,
    },
    group,
    apps: { traitsOf: () => PLAIN },
    tasks: null,
    cells: {
      batchWait: { observe() {} },
      acceleratorWait: { observe() {} },
      dropped: { [DROP_CANCELLED]: { value: 0 } },
    },
    queues: new Map([["", queue]]),
    bytes: 0,
    live: 0,
    queued: 0,
  } as unknown as ServedModel;
  const requests = new LiveRequests(
    { slots: 4, tracer: null },
    new VirtualClock(),
    { queueFor: () => queue } as never,
    { arrive: (...record: unknown[]) => arrived.push(record) > 0, cancel: () => {} } as never,
    { countRefusal: () => {} } as never,
    () => {},
  );
  return { requests, model, queue, arrived, group };
}

const callOf = (changes: object): InferCall =>
  ({
    receivedAt: RECEIVED_AT,
    byteLength: 1,
    timeoutUs: null,
    outputs: [],
    parameters: {},
    traceparent: null,
    ...changes,
  }) as unknown as InferCall;

test.each<[string, object, object, number]>([
  ["the model's SLO", {}, {}, SLO_US],
  ["the client's timeout, shorter", {}, { timeoutUs: 20_001 }, 20_001],
  ["the client's timeout, longer", {}, { timeoutUs: 70_000 }, 70_000],
  ["the SLO where timeouts may only shorten", { timeoutOverride: "shorten" }, { timeoutUs: 70_000 }, SLO_US],
  ["the timeout where timeouts may only shorten", { timeoutOverride: "shorten" }, { timeoutUs: 7000 }, 7000],
  ["the SLO where timeouts do not count", { timeoutOverride: "never" }, { timeoutUs: 7000 }, SLO_US],
  ["the default without an SLO", { sloUs: null, defaultTimeoutUs: 9000 }, {}, 9000],
  ["the transport's deadline before", {}, { transportDeadlineAt: RECEIVED_AT + 400 }, 400],
  ["the SLO before the transport's deadline", {}, { transportDeadlineAt: RECEIVED_AT + 90_000 }, SLO_US],
])("a request is to be answered by its receipt and %s, to the microsecond", (_what, spec, call, afterUs) => {
  const { requests, model, arrived } = create(spec);
  requests.infer(model, callOf(call), {} as never, { onReply: () => {}, onError: () => {} });
  requests.stop();
  expect(arrived).toEqual([[0, 3, RECEIVED_AT, RECEIVED_AT + afterUs, PLAIN]]);
});

test("an answer is given until the deadline and refused as late a microsecond after it", () => {
  const { requests, model, queue } = create();
  const answered = (now: number): unknown[] => {
    const said: unknown[] = [];
    const handler = {
      onReply: (reply: InferReply) => said.push(reply.model),
      onError: (error: { code: string }) => said.push(error.code),
    };
    const deadline = RECEIVED_AT + SLO_US;
    const request = new InFlight(model, queue, callOf({}), deadline, handler as never);
    request.state = "running";
    requests.executed(request, RECEIVED_AT + 10, now, 0, [], now);
    expect([request.execStartAt, request.answeredAt]).toEqual([RECEIVED_AT + 10, now]);
    return said;
  };
  expect(answered(RECEIVED_AT + SLO_US)).toEqual(["m"]);
  expect(answered(RECEIVED_AT + SLO_US + 1)).toEqual(["deadline-exceeded"]);
});

test("a request counts for how long others wait exactly while it waits", () => {
  const { requests, model, group } = create();
  const waiting = () => [model.queued, group.waitingUs];
  const cancels = [1, 2].map(() =>
    requests.infer(model, callOf({}), {} as never, { onReply: () => {}, onError: () => {} }),
  );
  expect(waiting()).toEqual([2, 1400]);
  const request = requests.dispatched(0, 1, RECEIVED_AT, RECEIVED_AT);
  request.batch = { accelerator: 0, dispatchedAt: 0, execAt: 0, predictedUs: 1, wasIdle: true };
  expect([...waiting(), request.workUs]).toEqual([1, 700, 0]);
  requests.returned(request, "", "internal");
  expect([...waiting(), request.workUs, request.batch]).toEqual([2, 1400, 700, null]);
  for (const cancel of cancels) cancel();
  for (const slot of [0, 1]) requests.ended(slot, DROPPED, DROP_CANCELLED, RECEIVED_AT, 0);
  requests.stop();
  expect(waiting()).toEqual([0, 0]);
});
