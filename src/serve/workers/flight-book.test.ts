import { describe, expect, test } from "vitest";
import { type DurationUs, NEVER, type TimeUs } from "../../core/time.js";
import { FlightBook } from "./flight-book.js";

const at = (us: number) => us as TimeUs;
const flight = (batch: number, predictedUs: number, earliestStartAt = 0, deadlineAt = 0, runMaxUs = 0) => ({
  batch,
  model: "m",
  earliestStartAt: at(earliestStartAt),
  predictedUs: predictedUs as DurationUs,
  deadlineAt: at(deadlineAt),
  runMaxUs: runMaxUs as DurationUs,
});
const book = () => new FlightBook(2, { factor: 10, floorUs: 1000 as DurationUs });

describe("flight book", () => {
  test("a batch hangs after factor x prediction + floor, counted from when it came to the front", () => {
    const flights = book();
    flights.depart(0, flight(1, 100), at(5000));
    flights.depart(0, flight(2, 200), at(5010));
    expect(flights.hungAt(0)).toBe(5000 + 1000 + 1000);
    flights.land(0, 1, at(6000));
    expect(flights.hungAt(0)).toBe(6000 + 2000 + 1000);
    expect(flights.hungAt(1)).toBe(NEVER);
    expect(flights.overdueAt(0)).toBe(6000 + 400 + 50_000);
    expect(flights.overdueAt(1)).toBe(NEVER);
  });

  test.each([
    { what: "its deadline", deadlineAt: 70_000, runMaxUs: 0, bound: 70_000 },
    { what: "what its model says, from when it began", deadlineAt: 70_000, runMaxUs: 80_000, bound: 85_000 },
    { what: "the multiple", deadlineAt: 6000, runMaxUs: 100, bound: 7000 },
  ])("whatever it shows, it hangs after the latest of the three: $what", ({ deadlineAt, runMaxUs, bound }) => {
    const flights = book();
    flights.depart(0, flight(1, 100, 0, deadlineAt, runMaxUs), at(5000));
    expect([flights.boundAt(0), flights.boundAt(1)]).toEqual([bound, NEVER]);
  });

  test("waiting for its earliest start is not hanging", () => {
    const flights = book();
    flights.depart(1, flight(1, 100, 50_000), at(0));
    expect(flights.hungAt(1)).toBe(52_000);
  });

  test("a third batch on one accelerator is a bug of the caller", () => {
    const flights = book();
    flights.depart(0, flight(1, 1), at(0));
    flights.depart(0, flight(2, 1), at(0));
    expect(() => flights.depart(0, flight(3, 1), at(0))).toThrow("at most 2 batches");
  });

  test("landing twice, or what never departed, is nothing", () => {
    const flights = book();
    flights.depart(0, flight(1, 1), at(0));
    expect(flights.land(0, 1, at(1))).toMatchObject({ batch: 1 });
    expect(flights.land(0, 1, at(2))).toBeNull();
    expect(flights.land(7, 1, at(2))).toBeNull();
    expect(flights.count).toBe(0);
  });

  test("after a stop of the whole server the clocks start anew", () => {
    const flights = book();
    flights.depart(0, flight(1, 100), at(0));
    flights.restart(at(100_000));
    expect(flights.hungAt(0)).toBe(102_000);
  });
});
