/** What queue threads and the rank tell each other of the load. That it is enough is shown in test/threads/lockstep.test.ts. */
import { expect, test } from "vitest";
import { OTHERS_NUMBERS, SAID_NUMBERS } from "../../core/shared-numbers.js";
import { AcceleratorTable } from "../../core/tables/accelerator-table.js";
import { QueueLoadShare, RankLoadShare } from "./load-share.js";
import { SharedLoad } from "./shared-load.js";

function fleet(count: number): AcceleratorTable {
  const table = new AcceleratorTable(4);
  for (let id = 0; id < count; id++) table.join(id, 1, 0);
  return table;
}

/** A rank and two queue threads: what one says reaches the rank, what the rank has for one reaches it. */
function create() {
  const rank = new SharedLoad(fleet(4));
  const toRank = new RankLoadShare(rank);
  const ends = [0, 1].map((thread) => {
    toRank.threadStarted(thread);
    const load = new SharedLoad(fleet(4));
    return { load, share: new QueueLoadShare(load) };
  });
  const tell = (thread: number): number[] => {
    const { share } = ends[thread]!;
    const said: number[] = [];
    for (let key = share.nextSaid(); key >= 0; key = share.nextSaid()) {
      const cells = new Float64Array(SAID_NUMBERS);
      share.writeSaid(key, cells, 0);
      toRank.readSaid(thread, key, cells, 0);
      said.push(key);
    }
    toRank.gaveUp(thread, share.bad);
    return said;
  };
  const hear = (thread: number): boolean => {
    if (!toRank.isNews(thread)) return false;
    const cells = new Float64Array(OTHERS_NUMBERS);
    toRank.writeOthers(thread, cells, 0);
    ends[thread]!.share.readOthers(cells, 0);
    return true;
  };
  return { rank, toRank, loads: ends.map(({ load }) => load), shares: ends.map(({ share }) => share), tell, hear };
}

test("a queue's numbers reach the rank once, and the other thread as a sum; its own thread hears nothing of itself", () => {
  const { rank, loads, tell, hear } = create();
  loads[0]!.say(0, 0.001, 1, 1);
  loads[0]!.say(2, 0.003, 0.5, 2);
  loads[0]!.say(0, 0.002, 1.5, 1);
  expect(tell(0)).toEqual([0, 2]);
  expect(tell(0)).toEqual([]);
  expect(rank.room).toBeCloseTo(4 / 2, 12);
  expect(hear(0)).toBe(false);
  loads[1]!.say(1, 0.005, 2, 1);
  tell(1);
  expect([hear(0), hear(1), hear(1)]).toEqual([true, true, false]);
  for (const load of [...loads, rank]) {
    expect(load.room).toBeCloseTo(1, 12);
    expect(load.dispersion).toBeCloseTo(0.013 / 0.01, 12);
  }
  expect(loads[0]!.shareOf(0)).toBeCloseTo(0.2, 12);
});

test("what a thread gave up moves the others, its own count stays its own; a thread that starts anew counts from nothing", () => {
  const { rank, toRank, loads, shares, tell, hear } = create();
  loads[0]!.bad += 5;
  tell(0);
  toRank.gaveUp(0, 3);
  hear(1);
  expect([rank.bad, loads[1]!.bad, shares[1]!.bad]).toEqual([5, 5, 0]);
  loads[1]!.bad += 2;
  tell(1);
  hear(0);
  expect([rank.bad, loads[0]!.bad, shares[0]!.bad]).toEqual([7, 7, 5]);
  toRank.threadStarted(0);
  toRank.gaveUp(0, 1);
  expect(rank.bad).toBe(3);
});

test("a queue that goes is forgotten at both ends", () => {
  const { rank, toRank, loads, tell, hear } = create();
  loads[0]!.say(0, 0.001, 2, 1);
  loads[1]!.say(1, 0.001, 2, 1);
  for (const thread of [0, 1]) tell(thread);
  hear(1);
  loads[0]!.forget(0);
  tell(0);
  toRank.queueRemoved(0, 0);
  expect(rank.shareOf(1)).toBe(1);
  hear(1);
  expect(loads[1]!.isAlone(1)).toBe(true);
  expect(loads[1]!.room).toBeCloseTo(2, 12);
});

test("free times are told to a queue that is alone and looks ahead, and count for one grant", () => {
  const { rank, toRank, loads, shares, tell } = create();
  loads[0]!.looksAhead = true;
  loads[0]!.say(0, 0.001, 2, 1);
  tell(0);
  rank.accelerators.freeAt.set([0, 900, 700, 0]);
  const table = rank.accelerators as AcceleratorTable;
  for (const id of [1, 2]) table.running[id] = id;
  const times = toRank.othersFreeAt(0, 0, 100)!;
  expect([...times]).toEqual([100, 700, 900]);
  const grant = new Float64Array(4);
  const into = new Float64Array(4);
  for (const time of times) shares[0]!.readFreeAt(time);
  toRank.writeGrant(times.length, grant, 0);
  shares[0]!.readGrant(grant, 0);
  expect(loads[0]!.othersFreeAt(0, 100, into)).toBe(3);
  expect([...into]).toEqual([100, 700, 900, 0]);
  toRank.writeGrant(-1, grant, 0);
  shares[0]!.readGrant(grant, 0);
  expect(loads[0]!.othersFreeAt(0, 100, into)).toBe(-1);
  loads[1]!.say(1, 0.001, 2, 1);
  tell(1);
  expect(toRank.othersFreeAt(0, 0, 100)).toBeNull();
});
