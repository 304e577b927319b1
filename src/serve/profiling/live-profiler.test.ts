import { beforeEach, expect, test } from "vitest";
import { DROP_CANCELLED, DROP_EXPIRED, DROPPED, FAIL_WORKER_CRASHED, FAILED, FINISHED } from "../../core/outcome.js";
import { PROFILER_DEFAULTS, Profiler, SHADOW_WAIT_US } from "../../core/shadow/profiler.js";
import { PLAIN } from "../../core/tables/request-table.js";
import type { InferCall } from "../gateway.js";
import type { LiveScheduler, ShadowScheduler } from "../live-scheduler.js";
import type { ServedModel, ServedQueue } from "../models/served-model.js";
import type { ServedModels } from "../models/served-models.js";
import { KEPT_BYTES_MAX, LiveProfiler } from "./live-profiler.js";

const SLOT = 100;
const KIND = Object.freeze({ ...PLAIN, kind: 2 });
const call = (bytes = 4, more: Partial<InferCall> = {}): InferCall =>
  ({
    inputs: [{ name: "x", datatype: "UINT8", shape: [bytes], data: new Uint8Array(bytes) }],
    outputs: ["y"],
    byteLength: bytes,
    ...more,
  }) as InferCall;
const members = (...calls: (InferCall | null)[]) => calls.map((each) => ({ call: each, traits: KIND }));

let said: unknown[];
let counted: string[];
let model: ServedModel;
let queue: ServedQueue;
let profiler: LiveProfiler;
let core: Profiler;

beforeEach(() => {
  said = [];
  counted = [];
  model = { shadows: 0, isLeaving: false } as ServedModel;
  queue = { id: 7, model, shadows: 0 } as ServedQueue;
  const scheduler = {
    arrive: (...all: unknown[]) => said.push(["arrive", ...all]),
    cancel: (slot: number) => said.push(["cancel", slot]),
  } as unknown as LiveScheduler;
  const shadows = { wantedAloneUs: (id: number, kind: number) => (id === 7 && kind === 2 ? 1000 : 0) };
  const models = { addShadow: () => 9, giveBack: (id: number) => said.push(["back", id]) } as unknown as ServedModels;
  const cells = {
    ended: (_: unknown, kind: number, outcome: string) => counted.push(`${kind} ${outcome}`),
    ran: (_: unknown, us: number) => counted.push(`${us} us`),
  };
  core = new Profiler({ ...PROFILER_DEFAULTS, requestShare: 1 }, () => 0);
  const asShadows = shadows as unknown as ShadowScheduler;
  profiler = new LiveProfiler(core, SLOT, scheduler, asShadows, models, cells, () => said.push("ended"));
  profiler.present(1, 0);
});

const AT = 100_000_000;
const pick = (calls = [call(), call()]): void => profiler.batchEnded(queue, members(...calls), AT);
/** Whether nothing is kept, and the queue may be removed. */
const isOver = (): boolean => profiler.out === null && queue.shadows === 0 && model.shadows === 0;

test("a member of a batch is sent again with its inputs, kind and a second to wait, and holds its queue until it has ended", () => {
  const [first, second] = [call(), call()];
  pick([first, second]);
  expect(said).toEqual([["arrive", SLOT, 9, AT, AT + SHADOW_WAIT_US, KIND]]);
  expect([queue.shadows, model.shadows]).toEqual([1, 1]);
  expect(profiler.dispatched(3)).toBeNull();
  expect(profiler.dispatched(SLOT)).toMatchObject({ inputs: first.inputs, outputs: ["y"], traits: KIND });
  profiler.ran(1500);
  expect(isOver()).toBe(false);
  profiler.ended(FINISHED, 0);
  expect(isOver()).toBe(true);
  expect(said.slice(1)).toEqual([["back", 9], "ended"]);
  expect(counted).toEqual(["2 ran", "1500 us"]);
  expect(profiler.share(1, AT)).toBe(1500 / AT);
});

test.each([
  ["expired", DROPPED, DROP_EXPIRED],
  ["cancelled", DROPPED, DROP_CANCELLED],
] as const)("one that waits ends once: %s", (name, outcome, reason) => {
  pick();
  profiler.ended(outcome, reason);
  expect(isOver()).toBe(true);
  expect(counted).toEqual([`2 ${name}`, "0 us"]);
});

test("one whose worker was lost has failed, and what it took counts", () => {
  pick();
  profiler.dispatched(SLOT);
  profiler.ran(300);
  profiler.ended(FAILED, FAIL_WORKER_CRASHED);
  expect(counted).toEqual(["2 failed", "300 us"]);
});

test("its model leaves: what waits is cancelled, what runs ends by itself; cancelled on its way it has ended when its batch has", () => {
  pick();
  profiler.cancel({} as ServedModel);
  expect(said).toHaveLength(1);
  profiler.cancel(model);
  expect(said.at(-1)).toEqual(["cancel", SLOT]);
  profiler.dispatched(SLOT);
  profiler.cancel(model);
  expect(said).toHaveLength(2);
  profiler.ended(DROPPED, DROP_CANCELLED);
  expect(isOver()).toBe(false);
  profiler.ran(1000);
  expect(isOver()).toBe(true);
  expect(counted).toEqual(["2 cancelled", "1000 us"]);
  model.isLeaving = true;
  pick();
  expect(isOver()).toBe(true);
});

test("the server ends: what waits is cancelled, nothing more is sent, and what still runs then ends once", () => {
  pick();
  profiler.close();
  expect(said.at(-1)).toEqual(["cancel", SLOT]);
  profiler.dispatched(SLOT);
  profiler.stop();
  expect(isOver()).toBe(true);
  expect(counted).toEqual(["2 cancelled", "0 us"]);
  profiler.stop();
  pick();
  expect(isOver()).toBe(true);
  expect(counted).toHaveLength(2);
});

test("larger inputs than may be kept are named; parts of pipelines, and what is held no more, are not run again", () => {
  pick([call(KEPT_BYTES_MAX + 1), call()]);
  expect(counted).toEqual(["2 too-large"]);
  pick([call(4, { byteLength: KEPT_BYTES_MAX + 1 }), call()]);
  expect(counted).toEqual(["2 too-large", "2 too-large"]);
  pick([call(4, { part: { askedAt: 0, deadline: 1, dueBy: 1, headStartUs: 0, ran: () => {} } }), call()]);
  profiler.batchEnded(queue, members(null, call()), AT);
  expect(said).toEqual([]);
  pick([call(KEPT_BYTES_MAX), call()]);
  expect(said).toHaveLength(1);
});
