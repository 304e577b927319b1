import { expect, test } from "vitest";
import { HandDriven } from "../../../test/support/hand-driven.js";
import { linearTable, ProfiledLatency } from "../../core/latency/latency.js";
import { type ArbiterView, OfferTable } from "../../core/policy.js";
import { AcceleratorTable } from "../../core/tables/accelerator-table.js";
import { deferred } from "../registry.js";
import { Reserve } from "./reserve.js";

const TIGHT = 0;
const LONG = 1;

/** A tight queue that may wait 5 ms, active at 0, and a long one; accelerator 1 runs until 40 ms. */
function create() {
  const accelerators = new AcceleratorTable(2);
  accelerators.join(0, 1, 0);
  accelerators.join(1, 1, 0);
  accelerators.running[1] = 0;
  accelerators.freeAt[1] = 40_000;
  const offers = new OfferTable(2);
  offers.slackUs[TIGHT] = 10_000;
  offers.execUs[TIGHT] = 1000;
  offers.execUs[LONG] = 30_000;
  const askedUntil = new Float64Array(2);
  const reserve = new Reserve({ accelerators, offers } as unknown as ArbiterView, askedUntil);
  reserve.offered(TIGHT, 0);
  return { reserve, offers, accelerators, askedUntil };
}

test("the last accelerator within reach is the long queue's only for as long as the tight one may wait", () => {
  const { reserve } = create();
  expect(reserve.roomUs(LONG, 0, false, 0)).toBe(5000);
  expect(reserve.roomAt).toBe(35_000);
  expect(reserve.roomUs(LONG, 0, false, 35_000)).toBe(Number.POSITIVE_INFINITY);
  expect(reserve.roomUs(LONG, 0, true, 0)).toBe(Number.POSITIVE_INFINITY);
});

test("an accelerator that was granted, where the answer is under way, comes free after what it was granted for", () => {
  const { reserve, accelerators, askedUntil } = create();
  accelerators.running[1] = -1;
  accelerators.freeAt[1] = 0;
  expect(reserve.roomUs(LONG, 0, false, 0)).toBe(Number.POSITIVE_INFINITY);
  askedUntil[1] = 30_000;
  expect(reserve.roomUs(LONG, 0, false, 0)).toBe(5000);
});

test("for less while a light one waits already", () => {
  const { reserve, offers } = create();
  offers.size[TIGHT] = 1;
  offers.latestAt[TIGHT] = 8000;
  expect(reserve.roomUs(LONG, 0, false, 0)).toBe(3000);
  offers.demand[TIGHT] = 1;
  expect(reserve.roomUs(LONG, 0, false, 0)).toBe(5000);
});

test("for a second after its last offer", () => {
  const { reserve, accelerators } = create();
  accelerators.freeAt[1] = 9e6;
  expect(reserve.roomUs(LONG, 0, false, 1_000_000)).toBe(5000);
  expect(reserve.roomUs(LONG, 0, false, 1_005_001)).toBe(Number.POSITIVE_INFINITY);
});

/** Frames of 1 ms with an SLO of 16 ms, batches of b + 1 ms with one of 250 ms, one run of 40 ms, and one of 10 ms that is not light. */
function drive(accelerators: number) {
  const driven = new HandDriven({
    policy: deferred({ idle_dispatch: true, isolation: true }),
    accelerators,
    models: 0,
    depth: 2,
  });
  for (const [alpha, beta, slo] of [
    [50, 950, 16_000],
    [1000, 1000, 250_000],
    [1, 39_999, 1e6],
    [5000, 5000, 30_000],
  ] as const)
    driven.scheduler.addQueue({
      latency: new ProfiledLatency(linearTable(alpha, beta, 32)),
      sloUs: slo,
      lengthMax: 100,
    });
  return driven;
}

test("a batch too long for the last accelerator within reach goes in as large a part as is not", () => {
  const driven = drive(2);
  driven.arrive(0, "0", 0, 16_000).arrive(2000, "H", 2, 1e6);
  driven.arrive(2100, "abcdefgh", 1, 252_100).until(20_000);
  // 7.5 ms are half of the slack: seven would run for 8, six run for 7.
  expect(driven.dispatches).toEqual(["0:0", "2000:H", "10000:abcdef", "17000:gh"]);
});

test("a light queue does not wait for its window, and goes before one that opens sooner", () => {
  const driven = drive(1);
  driven.arrive(0, "H", 2, 1e6).arrive(30_000, "x", 3, 56_000).arrive(39_000, "f", 0, 55_000).until(60_000);
  expect(driven.dispatches).toEqual(["0:H", "39000:f", "41000:x"]);
});
