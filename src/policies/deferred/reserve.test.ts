import { expect, test } from "vitest";
import { AcceleratorTable } from "../../core/accelerator-table.js";
import { type ArbiterView, OfferTable } from "../../core/policy.js";
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
  const reserve = new Reserve({ accelerators, offers } as unknown as ArbiterView);
  reserve.offered(TIGHT, 0);
  return { reserve, offers, accelerators };
}

test("the last accelerator within reach is the long queue's only for as long as the tight one may wait", () => {
  const { reserve } = create();
  expect(reserve.roomUs(LONG, 0, false, 0)).toBe(5000);
  expect(reserve.roomAt).toBe(35_000);
  expect(reserve.roomUs(LONG, 0, false, 35_000)).toBe(Number.POSITIVE_INFINITY);
  expect(reserve.roomUs(LONG, 0, true, 0)).toBe(Number.POSITIVE_INFINITY);
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
