import { describe, expect, test } from "vitest";
import { stream } from "../../sim/random.js";
import { Pipeline } from "../pipeline.js";
import { CommittedWork, type SharedAccelerators } from "./committed-work.js";

/** A page is looked at (100 ms), its lines are read (20 ms each), then they are one page again (10 ms); two accelerators, 10 lines in the mean. */
const PAGES = new Pipeline([
  { id: 0, name: "look", pres: [], subs: [1] },
  { id: 1, name: "read", pres: [0], subs: [2], fansOut: true },
  { id: 2, name: "page", pres: [1], subs: [], joins: true },
]);
const BEFORE = [[], [0], [0, 1]];
const SHARED: SharedAccelerators = {
  count: 2,
  partUs: Float64Array.of(100_000, 20_000, 10_000),
  parts: Float64Array.of(1, 10, 1),
};
const PAGE_US = 100_000 + 10 * 20_000 + 10_000;
const DEADLINE = 1_000_000;
const LOOK = 0;
const READ = 1;

const work = (): CommittedWork => new CommittedWork(PAGES, BEFORE, SHARED);
/** Lets requests in one after the other, each with its first part, until one is refused. @returns how many. */
function fill(committed: CommittedWork, pathUs: number, at = 0): number {
  for (let request = 0; ; request++) {
    if (!committed.letsIn(request, pathUs, at + DEADLINE, at)) return request;
    committed.came(request, request * 3, LOOK, 1);
  }
}

