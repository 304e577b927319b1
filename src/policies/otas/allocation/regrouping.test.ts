import { expect, test } from "vitest";
import { stream } from "../../../sim/random.js";
import { NOT_EXECUTED } from "./allocation.js";
import { Frontier } from "./frontier.js";
import { Regrouping, type WaitingRequests } from "./regrouping.js";

/** By gamma: µs for each request beyond 100 for the batch. */
const REQUEST_US = [10, 20];
const timeUs = (gamma: number, size: number): number => 100 + size * REQUEST_US[gamma]!;
/** Kind 0 is right with 0.8 and 0.9, kind 1 with 0.4 and 0.9. */
const ACCURACY = Float64Array.of(0.8, 0.9, 0.4, 0.9);

const regrouping = (sizeMax = 4, batchesMax = 10, times = timeUs) =>
  new Regrouping({
    requestsMax: 200,
    sizeMax,
    batchesMax,
    gammas: 2,
    accuracy: ACCURACY,
    timeUs: times,
    allocator: new Frontier(batchesMax, 2, 10_000),
  });

/** @param requests due moment, kind, utility. */
const waitingOf = (...requests: [number, number, number][]): WaitingRequests => ({
  count: requests.length,
  dueAt: Float64Array.from(requests, ([dueAt]) => dueAt),
  kind: Int32Array.from(requests, ([, kind]) => kind),
  utility: Float64Array.from(requests, ([, , utility]) => utility),
});

const nextOf = (to: Regrouping, waiting: WaitingRequests, price: number, groupingPrice: number, now = 0) => {
  const worth = to.decide(waiting, now, price, groupingPrice);
  return { worth, gamma: to.gamma, members: [...to.members.subarray(0, to.size)] };
};

test("regrouping: where time costs nothing all go together, with the last gamma", () => {
  const next = nextOf(regrouping(), waitingOf([900, 0, 1], [950, 1, 0.01], [990, 0, 0.5]), 0, 0);
  expect(next.members).toEqual([0, 1, 2]);
  expect(next.gamma).toBe(1);
  expect(next.worth).toBeCloseTo(0.9 + 0.009 + 0.45, 12);
});

test("regrouping: at a price those that want different gammas are apart, and the plan may take those who came later first", () => {
  // A full batch of 4 takes 35 and 45 us a request: at 0.006 per us the second gamma is worth its 10 us only to kind 1 of utility 1.
  const waiting = waitingOf([400, 0, 0.3], [400, 1, 1], [400, 0, 0.3], [400, 1, 1]);
  const { members, gamma } = nextOf(regrouping(), waiting, 0, 0.006);
  expect([members, gamma]).toEqual([[0, 2], 1]);
  // With the last gamma for both, 140 us each, the second would be late: who earns less gives way.
  const tight = waitingOf([270, 0, 0.3], [270, 1, 1], [270, 0, 0.3], [270, 1, 1]);
  expect(nextOf(regrouping(), tight, 0, 0.006)).toMatchObject({ members: [0, 2], gamma: 0 });
});

test("regrouping: the price says who is apart", () => {
  // Apart they do not fit, together they do.
  const waiting = waitingOf([190, 0, 0.3], [190, 1, 1], [190, 0, 0.3], [190, 1, 1]);
  expect(nextOf(regrouping(), waiting, 0, 0.006).members).toEqual([1, 3]);
  expect(nextOf(regrouping(), waiting, 0, 0)).toMatchObject({ members: [0, 1, 2, 3], gamma: 1 });
});

test("regrouping: a batch holds as many as can be in time for its first; who cannot be alone is in none", () => {
  const waiting = waitingOf([105, 0, 1], [125, 0, 1], [126, 0, 1], [127, 0, 1], [900, 0, 1]);
  expect(nextOf(regrouping(), waiting, 0, 0)).toMatchObject({ members: [1, 2], gamma: 0 });
});

test("regrouping: what is not worth its time does not run, or nothing waits, or nothing can be in time", () => {
  const to = regrouping();
  expect(nextOf(to, waitingOf([900, 0, 0.1]), 0.01, 0)).toEqual({ worth: 0, gamma: NOT_EXECUTED, members: [] });
  expect(nextOf(to, waitingOf(), 0, 0).members).toEqual([]);
  expect(nextOf(to, waitingOf([50, 0, 1]), 0, 0).members).toEqual([]);
});

test("regrouping: a gamma that memory is short for at this size is not chosen", () => {
  const short = (gamma: number, size: number) =>
    gamma === 1 && size > 2 ? Number.POSITIVE_INFINITY : timeUs(gamma, size);
  const to = regrouping(4, 10, short);
  const request: [number, number, number] = [900, 0, 1];
  expect(nextOf(to, waitingOf(request, request, request), 0, 0)).toMatchObject({ members: [0, 1, 2], gamma: 0 });
  expect(nextOf(to, waitingOf(request, request), 0, 0)).toMatchObject({ members: [0, 1], gamma: 1 });
});

test("regrouping: never late, never above its sizes, however many wait", () => {
  const random = stream(20261129, "regrouping");
  const to = regrouping(8, 12);
  let ran = 0;
  for (let each = 0; each < 200; each++) {
    const dues = Array.from({ length: Math.floor(random() * 201) }, () => Math.floor(random() * 3000)).sort(
      (a, b) => a - b,
    );
    const waiting = waitingOf(
      ...dues.map((dueAt): [number, number, number] => [dueAt, random() < 0.5 ? 0 : 1, random()]),
    );
    const { members, gamma, worth } = nextOf(to, waiting, random() * 0.01, random() * 0.01, 500);
    if (members.length === 0) continue;
    ran++;
    expect(members.length).toBeLessThanOrEqual(8);
    expect(worth).toBeGreaterThan(0);
    expect(new Set(members).size).toBe(members.length);
    for (const member of members)
      expect(500 + timeUs(gamma, members.length)).toBeLessThanOrEqual(waiting.dueAt[member]!);
  }
  expect(ran).toBeGreaterThan(100);
  expect(() => to.decide({ ...waitingOf(), count: 201 }, 0, 0, 0)).toThrow("requests must be at most 200; were 201");
});
