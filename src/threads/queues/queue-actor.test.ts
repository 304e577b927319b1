import { expect, test } from "vitest";
import { DROP_INFEASIBLE, DROP_QUEUE_FULL, DROPPED } from "../../core/outcome.js";
import type { Queue, SeparablePolicy } from "../../core/policy.js";
import { deferred } from "../../policies/registry.js";
import { FREE_PACE, type OfferWriter } from "../channel.js";
import * as is from "../messages.js";
import { createMailboxes, MailboxWriter } from "../offer-mailbox.js";
import { ReplayRing } from "../replay/replay-ring.js";
import { QueueActor } from "./queue-actor.js";

const SLO_US = 10_000;

/** Queue 0 of one queue thread: l(b) = 1000 b + 1000, at most 4 in a batch; and how often it looked for a batch. */
function createQueueThread(lengthMax: number, mailboxes: OfferWriter = new MailboxWriter(createMailboxes(2))) {
  const fromFront = new ReplayRing(is.IN_WIDTH);
  const fromRank = new ReplayRing(is.OUT_WIDTH);
  const toFront = new ReplayRing(is.OUT_WIDTH);
  const looked: number[] = [];
  const inner = deferred();
  const policy: SeparablePolicy = {
    ...inner,
    createQueue: (key, spec, core) => {
      const queue: Queue = inner.createQueue(key, spec, core);
      const refresh = queue.refresh.bind(queue);
      queue.refresh = (at) => {
        looked.push(at);
        refresh(at);
      };
      return queue;
    },
  };
  const actor = new QueueActor(
    {
      policy,
      network: { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 },
      acceleratorsMax: 2,
      queuesMax: 2,
      requestsMax: 16,
      tagsMax: 16,
      retriesMax: 0,
      learn: false,
    },
    {
      fromFront,
      fromRank,
      toFront,
      toRank: new ReplayRing(is.OUT_WIDTH),
      mailboxes,
      waitForRoom: () => {},
    },
    FREE_PACE,
  );
  const write = (ring: ReplayRing, record: readonly number[]): void => {
    ring.cells.set(record, ring.claim());
    ring.show();
  };
  const tell = (...record: number[]): void => write(fromFront, record);
  write(fromRank, [is.FLEET, 2, 1, 0, 0, 0, 0]);
  tell(is.ADD_QUEUE, 0, SLO_US, lengthMax, 4, 0);
  tell(is.TABLE, 2000, 3000, 4000, 5000);
  actor.turn(0);
  looked.length = 0;
  return {
    actor,
    looked,
    tell,
    arrive: (tag: number, at: number) => tell(is.ARRIVE, 0, tag, at, at + SLO_US),
    grant: (batch: number) =>
      write(fromRank, [is.GRANT, 0, 0, batch, 0, 1, 0, 0, 0, 0, 0, 0, 0, Number.POSITIVE_INFINITY]),
    /** [outcome, reason, tag] of each request that ended, and the members of batches, since the last time. */
    said: () => {
      const ends: number[][] = [];
      const members: number[] = [];
      for (let index = 0; index < toFront.available; index++) {
        const at = toFront.offsetAt(index);
        const { cells } = toFront;
        if (cells[at] === is.ENDS)
          for (let end = 0; end < cells[at + 5]!; end++)
            ends.push([cells[at + 1]!, cells[at + 2]!, cells[at + 6 + end]!]);
        if (cells[at] === is.DROPPED_LATE) ends.push([DROPPED, cells[at + 1]!, cells[at + 3]!]);
        if (cells[at] === is.DISPATCH) {
          const from = toFront.offsetAt(index + 1) + 1;
          members.push(...cells.subarray(from, from + cells[at + 4]!));
        }
      }
      toFront.release(toFront.available);
      return { ends, members };
    },
  };
}

test("requests that come in one turn look for a batch together, once, and before a grant that came with them", () => {
  const { actor, looked, arrive, grant, said } = createQueueThread(8);
  for (const tag of [0, 1, 2, 3]) arrive(tag, 100);
  actor.turn(100);
  expect(looked).toEqual([100]);
  expect(actor.offers.size[0]).toBe(4);
  arrive(4, 200);
  grant(0);
  actor.turn(200);
  expect(said().members).toEqual([0, 1, 2, 3]);
  expect(actor.offers.size[0]).toBe(1);
});

test("a request of a turn that was found to be too late ends once, and its tag is free to be cancelled", () => {
  const { actor, tell, said } = createQueueThread(8);
  tell(is.ARRIVE, 0, 5, 100, 1100);
  tell(is.CANCEL, 5);
  tell(is.ARRIVE, 0, 6, 100, 1100);
  actor.turn(100);
  tell(is.CANCEL, 6);
  actor.turn(200);
  expect(said().ends.map(([outcome, , tag]) => [outcome, tag])).toEqual([
    [DROPPED, 5],
    [DROPPED, 6],
  ]);
  expect(actor.requests.live).toBe(0);
});

test("a queue that is full is looked at before another of the same turn is refused: who is too late makes room", () => {
  const { actor, arrive, said } = createQueueThread(2);
  arrive(0, 0);
  arrive(1, 0);
  actor.turn(0);
  expect(said().ends).toEqual([]);
  // Neither can finish any more: the first to come is refused, as by a scheduler in one thread; the next finds room.
  for (const tag of [2, 3, 4, 5]) arrive(tag, 9500);
  actor.turn(9500);
  expect(said().ends).toEqual([
    [DROPPED, DROP_QUEUE_FULL, 2],
    [DROPPED, DROP_INFEASIBLE, 0],
    [DROPPED, DROP_INFEASIBLE, 1],
    [DROPPED, DROP_QUEUE_FULL, 5],
  ]);
  expect(actor.requests.live).toBe(2);
});

test("an offer is written where it will be read, though the room for it was replaced: a replay keeps all", () => {
  const sizes: number[] = [];
  const mailboxes = {
    cells: new Float64Array(is.RANK_WIDTH),
    reset: () => {},
    blank(): number {
      this.cells = new Float64Array(is.RANK_WIDTH);
      return 0;
    },
    post(): boolean {
      sizes.push(this.cells[is.OFFER_SIZE]!);
      return true;
    },
  };
  const { actor, arrive } = createQueueThread(8, mailboxes);
  for (const tag of [0, 1, 2]) {
    arrive(tag, 100);
    actor.turn(100);
  }
  expect(sizes).toEqual([1, 2, 3]);
});
