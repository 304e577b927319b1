import { expect, test } from "vitest";
import { VirtualClock } from "../../../test/support/virtual-clock.js";
import { type DurationUs, durationUs, type TimeUs } from "../../core/time.js";
import { FlightBook } from "./flight-book.js";
import { type HangOwner, HangWatch } from "./hang-watch.js";

const RULE = { factor: 10, floorUs: durationUs(1_000_000) };

/** One slot; what happens is a list of words with the time since the start, ms. */
function watched(usesCpu: (ms: number) => number | null) {
  const clock = new VirtualClock();
  const startAt = clock.now();
  const ms = () => Math.round((clock.now() - startAt) / 1000);
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
  const watch = new HangWatch(1, flights, RULE, owner, clock);
  const depart = (batch: number, rest: { deadlineMs?: number; runMaxMs?: number } = {}) => {
    const deadlineAt = (startAt + (rest.deadlineMs ?? 0) * 1000) as TimeUs;
    const runMaxUs = durationUs((rest.runMaxMs ?? 0) * 1000);
    const flight = { batch, model: "m", earliestStartAt: startAt, predictedUs: durationUs(1000), deadlineAt, runMaxUs };
    flights.depart(0, flight, clock.now());
    watch.look();
  };
  const land = (batch: number) => {
    flights.land(0, batch, clock.now());
    watch.look();
  };
  return { clock, said, depart, land, state };
}
const within = ([word, ms]: [string, number], expected: string, from: number, to: number) => {
  expect(word).toBe(expected);
  expect(ms).toBeGreaterThanOrEqual(from);
  expect(ms).toBeLessThan(to);
};

test("hang watch: a process that does nothing is ended at the multiple, long before the deadline", () => {
  const { clock, said, depart } = watched(() => 7);
  depart(1, { deadlineMs: 30_000 });
  clock.advance(5_000_000);
  within(said[0]!, "overdue", 52, 60);
  within(said[1]!, "and its worker did nothing", 1010, 1100);
});

test("hang watch: one that computes has until its deadline", () => {
  const { clock, said, depart } = watched((ms) => ms / 10);
  depart(1, { deadlineMs: 30_000 });
  clock.advance(40_000_000);
  within(said[1]!, "past its deadline and run_max_ms", 30_000, 30_700);
});

test("hang watch: one that stops computing later is ended soon after, and run_max_ms counts as the deadline does", () => {
  const { clock, said, depart } = watched((ms) => Math.min(ms, 4000) / 10);
  depart(1, { runMaxMs: 30_000 });
  clock.advance(40_000_000);
  within(said[1]!, "and its worker did nothing", 4000, 5200);
});

test("hang watch: where CPU time says nothing, only the bound ends it", () => {
  const { clock, said, depart } = watched(() => null);
  depart(1, { runMaxMs: 3000 });
  clock.advance(10_000_000);
  within(said[1]!, "past its deadline and run_max_ms", 3000, 3700);
});

test("hang watch: what was overdue and ended is said to have recovered, once; the next one is timed anew", () => {
  const { clock, said, depart, land } = watched((ms) => ms);
  depart(1);
  depart(2);
  clock.advance(200_000);
  land(1);
  clock.advance(20_000);
  land(2);
  clock.advance(5_000_000);
  expect(said.map(([word]) => word)).toEqual(["overdue", "recovered"]);
});

test("hang watch: while other work keeps the process from its batches nobody is to blame", () => {
  const { clock, said, depart, state } = watched(() => 0);
  state.isExcused = true;
  depart(1);
  clock.advance(5_000_000);
  expect(said).toEqual([]);
});

test("hang watch: time in which the server itself stood still does not count", () => {
  const { clock, said, depart, land } = watched(() => 0);
  depart(1);
  clock.stall(3_000_000);
  clock.advance(40_000);
  expect(said).toEqual([]);
  land(1);
  clock.advance(5_000_000);
  expect(said).toEqual([]);
});
