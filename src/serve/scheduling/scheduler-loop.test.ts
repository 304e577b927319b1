import { beforeEach, describe, expect, it } from "vitest";
import { DROP_EXPIRED, DROPPED, FINISHED } from "../../core/outcome.js";
import { encodeWindow, LIVE_DEFAULTS, liveWindow, WINDOW_NUMBERS } from "../../policies/live.js";
import { createRing, RING_WIDTH, RingReader, RingWriter } from "../../wire/ring.js";
import { SchedulerLoop } from "./scheduler-loop.js";
import * as protocol from "./scheduler-protocol.js";

let loop: SchedulerLoop;
let writer: RingWriter;
let reader: RingReader;
let stats: Float64Array;
let waits: number;

function setUp(records = 4096): void {
  const toScheduler = createRing(records);
  const fromScheduler = createRing(records);
  const statsMemory = new SharedArrayBuffer(protocol.STATS_LENGTH * 8);
  waits = 0;
  loop = new SchedulerLoop(
    {
      groups: [
        {
          name: "g",
          network: { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 },
          acceleratorsMax: 1,
          requestsMax: 10_000,
          retriesMax: 1,
          learn: false,
        },
      ],
      slots: 3000,
      toScheduler,
      fromScheduler,
      stats: statsMemory,
      eventLog: null,
    },
    () => {
      waits++;
      took.push(...take());
    },
    null,
  );
  writer = new RingWriter(toScheduler);
  reader = new RingReader(fromScheduler);
  stats = new Float64Array(statsMemory);
  took = [];
}
let took: number[][];

function send(...records: number[][]): void {
  for (const record of records) {
    const offset = writer.claim();
    expect(offset).toBeGreaterThanOrEqual(0);
    for (let cell = 0; cell < record.length; cell++) writer.cells[offset + cell] = record[cell]!;
  }
  writer.publish();
}

function take(): number[][] {
  const records: number[][] = [];
  for (let index = 0; index < reader.available; index++) {
    const offset = reader.offsetAt(index);
    records.push([...reader.cells.subarray(offset, offset + RING_WIDTH)]);
  }
  reader.release(records.length);
  return records;
}

/** An eager queue without an SLO: l(b) = 1000 us, batches of at most `sizeMax`. */
function queue(id: number, sizeMax: number): number[][] {
  const numbers = new Float64Array(WINDOW_NUMBERS + sizeMax).fill(1000, WINDOW_NUMBERS);
  encodeWindow(liveWindow("eager", {}, null, LIVE_DEFAULTS), numbers, 0);
  const records = [[protocol.ADD_QUEUE, 0, id, 1_000_000, 5000, sizeMax]];
  for (let at = 0; at < numbers.length; at += RING_WIDTH - 1)
    records.push([protocol.NUMBERS, ...numbers.subarray(at, at + RING_WIDTH - 1)]);
  return records;
}

const arrive = (slot: number, queueId: number, at: number, deadline: number): number[] => [
  protocol.ARRIVE,
  slot,
  queueId,
  at,
  deadline,
];
const JOIN = [protocol.JOIN, 0, 0, 1];

beforeEach(() => setUp());

