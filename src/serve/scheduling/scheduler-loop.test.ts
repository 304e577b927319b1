import { beforeEach, describe, expect, it } from "vitest";
import type { LogGroup } from "../../core/event-log.js";
import { LOG_CANCELLED, LOG_FINISHED } from "../../core/event-rows.js";
import { DROP_EXPIRED, DROPPED, FINISHED } from "../../core/outcome.js";
import { LIVE_DEFAULTS, liveWindow } from "../../policies/live.js";
import { SchedulerLoop } from "./scheduler-loop.js";

/** A command, as it came. */
type Told =
  | { batch: number; accelerator: number; queue: number; execAt: number; execUs: number; at: number; slots: number[] }
  | { ended: number; outcome: number; reason: number; execStartAt: number; at: number; lateByUs: number };

let loop: SchedulerLoop;
let create: (own: Partial<LogGroup>) => SchedulerLoop;
/** Queue, and which quantile of what it was expected to take the time of a batch of it was. */
let predicted: [queue: number, quantile: number][];
let told: Told[];
/** Kinds of the rows that are recorded. */
let recorded: number[];
/** What the owner says while it is told something. */
let onDispatch: (batch: number) => void;

beforeEach(() => {
  told = [];
  recorded = [];
  onDispatch = () => {};
  const network = { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 };
  const group = { name: "g", network, acceleratorsMax: 1, requestsMax: 10_000, retriesMax: 1, learn: false };
  predicted = [];
  create = (own) =>
    new SchedulerLoop(
      [{ ...group, ...own }],
      3000,
      {
        dispatched: ({ batch, accelerator, queue, execAt, execUs, at, slots }) => {
          told.push({ batch, accelerator, queue, execAt, execUs, at, slots: [...slots] });
          onDispatch(batch);
        },
        ended: (ended, outcome, reason, execStartAt, at, lateByUs) =>
          told.push({ ended, outcome, reason, execStartAt, at, lateByUs }),
        predicted: (queue, quantile) => void predicted.push([queue, quantile]),
      },
      { row: (kind) => void recorded.push(kind) },
    );
  loop = create({});
});

const take = (): Told[] => told.splice(0);
const endedSlots = (): number[] => take().flatMap((each) => ("ended" in each ? [each.ended] : []));

/** An eager queue without an SLO: l(b) = 1000 us, batches of at most `sizeMax`. */
function addQueue(queue: number, sizeMax: number): void {
  const window = liveWindow("eager", {}, null, LIVE_DEFAULTS);
  const timesUs = new Array<number>(sizeMax).fill(1000);
  loop.addQueue({ group: 0, queue, sloUs: 1_000_000, lengthMax: 5000, window, timesUs });
}

