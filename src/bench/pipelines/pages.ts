/** Pages with as many lines of text as a seed draws: the lines of one page, cut out and laid out anew. No font is needed. */
import sharp from "sharp";
import { shuffle } from "../../measure/shuffle.js";
import { stream, type Uniform } from "../../sim/random.js";

export const LINES_MAX = 20;

export interface DrawnPage {
  readonly lines: number;
  readonly png: Buffer;
}

interface Line {
  readonly png: Buffer;
  readonly width: number;
  readonly height: number;
}

/** Of the page that is laid out: two columns, so that twenty lines fit beside each other without touching. */
const COLUMNS = 2;
const ROWS = LINES_MAX / COLUMNS;
const MARGIN = 12;
/** Darkest colour that is paper, of 255. */
const INK_BELOW = 160;
/** Pixels of paper that part two lines: below each other, and side by side. */
const GAP_DOWN = 4;
const GAP_ACROSS = 60;
/** Paper around a line. */
const AROUND = 3;

/**
 * @param file an image of dark text on light paper, its lines apart. @param linesMax each number from 0 to it is as likely; at most LINES_MAX.
 * @throws RangeError naming the line that is too large for its place.
 */
export async function drawPages(file: string, seed: number, count: number, linesMax: number): Promise<DrawnPage[]> {
  const { data, info } = await sharp(file).greyscale().raw().toBuffer({ resolveWithObject: true });
  const lines = await Promise.all(
    boxesOf(data, info.width, info.height).map(async ({ left, top, width, height }): Promise<Line> => {
      const png = await sharp(file).extract({ left, top, width, height }).png().toBuffer();
      return { png, width, height };
    }),
  );
  const place = { width: Math.floor(info.width / COLUMNS), height: Math.floor(info.height / ROWS) };
  for (const [index, { width, height }] of lines.entries())
    if (width + MARGIN > place.width || height > place.height)
      throw new RangeError(
        `line ${index + 1} of ${file} must fit ${place.width - MARGIN} x ${place.height} pixels; was ${width} x ${height}`,
      );
  const paper = await sharp(file).extract({ left: 0, top: 0, width: 1, height: 1 }).removeAlpha().raw().toBuffer();
  const background = { r: paper[0]!, g: paper[1]!, b: paper[2]! };
  const random = stream(seed, "bench/pipelines/pages");
  const layouts = Array.from({ length: count }, () => layout(lines, linesMax, random));
  return Promise.all(
    layouts.map(async (placed) => {
      const page = sharp({ create: { width: info.width, height: info.height, channels: 3, background } });
      const composed = page.composite(
        placed.map(({ line, row, column }) => ({
          input: line.png,
          left: MARGIN + column * place.width,
          top: row * place.height + Math.floor((place.height - line.height) / 2),
        })),
      );
      return { lines: placed.length, png: await composed.png().toBuffer() };
    }),
  );
}

/** How many lines, which ones and where. */
function layout(lines: readonly Line[], linesMax: number, random: Uniform) {
  const count = Math.floor(random() * (linesMax + 1));
  const places = Array.from({ length: LINES_MAX }, (_, index) => index);
  shuffle(places, count, random);
  return places.slice(0, count).map((place) => ({
    line: lines[Math.floor(random() * lines.length)]!,
    row: Math.floor(place / COLUMNS),
    column: place % COLUMNS,
  }));
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** Where ink is: bands of rows, parted where columns are empty for long. @param grey of each pixel, row by row. */
export function boxesOf(grey: Uint8Array, width: number, height: number): Box[] {
  const hasInk = (top: number, bottom: number, left: number, right: number): boolean => {
    for (let y = top; y < bottom; y++)
      for (let x = left; x < right; x++) if (grey[y * width + x]! < INK_BELOW) return true;
    return false;
  };
  const bands = runsOf(height, GAP_DOWN, (y) => hasInk(y, y + 1, 0, width));
  return bands.flatMap(([top, bottom]) =>
    runsOf(width, GAP_ACROSS, (x) => hasInk(top, bottom, x, x + 1)).map(([left, right]) => {
      const from = { left: Math.max(0, left - AROUND), top: Math.max(0, top - AROUND) };
      return {
        ...from,
        width: Math.min(width, right + AROUND) - from.left,
        height: Math.min(height, bottom + AROUND) - from.top,
      };
    }),
  );
}

/** Stretches that are marked, [from, to), those with less than `gap` between them as one. */
function runsOf(length: number, gap: number, isMarked: (at: number) => boolean): [number, number][] {
  const runs: [number, number][] = [];
  for (let at = 0; at < length; at++) {
    if (!isMarked(at)) continue;
    const last = runs.at(-1);
    if (last !== undefined && at - last[1] < gap) last[1] = at + 1;
    else runs.push([at, at + 1]);
  }
  return runs;
}
