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
  spends: () => true,
  batchUs: (module, size) => size * SHARED.partUs[module]!,
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
    // The one after n: n * 310 / 2 ms of others', and 250 of its own.
    expect(fill(work(), 250_000)).toBe(1 + Math.floor((DEADLINE - 250_000) / (PAGE_US / 2)));
  });

  test("only what is due before it is in its way: who has longer goes behind, and cannot keep it out", () => {
    const committed = work();
    for (let request = 0; request < 100; request++) {
      committed.letsIn(request, 0, 100 * DEADLINE, 0);
      committed.came(request, request * 3, LOOK, 1);
    }
    expect(committed.letsIn(100, 250_000, 101 * DEADLINE, 0)).toBe(true);
    committed.ended(100, false);
    expect(committed.letsIn(100, 250_000, DEADLINE, 0)).toBe(true);
    committed.came(100, 300, LOOK, 1);
    // One with the same deadline is: 310 ms on two accelerators, and 250 of its own.
    expect(committed.neededUs(250_000, DEADLINE, 0)).toBe(PAGE_US / 2 + 250_000);
    // Between the two deadlines it is the one; past the later of them all others, too.
    expect(committed.neededUs(3 * DEADLINE, DEADLINE, 0)).toBe(PAGE_US / 2 + 3 * DEADLINE);
    expect(committed.neededUs(100 * DEADLINE, DEADLINE, 0)).toBe((101 * PAGE_US) / 2 + 100 * DEADLINE);
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
    committed.letsIn(0, 250_000, 900_000, 0);
    committed.came(0, 0, LOOK, 1);
    committed.left(0, 0, LOOK, 0, 0);
    for (let line = 0; line < 4; line++) committed.came(0, 3 * (line + 1) + READ, READ, 4);
    // 4 * 20 + 10 ms on two accelerators: 45 ms; and 865 of its own.
    expect(committed.letsIn(1, 865_000, 910_000, 0)).toBe(true);
    committed.ended(1, false);
    expect(committed.letsIn(1, 865_000, 909_000, 0)).toBe(false);
  });

  test("does not go on whose parts turn out to be too many, behind those that must end before", () => {
    const goesOn = (lines: number, others: number, deadlineOfOthers: number): boolean => {
      const committed = work();
      committed.letsIn(0, 250_000, DEADLINE, 0);
      // A line was read of late, in the time of the profile.
      committed.came(0, 0, READ, 1);
      committed.left(0, 0, READ, 20_000, 700_000);
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
    expect(committed.eachUs(READ, 10)).toBeCloseTo(40_000, -1);
    expect(committed.eachUs(LOOK, 1)).toBeNaN();
    committed.left(0, READ, READ, 0, 0);
    expect(committed.eachUs(READ, 10)).toBeCloseTo(40_000, -1);
    committed.ended(0, false);
    committed.retime(SHARED);
    expect(fill(committed, 250_000)).toBe(1 + Math.floor((DEADLINE - 250_000) / ((PAGE_US + 200_000) / 2)));
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

  test("what a lost request took of other accelerators was in vain as well, but not what steps took", () => {
    const elsewhere = { ...SHARED, partUs: Float64Array.of(0, 20_000, 10_000) };
    const lessRoom = (spends: boolean): boolean => {
      const committed = new CommittedWork(PAGES, BEFORE, { ...elsewhere, spends: () => spends });
      const before = fill(committed, 250_000);
      for (let request = 0; request < before; request++) {
        committed.left(request, request * 3, LOOK, 100_000, 0);
        committed.ended(request, true);
      }
      return fill(committed, 250_000) < before;
    };
    expect(lessRoom(true)).toBe(true);
    expect(lessRoom(false)).toBe(false);
  });

  test("one loss tells little, however much the request took, and sixty in time give it back", () => {
    const one = (committed: CommittedWork, execUs: number, isLost: boolean): void => {
      committed.letsIn(0, 900_000, DEADLINE, 0);
      committed.came(0, 0, LOOK, 1);
      committed.left(0, 0, LOOK, execUs, 0);
      committed.ended(0, isLost);
    };
    /** What the second of two may not take of its own, over what the first takes. */
    const factor = (committed: CommittedWork): number => {
      committed.retime(SHARED);
      committed.letsIn(0, 0, 10 * DEADLINE, 0);
      committed.came(0, 0, LOOK, 1);
      let [low, high] = [0, 10 * DEADLINE];
      while (high - low > 1) {
        const middle = (low + high) / 2;
        if (committed.letsIn(1, middle, 10 * DEADLINE, 0)) {
          committed.ended(1, true);
          low = middle;
        } else high = middle;
      }
      committed.left(0, 0, LOOK, 0, 0);
      committed.ended(0, false);
      return (10 * DEADLINE - low) / ((committed.eachUs(LOOK, 1) + 210_000) / 2);
    };
    const committed = work();
    one(committed, 100_000, false);
    const first = factor(committed);
    expect(first).toBeCloseTo(1, 2);
    one(committed, 2_000_000, true);
    expect(factor(committed) / first).toBeCloseTo(Math.exp(0.05 * 0.98), 2);
    for (let time = 0; time < 60; time++) one(committed, 2_000_000, false);
    expect(factor(committed)).toBeLessThanOrEqual(first);
  });

  test("what was seen one by one does not count for many that come together, nor the other way round", () => {
    // A batch of any size takes 20 ms.
    const committed = new CommittedWork(PAGES, BEFORE, { ...SHARED, batchUs: () => 20_000 });
    const ran = (size: number, execUs: number): void => {
      committed.came(0, READ, READ, size);
      committed.ran(READ, size);
      committed.left(0, READ, READ, execUs, 0);
    };
    committed.letsIn(0, 0, DEADLINE, 0);
    for (let time = 0; time < 100; time++) ran(1, 40_000);
    expect(committed.eachUs(READ, 1)).toBeCloseTo(40_000);
    // Twice as long as by the profile, ten for each of two accelerators.
    expect(committed.eachUs(READ, 20)).toBeCloseTo(4_000);
    for (let time = 0; time < 1000; time++) ran(8, 20_000);
    expect(committed.eachUs(READ, 1)).toBeCloseTo(2_500, -2);
  });

  test("who would be refused for what nobody has shown of late is let on to show it, one in three seconds, with all the time that there is", () => {
    const committed = work();
    const goesOn = (request: number, at: number): boolean => {
      committed.letsIn(request, 0, at + DEADLINE, at);
      return committed.goesOn(request, READ, 1000, at);
    };
    expect(goesOn(0, 0)).toBe(true);
    expect(committed.isTried(0)).toBe(true);
    expect(goesOn(1, 2_000_000)).toBe(false);
    expect(committed.isTried(1)).toBe(false);
    expect(goesOn(2, 4_000_000)).toBe(true);
    committed.came(2, READ, READ, 1000);
    committed.left(2, READ, READ, 100, 5_000_000);
    committed.retime(SHARED);
    for (const request of [0, 1, 2]) committed.ended(request, false);
    // 1000 of 100 us, and a page, on two accelerators.
    expect(goesOn(3, 5_000_000)).toBe(true);
    expect(committed.isTried(3)).toBe(false);
    committed.ended(3, false);
    // Alone, too, whatever is foreseen.
    expect(committed.letsIn(4, 9e9, 6_000_000 + DEADLINE, 6_000_000)).toBe(true);
    expect(committed.isTried(4)).toBe(false);
    committed.ended(4, true);
    expect(committed.letsIn(5, 9e9, 9_000_000 + DEADLINE, 9_000_000)).toBe(true);
    expect(committed.isTried(5)).toBe(true);
  });

  test("parts that a request makes are counted over more than the last few", () => {
    const committed = work();
    const made = (): number | undefined => committed.seen.partsMade(READ);
    expect(made()).toBeUndefined();
    for (let page = 0; page < 40; page++) {
      committed.goesOn(0, READ, page % 2 === 0 ? 0 : 20, 0);
      if (page === 1) expect(made()).toBe(10);
    }
    expect(made()).toBeGreaterThan(9);
    expect(made()).toBeLessThan(11);
    for (let page = 0; page < 5; page++) committed.goesOn(0, READ, 20, 0);
    expect(made()).toBeLessThan(13);
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