describe("scheduler loop", () => {
  it("dispatches with the slots of its members, and ends them when the batch has", () => {
    send(...queue(3, 2), JOIN, arrive(7, 3, 10, 100_000));
    expect(loop.turn(20)).toBe(Number.POSITIVE_INFINITY);
    const [dispatch, slots] = take();
    expect(dispatch!.slice(0, 8)).toEqual([protocol.DISPATCH, 0, 0, 0, 3, 1, 20, 1000]);
    expect(slots!.slice(0, 2)).toEqual([protocol.SLOTS, 7]);
    send([protocol.BATCH_FINISHED, 0, 0, 20, 1020]);
    loop.turn(1030);
    expect(take()[0]!.slice(0, 6)).toEqual([protocol.END, 7, FINISHED, 0, 20, 1030]);
  });

  it("takes what ended before what arrived, in whatever order they were sent", () => {
    send(...queue(0, 1), JOIN, arrive(1, 0, 0, 100_000));
    loop.turn(1);
    take();
    send(arrive(2, 0, 1500, 100_000), [protocol.BATCH_FINISHED, 0, 0, 1, 1001]);
    loop.turn(1510);
    expect(take().map(([kind]) => kind)).toEqual([protocol.END, protocol.DISPATCH, protocol.SLOTS]);
  });

  it("after a stall sweeps what expired meanwhile, dispatches by the new clock, and counts the stall", () => {
    send(...queue(0, 1), JOIN, arrive(1, 0, 0, 300_000), arrive(2, 0, 0, 200_000), arrive(3, 0, 0, 9_000_000));
    const dueAt = loop.turn(10);
    expect(dueAt).toBe(200_001);
    take();
    expect(stats[protocol.STAT_STALLS]).toBe(0);
    // Stopped for two seconds; the accelerator ended meanwhile.
    send([protocol.BATCH_FINISHED, 0, 0, 10, 1010]);
    loop.turn(2_000_010);
    const records = take();
    expect(records[0]!.slice(0, 3)).toEqual([protocol.END, 1, FINISHED]);
    expect(records[1]!.slice(0, 6)).toEqual([protocol.END, 2, DROPPED, DROP_EXPIRED, -1, 2_000_010]);
    expect(records[2]!.slice(0, 7)).toEqual([protocol.DISPATCH, 0, 0, 0, 0, 1, 2_000_010]);
    expect(records[3]![1]).toBe(3);
    expect(stats[protocol.STAT_STALLS]).toBe(1);
    expect(stats[protocol.STAT_LAG_MAX_US]).toBe(2_000_010 - 200_001);
  });

  it("does not let time run backwards when the clock does", () => {
    send(...queue(0, 1), JOIN);
    loop.turn(1000);
    send(arrive(1, 0, 990, 100_000));
    loop.turn(400);
    expect(take()[0]![9]).toBe(1000);
  });

  it("ignores a cancellation that crossed the end of its request", () => {
    send(...queue(0, 1), JOIN, arrive(1, 0, 0, 100_000));
    loop.turn(1);
    send([protocol.BATCH_FINISHED, 0, 0, 1, 1001]);
    loop.turn(1002);
    take();
    send([protocol.CANCEL, 1]);
    loop.turn(1003);
    expect(take()).toEqual([]);
  });

  it("takes a message of many records whole, also across the border of a lot", () => {
    send(...queue(0, 1));
    loop.turn(1);
    // A lot is 1024 records: the new queue begins with its last one.
    const filler = Array.from({ length: 1023 }, (_, slot) => arrive(slot, 0, 0, 1_000_000));
    send(...filler, ...queue(1, 40), arrive(2000, 1, 0, 1_000_000));
    expect(loop.turn(2)).toBe(2);
    loop.turn(2);
    expect(stats[protocol.STAT_ARRIVALS]).toBe(1024);
    expect(stats[protocol.STAT_LIVE_REQUESTS]).toBe(1024);
  });

  it("waits for room when the ring to the main thread is full, and loses nothing", () => {
    setUp(64);
    const ends = 50;
    send(...queue(0, 1));
    loop.turn(1);
    for (let slot = 0; slot < ends; slot++) send(arrive(slot, 0, 0, 100));
    loop.turn(2);
    for (let slot = ends; slot < 2 * ends; slot++) {
      send(arrive(slot, 0, 0, 100));
      loop.turn(3);
    }
    loop.turn(5000);
    took.push(...take());
    expect(waits).toBeGreaterThan(0);
    expect(took.map((record) => record[1]).sort((a, b) => a! - b!)).toEqual(
      Array.from({ length: 2 * ends }, (_, slot) => slot),
    );
  });
});