describe("committed work", () => {
  test("lets in as many as end in time one behind the other, on all accelerators", () => {
    // The one after n: n * 310 / 2 ms of others', a fifth more to begin with, and 250 of its own.
    expect(fill(work(), 250_000)).toBe(1 + Math.floor((DEADLINE - 250_000) / ((1.2 * PAGE_US) / 2)));
  });

  test("where nobody is in its way it is let in, whatever is foreseen", () => {
    const committed = work();
    expect(committed.letsIn(0, 9e9, DEADLINE, 0)).toBe(true);
    expect(committed.letsIn(1, 9e9, DEADLINE, 0)).toBe(false);
    committed.ended(0, false);
    expect(committed.letsIn(1, 9e9, DEADLINE, 0)).toBe(true);
    committed.ended(1, false);
    // Not even after its deadline: it is the queue that says so.
    expect(committed.letsIn(2, 1, 0, 5)).toBe(true);
  });

  test("parts and what they lead to count until they leave; the rest of the way once, however many there are", () => {
    const committed = work();
    committed.letsIn(0, 250_000, DEADLINE, 0);
    committed.came(0, 0, LOOK, 1);
    committed.left(0, 0, LOOK, 0, 0);
    for (let line = 0; line < 4; line++) committed.came(0, 3 * (line + 1) + READ, READ, 4);
    // 4 * 20 + 10 ms on two accelerators: 45 ms, times the first factor; and 865 of its own.
    expect(committed.letsIn(1, 865_000, 920_000, 0)).toBe(true);
    committed.ended(1, true);
    expect(committed.letsIn(1, 865_000, 918_000, 0)).toBe(false);
  });

  test("does not go on whose parts turn out to be too many, behind those that must end before", () => {
    const goesOn = (lines: number, others: number, deadlineOfOthers: number): boolean => {
      const committed = work();
      committed.letsIn(0, 250_000, DEADLINE, 0);
      for (let other = 1; other <= others; other++) {
        committed.letsIn(other, 0, deadlineOfOthers, 0);
        committed.came(other, 1000 * other, LOOK, 1);
      }
      return committed.goesOn(0, READ, lines, 700_000);
    };
    // 300 ms are left: two accelerators read 29 lines.
    expect(goesOn(29, 0, DEADLINE)).toBe(true);
    expect(goesOn(30, 0, DEADLINE)).toBe(false);
    expect(goesOn(14, 1, DEADLINE - 1)).toBe(true);
    expect(goesOn(15, 1, DEADLINE - 1)).toBe(false);
    expect(goesOn(15, 1, DEADLINE)).toBe(true);
  });

  test("goes by what parts were measured to take, by their part of the batch", () => {
    const committed = work();
    committed.letsIn(0, 0, DEADLINE, 0);
    for (let line = 0; line < 500; line++) {
      committed.came(0, READ, READ, 10);
      committed.ran(READ, 4);
      committed.left(0, READ, READ, 160_000, 0);
    }
    expect(committed.measuredUs[READ]).toBeCloseTo(40_000, -1);
    expect(committed.measuredUs[LOOK]).toBeNaN();
    committed.left(0, READ, READ, 0, 0);
    expect(committed.measuredUs[READ]).toBeCloseTo(40_000, -1);
    committed.ended(0, false);
    committed.retime(SHARED);
    expect(fill(committed, 250_000)).toBe(1 + Math.floor((DEADLINE - 250_000) / ((1.2 * (PAGE_US + 200_000)) / 2)));
  });

  test("lets fewer in when more than a little time is in vain, and as many again when it is not; who was never near its end, or cost nothing, says nothing", () => {
    const committed = work();
    const one = (pathUs: number, isLost: boolean, execUs = 100_000): void => {
      committed.letsIn(0, pathUs, DEADLINE, 0);
      committed.came(0, 0, LOOK, 1);
      committed.left(0, 0, LOOK, execUs, 0);
      committed.ended(0, isLost);
    };
    const room = (): number => {
      const count = fill(committed, 250_000);
      for (let request = 0; request < count; request++) {
        committed.left(request, request * 3, LOOK, 0, 0);
        committed.ended(request, false);
      }
      return count;
    };
    const before = room();
    for (let time = 0; time < 20; time++) {
      one(100_000, true);
      one(900_000, true, 0);
    }
    expect(room()).toBe(before);
    for (let time = 0; time < 20; time++) one(900_000, true);
    const after = room();
    expect(after).toBeLessThan(before);
    for (let time = 0; time < 100; time++) one(100_000, false);
    expect(room()).toBe(after);
    for (let time = 0; time < 1000; time++) one(900_000, false);
    expect(room()).toBeGreaterThanOrEqual(before);
  });

  test("nothing is left over of what has ended, whatever came and went in between (seeds 1 to 20)", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = stream(seed, "committed");
      const committed = work();
      const parts: { request: number; part: number; module: number }[] = [];
      for (let step = 0; step < 500; step++) {
        const request = Math.floor(random() * 20);
        const part = request * 90 + Math.floor(random() * 90);
        const known = parts.findIndex((each) => each.part === part);
        if (known >= 0) {
          const [{ module }] = parts.splice(known, 1) as [(typeof parts)[number]];
          if (random() < 0.5) committed.ran(part, 1 + Math.floor(random() * 8));
          committed.left(request, part, module, random() < 0.5 ? random() * 50_000 : 0, 0);
        } else if (committed.isIn(request) || committed.letsIn(request, random() * 400_000, DEADLINE, 0)) {
          const module = Math.floor(random() * 3);
          committed.came(request, part, module, 1 + Math.floor(random() * 20));
          parts.push({ request, part, module });
        }
        if (step % 50 === 0) committed.retime(SHARED);
      }
      for (const { request, part, module } of parts) committed.left(request, part, module, 0, 0);
      for (let request = 0; request < 20; request++) committed.ended(request, false);
      const fresh = work();
      // All let in beside one that keeps the first from being tried whatever is foreseen.
      for (const each of [committed, fresh]) each.letsIn(0, 0, DEADLINE, 0);
      const leastUs = (each: CommittedWork): number => {
        let [low, high] = [0, DEADLINE];
        while (high - low > 1) {
          const middle = (low + high) / 2;
          if (each.letsIn(1, middle, DEADLINE, 0)) {
            each.ended(1, true);
            low = middle;
          } else high = middle;
        }
        return low;
      };
      expect(leastUs(committed)).toBeGreaterThan(0.2 * leastUs(fresh));
    }
  });
});
