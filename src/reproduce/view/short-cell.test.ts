import { expect, test } from "vitest";
import { shortCell } from "./short-cell.js";

const cases = (count: number): string =>
  Array.from({ length: count }, (_, index) => `lv-wiki by peak at ${index}`).join(", ");

test("long lists say their first four and how many more there are; all else is as it was", () => {
  expect(shortCell(cases(5))).toBe(cases(5));
  const sentence = `${"word ".repeat(60)}, and so on`;
  expect(shortCell(sentence)).toBe(sentence);
  expect(shortCell(`58 of 72; not ${cases(38)}; of these 1 beyond any scheduler`)).toBe(
    `58 of 72; not ${cases(4)}, ... and 34 more; of these 1 beyond any scheduler`,
  );
});
