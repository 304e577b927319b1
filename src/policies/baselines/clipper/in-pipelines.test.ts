/** Clipper++ and the naive baseline (PARD §5.1) by hand: l(b) = 10 b + 90 µs, half of the SLO of 1000 µs holds any batch. */
import { expect, test } from "vitest";
import { HandDriven } from "../../../../test/support/hand-driven.js";
import { clipperPlus, naive } from "../../registry.js";

const behindA = (policy: Parameters<typeof clipperPlus>[0], create = clipperPlus): HandDriven =>
  new HandDriven({ policy: create(policy), sizeMax: 3 }).arrive(0, "a").until(0);

test("clipper++: whose budget has passed when the accelerator takes a batch is dropped, whoever would only end too late is run", () => {
  const run = behindA({}).arrive(10, "b", 0, 99).arrive(10, "c", 0, 100).arrive(10, "d").until(1000);
  expect(run.dispatches).toEqual(["0:a", "100:cd"]);
  expect(["b", "c", "d"].map((name) => run.ended.get(name))).toEqual(["dropped expired", "late", "finished"]);
});

test("naive: nobody is ever dropped; a batch is what is there, up to the planned size", () => {
  const run = behindA({}, naive).arrive(10, "bcde", 0, 50).until(1000);
  expect(run.dispatches).toEqual(["0:a", "100:bcd", "220:e"]);
  expect([..."bcde"].map((name) => run.ended.get(name))).toEqual(["late", "late", "late", "late"]);
});
