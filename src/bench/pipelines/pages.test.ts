import { fileURLToPath } from "node:url";
import sharp from "sharp";
import { expect, test } from "vitest";
import { boxesOf, drawPages } from "./pages.js";

const PAGE = fileURLToPath(new URL("../../../examples/page.png", import.meta.url));

const boxesIn = async (image: string | Buffer) => {
  const { data, info } = await sharp(image).greyscale().raw().toBuffer({ resolveWithObject: true });
  return { boxes: boxesOf(data, info.width, info.height), info };
};

test("the page's twelve lines are found, those side by side apart", async () => {
  const { boxes } = await boxesIn(PAGE);
  expect(boxes).toHaveLength(12);
  expect(boxes.filter(({ left }) => left > 500)).toHaveLength(4);
});

test("pages have the lines that were drawn, from none to the most; a seed draws the same pages again", async () => {
  const pages = await drawPages(PAGE, 7, 40, 20);
  const counts = pages.map(({ lines }) => lines);
  expect(Math.min(...counts)).toBe(0);
  expect(Math.max(...counts)).toBe(20);
  for (const { lines, png } of pages.slice(0, 10)) {
    const { boxes, info } = await boxesIn(png);
    expect([info.width, info.height]).toEqual([736, 608]);
    // Lines of one row whose columns are too near are one band here, and no pixel of theirs is lost.
    expect(boxes.length).toBeLessThanOrEqual(lines);
    expect(boxes.length === 0).toBe(lines === 0);
  }
  const again = await drawPages(PAGE, 7, 40, 20);
  expect(again.every(({ png }, index) => png.equals(pages[index]!.png))).toBe(true);
  const other = await drawPages(PAGE, 8, 40, 20);
  expect(other.map(({ lines }) => lines)).not.toEqual(counts);
});
