import { expect, test } from "vitest";
import { stream } from "../sim/random.js";
import { shuffle } from "./shuffle.js";

test("every order is as likely as any other, and nothing is lost", () => {
  const uniform = stream(1, "shuffle");
  const counts = new Map<string, number>();
  for (let draw = 0; draw < 6000; draw++) {
    const list = [1, 2, 3];
    shuffle(list, list.length, uniform);
    counts.set(list.join(""), (counts.get(list.join("")) ?? 0) + 1);
  }
  expect([...counts.keys()].sort()).toEqual(["123", "132", "213", "231", "312", "321"]);
  // Five deviations of a binomial with n = 6000, p = 1/6.
  for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(5 * Math.sqrt((6000 * 5) / 36));
});

test("the first places are a sample of all: each is in it as often", () => {
  const uniform = stream(2, "shuffle");
  const counts = [0, 0, 0, 0];
  for (let draw = 0; draw < 4000; draw++) {
    const list = [0, 1, 2, 3];
    shuffle(list, 2, uniform);
    for (const one of list.slice(0, 2)) counts[one]!++;
  }
  for (const count of counts) expect(Math.abs(count - 2000)).toBeLessThan(5 * Math.sqrt(4000 / 4));
});
