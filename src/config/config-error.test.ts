import { expect, test } from "vitest";
import { nearest } from "./config-error.js";

test.each([
  ["modl", ["profile", "model"], "model"],
  ["bacth_max", ["batch_max"], "batch_max"],
  ["A", ["b", "a"], "a"],
  ["ab", ["a"], "a"],
  // Every word of one letter is one edit from every other.
  ["z", ["a", "b"], null],
  ["zone", ["rate"], null],
])("what is meant by %s of %j: %s", (word, known, meant) => {
  expect(nearest(word, known)).toBe(meant);
});
