import { describe, expect, it } from "vitest";
import { DeadlineQueue } from "../../core/deadline-queue.js";
import { stream } from "../../sim/random.js";
import { LaterChances } from "./later-chances.js";
import type { Line } from "./waiting-by-kind.js";

const lineOf = (deadlines: readonly number[], sloUs = 1000): Line => {
  const pending = new DeadlineQueue();
  for (const [handle, deadline] of deadlines.entries()) pending.push(handle, deadline);
  return { kind: 0, weight: 1, pending, sloUs, servedAt: Number.NEGATIVE_INFINITY, gapUs: -1 };
};

const chancesOf = (lines: readonly Line[], { startAt = 0, ownUs = 0 } = {}): LaterChances => {
  const chances = new LaterChances({ gapPart: 0.5, patience: 0.2 });
  chances.begin(lines, startAt, () => ownUs);
  return chances;
};

describe("chances to be served later", () => {
  it("1 - e^(-y / p), y what is left beyond its own need and p a part of the SLO before a gap is seen", () => {
    const chances = chancesOf([lineOf([500])], { ownUs: 100 });
    expect(chances.chanceOf(0, 300)).toBeCloseTo(1 - Math.exp(-1), 12);
    expect(chances.chanceOf(0, 100)).toBe(0);
    expect(chances.chanceOf(0, 50)).toBe(0);
  });

  it("lost within a time: the sum over the line, as one by one, in 2,000 drawn cases", () => {
    const random = stream(1, "later-chances");
    for (let round = 0; round < 2000; round++) {
      const startAt = Math.floor(1e6 * random());
      const ownUs = Math.floor(200 * random());
      const deadlines = Array.from({ length: Math.floor(12 * random()) }, () => startAt + Math.floor(1500 * random()));
      const chances = chancesOf([lineOf([1]), lineOf(deadlines, 100 + 2000 * random())], { startAt, ownUs });
      const us = 1500 * random();
      const oneByOne = deadlines.reduce(
        (sum, deadline) => sum + chances.chanceOf(1, deadline - startAt) - chances.chanceOf(1, deadline - startAt - us),
        0,
      );
      expect(chances.lostWithin(1, us), `round ${round}`).toBeCloseTo(oneByOne, 9);
    }
  });

  it("of a time that is 10,000 patiences long all is lost, and what has more left keeps its chance", () => {
    const chances = chancesOf([lineOf([1000, 1_000_000_000], 1)]);
    expect(chances.lostWithin(0, 10_000)).toBeCloseTo(1, 9);
  });

  it("p follows what lies between batches while somebody waits: from the last one, or from the oldest request's arrival", () => {
    const line = lineOf([1000, 1300]);
    const chances = chancesOf([line]);
    // The gap that patience stands for is 400; the oldest came at 0.
    chances.served(line, 100);
    expect(line.gapUs).toBeCloseTo(400 - 300 / 50, 9);
    chances.served(line, 250);
    expect(line.gapUs).toBeCloseTo(394 - 244 / 50, 9);
    line.pending.removeFront(1);
    // Nobody waited between 250 and 300.
    chances.served(line, 310);
    expect(line.gapUs).toBeCloseTo(389.12 - 379.12 / 50, 9);
    chances.begin([line], 310, () => 0);
    expect(chances.chanceOf(0, line.gapUs / 2)).toBeCloseTo(1 - Math.exp(-1), 12);
  });
});
