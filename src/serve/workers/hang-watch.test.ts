import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type DurationUs, durationUs, type TimeUs } from "../../core/time.js";
import { FlightBook } from "./flight-book.js";
import { type HangOwner, HangWatch } from "./hang-watch.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The fake one, as the timers are. */
const now = () => (Date.now() * 1000) as TimeUs;
const RULE = { factor: 10, floorUs: durationUs(1_000_000) };

/** One slot; what happens is a list of words with the time since the start, ms. */
function watched(usesCpu: (ms: number) => number | null) {
  const startAt = now();
  const ms = () => Math.round((now() - startAt) / 1000);
  const said: [string, number][] = [];
  const flights = new FlightBook(1, RULE);
  const state = { isExcused: false };
  const owner: HangOwner = {
    cpuUs: () => {
      const cpuMs = usesCpu(ms());
      return cpuMs === null ? null : ((cpuMs * 1000) as DurationUs);
    },
    get isExcused() {
      return state.isExcused;
    },
    overdue: () => said.push(["overdue", ms()]),
    recovered: () => said.push(["recovered", ms()]),
    hung: (_slot, reason) => said.push([reason.replace(/^.*, /, ""), ms()]),
  };
  const watch = new HangWatch(1, flights, RULE, owner, now);
  const depart = (batch: number, rest: { deadlineMs?: number; runMaxMs?: number } = {}) => {
    const deadlineAt = (startAt + (rest.deadlineMs ?? 0) * 1000) as TimeUs;
    const runMaxUs = durationUs((rest.runMaxMs ?? 0) * 1000);
    const flight = { batch, model: "m", earliestStartAt: startAt, predictedUs: durationUs(1000), deadlineAt, runMaxUs };
    flights.depart(0, flight, now());
    watch.look();
  };
  const land = (batch: number) => {
    flights.land(0, batch, now());
    watch.look();
  };
  return { said, depart, land, state };
}
const within = ([word, ms]: [string, number], expected: string, from: number, to: number) => {
  expect(word).toBe(expected);
  expect(ms).toBeGreaterThanOrEqual(from);
  expect(ms).toBeLessThan(to);
};

test("hang watch: a process that does nothing is ended at the multiple, long before the deadline", () => {
  const { said, depart } = watched(() => 7);
  depart(1, { deadlineMs: 30_000 });
  vi.advanceTimersByTime(5000);
  within(said[0]!, "overdue", 52, 60);
  within(said[1]!, "and its worker did nothing", 1010, 1100);
});

test("hang watch: one that computes has until its deadline", () => {
  const { said, depart } = watched((ms) => ms / 10);
  depart(1, { deadlineMs: 30_000 });
  vi.advanceTimersByTime(40_000);
  within(said[1]!, "past its deadline and run_max_ms", 30_000, 30_700);
});

test("hang watch: one that stops computing later is ended soon after, and run_max_ms counts as the deadline does", () => {
  const { said, depart } = watched((ms) => Math.min(ms, 4000) / 10);
  depart(1, { runMaxMs: 30_000 });
  vi.advanceTimersByTime(40_000);
  within(said[1]!, "and its worker did nothing", 4000, 5200);
});

test("hang watch: where CPU time says nothing, only the bound ends it", () => {
  const { said, depart } = watched(() => null);
  depart(1, { runMaxMs: 3000 });
  vi.advanceTimersByTime(10_000);
  within(said[1]!, "past its deadline and run_max_ms", 3000, 3700);
});

test("hang watch: what was overdue and ended is said to have recovered, once; the next one is timed anew", () => {
  const { said, depart, land } = watched((ms) => ms);
  depart(1);
  depart(2);
  vi.advanceTimersByTime(200);
  land(1);
  vi.advanceTimersByTime(20);
  land(2);
  vi.advanceTimersByTime(5000);
  expect(said.map(([word]) => word)).toEqual(["overdue", "recovered"]);
});

test("hang watch: while other work keeps the process from its batches nobody is to blame", () => {
  const { said, depart, state } = watched(() => 0);
  state.isExcused = true;
  depart(1);
  vi.advanceTimersByTime(5000);
  expect(said).toEqual([]);
});

test("hang watch: time in which the server itself stood still does not count", () => {
  const { said, depart, land } = watched(() => 0);
  depart(1);
  vi.setSystemTime(Date.now() + 3000);
  vi.advanceTimersByTime(60);
  expect(said).toEqual([]);
  land(1);
  vi.advanceTimersByTime(5000);
  expect(said).toEqual([]);
});
