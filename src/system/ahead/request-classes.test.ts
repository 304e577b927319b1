import { expect, test } from "vitest";
import { CLASSES_MAX, DEFAULT_CLASS, RequestClasses } from "./request-classes.js";

test("the first six apps have a class each, more are of the default one, until one is asked for no more", () => {
  const classes = new RequestClasses();
  const names = Array.from({ length: CLASSES_MAX - 1 }, (_, index) => `app-${index}`);
  expect(names.map((name) => classes.classOf(name, 0))).toEqual([1, 2, 3, 4, 5, 6]);
  expect(classes.classOf("", 0)).toBe(DEFAULT_CLASS);
  expect(classes.classOf("late", 1000)).toBe(DEFAULT_CLASS);
  // All but the third are asked for again.
  for (const [index, name] of names.entries())
    if (index !== 2) expect(classes.classOf(name, 40_000_000)).toBe(index + 1);
  expect(classes.classOf("late", 60_000_000)).toBe(DEFAULT_CLASS);
  expect(classes.classOf("late", 60_000_001)).toBe(3);
  expect(classes.classOf("late", 60_000_002)).toBe(3);
  expect(classes.classOf("app-2", 60_000_003)).toBe(DEFAULT_CLASS);
});
