import { expect, test } from "vitest";
import * as is from "../messages.js";
import { fromThread } from "../rank-actor.js";
import { KEYS_MAX, ReplayPace, SAW, SOURCES_MAX, TOOK, TURN } from "../turn-log.js";
import { ReplayOffers } from "./replay-offers.js";
import { ReplayRing } from "./replay-ring.js";

const KEY = 3;
/** A turn that takes `count` records of a thread and sees these versions of the queue's offer. */
const turn = (at: number, thread: number, count: number, ...versions: number[]): number[] => [
  TURN,
  at,
  TOOK,
  count * SOURCES_MAX + fromThread(thread),
  ...versions.flatMap((version) => [SAW, version * KEYS_MAX + KEY]),
];

function playing(...turns: number[][]) {
  const pace = new ReplayPace(Float64Array.from(turns.flat()));
  const offers = new ReplayOffers(KEY + 1, pace);
  const rings = [0, 1].map(() => new ReplayRing(is.RANK_WIDTH));
  const writers = [0, 1].map((thread) => offers.writer(thread));
  const write = (thread: number, kind: number): void => {
    const ring = rings[thread]!;
    const offset = ring.claim();
    ring.cells[offset] = kind;
    ring.cells[offset + 1] = KEY;
    ring.show();
  };
  return {
    /** A thread has been given the queue. */
    open(thread: number): void {
      writers[thread]!.reset(KEY);
      write(thread, is.QUEUE_ADDED);
    },
    post(thread: number, version: number, size: number, isTold: boolean): void {
      const offset = writers[thread]!.blank(KEY);
      writers[thread]!.cells[offset + is.OFFER_VERSION] = version;
      writers[thread]!.cells[offset + is.OFFER_SIZE] = size;
      writers[thread]!.post(KEY);
      if (isTold) write(thread, is.NOTICE);
    },
    get isReady(): boolean {
      return pace.isReady(
        (source) => rings[source - fromThread(0)]!.available,
        (source, count, seen) => offers.arePosted(source - fromThread(0), rings[source - fromThread(0)]!, count, seen),
      );
    },
    /** The rank's turn. @returns sizes of the offers that it read. */
    turn(): number[] {
      pace.begin(pace.nextAt);
      const sizes: number[] = [];
      for (const [thread, ring] of rings.entries()) {
        const count = pace.take(fromThread(thread), ring.available);
        for (let index = 0; index < count; index++) {
          if (ring.cells[ring.offsetAt(index)] === is.QUEUE_ADDED) offers.reader.reset(KEY);
          else {
            const offset = offers.reader.read(KEY);
            pace.saw(KEY, offers.reader.cells[offset + is.OFFER_VERSION]!);
            sizes.push(offers.reader.cells[offset + is.OFFER_SIZE]!);
          }
        }
        ring.release(count);
      }
      return sizes;
    },
  };
}

test("the rank waits for the version that it saw, which may be newer than the notice", () => {
  const run = playing(turn(10, 0, 2, 2));
  run.open(0);
  run.post(0, 1, 11, true);
  expect(run.isReady).toBe(false);
  run.post(0, 2, 12, false);
  run.post(0, 3, 13, false);
  expect(run.isReady).toBe(true);
  expect(run.turn()).toEqual([12]);
});

test("a thread that is given the queue next, and is replayed before the rank, does not hide what the rank reads of the one before", () => {
  const run = playing(turn(10, 0, 2, 1), turn(20, 0, 1, 5), turn(30, 1, 2, 1));
  run.open(0);
  run.post(0, 1, 11, true);
  expect(run.turn()).toEqual([11]);
  run.post(0, 5, 15, true);
  run.open(1);
  run.post(1, 1, 21, true);
  expect(run.isReady).toBe(true);
  expect(run.turn()).toEqual([15]);
  expect(run.isReady).toBe(true);
  expect(run.turn()).toEqual([21]);
});

test("of two times that a thread held the queue, taken in one turn, each has versions of its own", () => {
  const run = playing(turn(10, 0, 2, 1), turn(20, 0, 3, 2, 1));
  run.open(0);
  run.post(0, 1, 11, true);
  expect(run.turn()).toEqual([11]);
  run.post(0, 2, 12, true);
  run.open(0);
  expect(run.isReady).toBe(false);
  run.post(0, 1, 21, true);
  expect(run.isReady).toBe(true);
  expect(run.turn()).toEqual([12, 21]);
});
