import { expect, test } from "vitest";
import { TimeDemand } from "./time-demand.js";

/** Two gammas of 1 and 2 ms; kind 0 is right with 0.8 and 0.9, kind 1 with 0.5 and 0.9. */
const demand = () => new TimeDemand(Float64Array.of(0.8, 0.9, 0.5, 0.9), Float64Array.of(1000, 2000), 1e6);
/** Prices are those of a bucket of an eighth of an octave. */
const BUCKET = 2 ** (1 / 8);

function expectPrice(price: number, exact: number): void {
  expect(price).toBeLessThanOrEqual(exact * (1 + 1e-9));
  expect(price).toBeGreaterThan(exact / BUCKET / (1 + 1e-9));
}

/** As many requests as arrive in a second, at once. */
function arrive(to: TimeDemand, count: number, kind: number, utility: number): void {
  for (let each = 0; each < count; each++) to.arrived(kind, utility, 0);
}

test("demand: time is worth nothing while all fits with the last gamma", () => {
  const to = demand();
  arrive(to, 500, 0, 1);
  expect(to.price(1, 0)).toBe(0);
});

test("demand: beyond that, what the last gamma adds; beyond the first gamma, what the first earns", () => {
  const to = demand();
  arrive(to, 600, 0, 1);
  expectPrice(to.price(1, 0), 0.1 / 1000);
  expectPrice(to.price(1.6, 0), 0.1 / 1000);
  expectPrice(to.price(1.7, 0), 0.8 / 1000);
});

test("demand: those of little utility set the price where those of more leave room", () => {
  const to = demand();
  arrive(to, 400, 0, 1);
  arrive(to, 400, 0, 0.01);
  // 400 x 2 ms and 200 of 400 x 1 ms fit.
  expectPrice(to.price(1, 0), (0.01 * 0.8) / 1000);
});

test("demand: where the second gamma earns as much per µs as the first, one slope leads to it", () => {
  const to = new TimeDemand(Float64Array.of(0.4, 0.9), Float64Array.of(1000, 2000), 1e6);
  arrive(to, 600, 0, 1);
  expectPrice(to.price(1, 0), 0.9 / 2000);
});

test("demand: halved after ln 2 of the time constant; two accelerators share it", () => {
  const to = demand();
  arrive(to, 1100, 0, 1);
  expectPrice(to.price(1, 0), 0.8 / 1000);
  expectPrice(to.price(1 / 2, 0), 0.1 / 1000);
  expectPrice(to.price(1, Math.LN2 * 1e6), 0.1 / 1000);
  expect(to.price(1, 1.2e6)).toBe(0);
});

test("demand: the price of a share of the time asked for", () => {
  const to = demand();
  arrive(to, 10, 1, 1);
  arrive(to, 10, 0, 0.1);
  // By what a µs earns: 10 ms of 0.5/1000, 10 of 0.4/1000, 10 of 0.08/1000, 10 of 0.01/1000.
  expect(to.priceOfShare(1)).toBe(0);
  expectPrice(to.priceOfShare(0.8), 0.01 / 1000);
  expectPrice(to.priceOfShare(0.6), 0.08 / 1000);
  expectPrice(to.priceOfShare(0.3), 0.4 / 1000);
});

test("demand: a request of no utility asks for nothing", () => {
  const to = demand();
  arrive(to, 10_000, 0, 0);
  expect(to.price(1, 0)).toBe(0);
  expect(to.priceOfShare(0.5)).toBe(0);
});