describe("scheduler loop", () => {
  it("dispatches with the slots of its members, and ends them when the batch has", () => {
    addQueue(3, 2);
    loop.join(0, 0, 1);
    loop.arrive(7, 3, 10, 100_000);
    expect(take()).toEqual([]);
    expect(loop.turn(20)).toBe(Number.POSITIVE_INFINITY);
    const [dispatch] = take();
    expect(dispatch).toEqual({ batch: 0, accelerator: 0, queue: 3, execAt: 20, execUs: 1000, at: 20, slots: [7] });
    loop.finished(0, 0, 20, 1020);
    loop.turn(1030);
    expect(take()).toEqual([{ ended: 7, outcome: FINISHED, reason: 0, execStartAt: 20, at: 1030, lateByUs: 0 }]);
  });

  it("takes what ended before what arrived, in whatever order it was said", () => {
    addQueue(0, 1);
    loop.join(0, 0, 1);
    loop.arrive(1, 0, 0, 100_000);
    loop.turn(1);
    take();
    loop.arrive(2, 0, 1500, 100_000);
    loop.finished(0, 0, 1, 1001);
    loop.turn(1510);
    expect(take()).toMatchObject([{ ended: 1 }, { slots: [2] }]);
  });

  it("what is said while commands go out waits for the next turn", () => {
    addQueue(0, 1);
    loop.join(0, 0, 1);
    onDispatch = (batch) => loop.failed(0, batch, 0, false);
    loop.arrive(1, 0, 0, 100_000);
    expect(loop.turn(1)).toBe(1);
    expect(take()).toMatchObject([{ slots: [1] }]);
    onDispatch = () => {};
    loop.turn(2);
    // It never began: it goes again.
    expect(take()).toMatchObject([{ slots: [1], at: 2 }]);
  });

  it("after a stall sweeps what expired meanwhile, dispatches by the new clock, and counts the stall", () => {
    addQueue(0, 1);
    loop.join(0, 0, 1);
    loop.arrive(1, 0, 0, 300_000);
    loop.arrive(2, 0, 0, 200_000);
    loop.arrive(3, 0, 0, 9_000_000);
    expect(loop.turn(10)).toBe(200_001);
    take();
    expect(loop.measured.stalls).toBe(0);
    // Stopped for two seconds; the accelerator ended meanwhile.
    loop.finished(0, 0, 10, 1010);
    loop.turn(2_000_010);
    const commands = take();
    expect(commands[0]).toMatchObject({ ended: 1, outcome: FINISHED });
    expect(commands[1]).toEqual({
      ended: 2,
      outcome: DROPPED,
      reason: DROP_EXPIRED,
      execStartAt: -1,
      at: 2_000_010,
      lateByUs: 2_000_010 + 1000 - 200_000,
    });
    expect(commands[2]).toMatchObject({ execAt: 2_000_010, slots: [3] });
    expect(loop.measured.stalls).toBe(1);
    expect(loop.measured.lagMaxUs).toBe(2_000_010 - 200_001);
  });

  it("does not let time run backwards when the clock does", () => {
    addQueue(0, 1);
    loop.join(0, 0, 1);
    loop.turn(1000);
    loop.arrive(1, 0, 990, 100_000);
    loop.turn(400);
    expect(take()).toMatchObject([{ at: 1000 }]);
  });

  it("ignores a cancellation that crossed the end of its request", () => {
    addQueue(0, 1);
    loop.join(0, 0, 1);
    loop.arrive(1, 0, 0, 100_000);
    loop.turn(1);
    loop.finished(0, 0, 1, 1001);
    loop.turn(1002);
    take();
    loop.cancel(1);
    loop.turn(1003);
    expect(take()).toEqual([]);
    expect(recorded).toContain(LOG_FINISHED);
    expect(recorded).not.toContain(LOG_CANCELLED);
  });

  it("a cancellation in the tick of its arrival ends it", () => {
    addQueue(0, 1);
    loop.arrive(1, 0, 0, 100_000);
    loop.cancel(1);
    loop.turn(1);
    expect(endedSlots()).toEqual([1]);
  });

  it("takes all that a tick said, queues with many numbers between, however much it is", () => {
    addQueue(0, 1);
    loop.turn(1);
    for (let slot = 0; slot < 1023; slot++) loop.arrive(slot, 0, 0, 1_000_000);
    addQueue(1, 40);
    loop.arrive(2000, 1, 0, 1_000_000);
    loop.removeQueue(1);
    expect(() => loop.turn(2)).toThrow("queue 1 must be empty to be removed; held 1");
    expect(loop.measured.liveRequests).toBe(1024);
  });

  it("loses nobody of many that expire together", () => {
    addQueue(0, 1);
    for (let slot = 0; slot < 100; slot++) {
      loop.arrive(slot, 0, 0, 100);
      if (slot >= 50) loop.turn(3);
    }
    loop.turn(5000);
    expect(endedSlots().sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, slot) => slot));
  });

  it("says which quantile of its expected time a batch took, once its policy knows a distribution", () => {
    loop = create({ policy: { name: "distribution+", options: {} }, learn: true });
    addQueue(3, 2);
    loop.join(0, 0, 1);
    for (const [index, us] of [1000, 2000, 500].entries()) {
      const at = 2e6 * (index + 1);
      loop.arrive(index, 3, at, at + 50_000);
      loop.turn(at);
      const batch = take().flatMap((each) => ("batch" in each ? [each.batch] : []));
      loop.finished(0, batch[0]!, at, at + us);
      loop.turn(at + us);
    }
    // Of the first nothing was known.
    expect(predicted).toEqual([
      [3, 1],
      [3, 0],
    ]);
  });
});
