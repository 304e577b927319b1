import { expect, test } from "vitest";
import { deferred } from "../policies/registry.js";
import { FREE_PACE } from "./channel.js";
import * as is from "./messages.js";
import { createMailboxes, MailboxReader } from "./offer-mailbox.js";
import { RankActor } from "./rank-actor.js";
import { ReplayRing } from "./replay/replay-ring.js";

const NO_DELAYS = { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 };

/** A rank, what queue thread 0 tells it and what it asks. */
function createRank() {
  const fromFront = new ReplayRing(is.IN_WIDTH);
  const toRank = new ReplayRing(is.OUT_WIDTH);
  const asked = new ReplayRing(is.OUT_WIDTH);
  const rank = new RankActor(
    { policy: deferred(), network: NO_DELAYS, acceleratorsMax: 4, queuesMax: 4, learn: false, oneAtATime: false },
    { fromFront, fromQueues: [toRank], toQueues: [asked], mailboxes: new MailboxReader(createMailboxes(4)) },
    FREE_PACE,
  );
  const write = (ring: ReplayRing, record: readonly number[]): void => {
    const offset = ring.claim();
    ring.cells.set(record, offset);
    ring.show();
  };
  return {
    turn: (at: number) => rank.turn(at, () => {}),
    control: (...record: number[]) => write(fromFront, record),
    tell: (...record: number[]) => write(toRank, record),
    /** Kinds and keys or accelerators of what it asked since the last time, FLEET left out. */
    questions: (): number[][] => {
      const rows: number[][] = [];
      for (let index = 0; index < asked.available; index++) {
        const at = asked.offsetAt(index);
        if (asked.cells[at] !== is.FLEET) rows.push([...asked.cells.subarray(at, at + 3)]);
      }
      asked.release(asked.available);
      return rows;
    },
  };
}

/** An offer of queue 0 that opened at 100 and can start until 1000. */
const offer = (version: number, seen: number, more = 0): number[] => [
  is.OFFER,
  0,
  version,
  seen,
  4,
  100,
  1000,
  0,
  1000,
  0,
  0,
  more,
];

function withTwoIdle() {
  const rank = createRank();
  rank.control(is.JOIN, 0, 1);
  rank.control(is.JOIN, 1, 1);
  rank.tell(is.HELLO);
  rank.tell(is.QUEUE_ADDED, 0, 50_000, 0);
  rank.turn(1);
  return rank;
}

test("rank: an offer made before the last question was answered is passed over", () => {
  const rank = withTwoIdle();
  rank.tell(...offer(1, 0));
  rank.turn(200);
  expect(rank.questions()).toEqual([[is.GRANT, 0, 0]]);
  // Posted before the queue saw the grant: the same requests must not be granted twice.
  rank.tell(...offer(2, 0));
  rank.turn(210);
  expect(rank.questions()).toEqual([]);
  rank.tell(...offer(3, 1));
  rank.turn(220);
  expect(rank.questions()).toEqual([[is.GRANT, 0, 1]]);
});

test("rank: an offer with a full batch behind it is granted two accelerators at once", () => {
  const rank = withTwoIdle();
  rank.tell(...offer(1, 0, 1));
  rank.turn(200);
  expect(rank.questions()).toEqual([
    [is.GRANT, 0, 0],
    [is.GRANT, 0, 1],
  ]);
});

test("rank: an accelerator that left while a queue was asked is not granted again until it joins", () => {
  const rank = withTwoIdle();
  rank.control(is.LEAVE, 1);
  rank.tell(...offer(1, 0));
  rank.turn(200);
  expect(rank.questions()).toEqual([[is.GRANT, 0, 0]]);
  rank.control(is.LEAVE, 0);
  // Declined; the queue offers anew.
  rank.tell(...offer(2, 1));
  rank.tell(is.ANSWER, 0, 0, 0, 0, 0);
  rank.turn(210);
  expect(rank.questions()).toEqual([]);
  rank.control(is.JOIN, 0, 1);
  rank.turn(220);
  expect(rank.questions()).toEqual([[is.GRANT, 0, 0]]);
});
