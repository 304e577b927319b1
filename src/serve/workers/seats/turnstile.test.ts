import { expect, test } from "vitest";
import { Turnstile } from "./turnstile.js";

test("turnstile: one at a time, in order, and a failure does not block those behind", async () => {
  const turnstile = new Turnstile();
  const log: string[] = [];
  const step = (name: string, fails = false) =>
    turnstile.pass(async () => {
      log.push(`${name} in`);
      await Promise.resolve();
      await new Promise((resolve) => setImmediate(resolve));
      log.push(`${name} out`);
      if (fails) throw new Error(name);
      return name;
    });
  const results = await Promise.allSettled([step("a"), step("b", true), step("c")]);
  expect(log).toEqual(["a in", "a out", "b in", "b out", "c in", "c out"]);
  expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
});
