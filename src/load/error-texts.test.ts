import { expect, it } from "vitest";
import { ErrorTexts } from "./error-texts.js";

it("load: texts that differ in their numbers alone are one, shown as the first", () => {
  const texts = new ErrorTexts();
  for (const was of ["45537876", "-3", "1.5"]) texts.add(`element 0 must be in [0, 9]; was ${was}`);
  texts.add("input 'x' is missing", 2);
  texts.add("  ");
  texts.add("input 'x' is missing", 3);
  expect(texts.toJSON()).toEqual({ "element 0 must be in [0, 9]; was 45537876": 3, "input 'x' is missing": 5 });
});

it("load: keeps eight texts, 300 letters of each, and goes on counting those it has", () => {
  const texts = new ErrorTexts();
  for (let n = 0; n < 20; n++) texts.add("x".repeat(n + 1).padEnd(400, "y"));
  texts.add(`x${"y".repeat(399)}`);
  const kept = Object.entries(texts.toJSON());
  expect(kept.map(([text]) => text.length)).toEqual(Array(8).fill(300));
  expect(kept[0]![1]).toBe(2);
});
