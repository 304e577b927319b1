/** ORLOJ's rules and those past it, worked by hand in µs: one alone takes 100 (short) or 190 (long), c0 = 90: k short ones take 90 + 10 k, with a long one 90 + 100 k. */
import { describe, expect, test } from "vitest";
import { HandDriven } from "../../../test/support/hand-driven.js";
import type { KindTimes } from "../../core/policy.js";
import { distribution, distributionPlus } from "../registry.js";

const SHORT = 0;
const LONG = 1;
const KINDS: readonly KindTimes[] = [
  { name: "short", share: 0.5, aloneUs: Float64Array.of(100) },
  { name: "long", share: 0.5, aloneUs: Float64Array.of(190) },
];
const members = (run: HandDriven): string[] => run.dispatches.map((text) => text.split(":")[1]!);

describe("distribution: Algorithm 1", () => {
  const serve = (options: Parameters<typeof distribution>[0] = {}) =>
    new HandDriven({ policy: distribution(options), kinds: KINDS.slice(0, 1) });

  test("an accelerator that is free takes what waits", () => {
    expect(serve().arrive(0, "a").arrive(10, "bc").until(1000).dispatches).toEqual([
      "0:a",
      expect.stringMatching(/:cb|bc$/),
    ]);
  });

  test("the largest size for which enough have time, by line 16; the size of the most urgent, by the text", () => {
    const run = (size: "descending" | "earliest") =>
      members(serve({ size }).arrive(0, "x").arrive(10, "a", 0, 208).arrive(10, "bcde", 0, 1000).until(2000));
    // At 100 a is in time alone (200), not with another (210).
    expect(run("descending")[1]!.split("").sort().join("")).toBe("bcde");
    expect(run("earliest").slice(1, 2)).toEqual(["a"]);
  });

  test("only sizes that are given", () => {
    const run = serve({ batch_sizes: [1, 3] })
      .arrive(0, "x")
      .arrive(10, "abcde")
      .until(2000);
    expect(members(run).map(({ length }) => length)).toEqual([1, 3, 1, 1]);
  });

  test("who has no feasible size left is dropped, with the estimate that decided", () => {
    const run = serve().arrive(0, "x").arrive(10, "a", 0, 150).until(1000);
    expect(run.ended.get("a")).toBe("dropped infeasible");
    expect(run.lateByUs.get("a")).toBeGreaterThan(0);
  });
});

test.each([150, 150.45, 150.999, 151])(
  "who is due at %d and hopeless while the accelerator runs is given up once",
  (deadline) => {
    for (const policy of [distribution(), distributionPlus()]) {
      const run = new HandDriven({ policy, kinds: KINDS }).arrive(0, "x").arrive(10, "a", 0, deadline).until(1000);
      expect(run.ended.get("a")).toBe("dropped infeasible");
    }
  },
);

describe("distribution+: who goes together", () => {
  const serve = () => new HandDriven({ policy: distributionPlus(), kinds: KINDS });

  test("requests of unlike times do not share a batch where they can wait", () => {
    const run = serve()
      .arrive(0, "x", 0, 10_000)
      .arrive(10, "abc", 0, 10_000, SHORT)
      .arrive(10, "ABC", 0, 10_000, LONG)
      .until(5000);
    for (const batch of members(run)) expect([batch.toLowerCase(), batch.toUpperCase()]).toContain(batch);
    expect(run.dispatches).toHaveLength(3);
    expect([...run.ended.values()].every((outcome) => outcome === "finished")).toBe(true);
  });

  test("who is due goes before who can wait", () => {
    const order = (shortBy: number, longBy: number) =>
      members(
        serve()
          .arrive(0, "x", 0, 3000)
          .arrive(10, "ab", 0, shortBy, SHORT)
          .arrive(10, "AB", 0, longBy, LONG)
          .until(5000),
      ).slice(1);
    expect(order(3000, 500)).toEqual(["AB", "ab"]);
    expect(order(330, 30_000)).toEqual(["ab", "AB"]);
  });

  test("all that are of one kind go in one batch, of any size", () => {
    const run = serve().arrive(0, "x", 0, 10_000).arrive(10, "abcde", 0, 10_000).until(5000);
    expect(members(run).map(({ length }) => length)).toEqual([1, 5]);
  });

  test("who has no chance alone is dropped, and who has some is not", () => {
    const run = serve().arrive(0, "x", 0, 10_000).arrive(10, "a", 0, 150).arrive(10, "b", 0, 250).until(1000);
    expect([run.ended.get("a"), run.ended.get("b")]).toEqual(["dropped infeasible", "finished"]);
  });
});
