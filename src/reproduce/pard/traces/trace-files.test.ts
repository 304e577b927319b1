import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fig8 } from "../fig8.js";
import { cvOf, GENERATED } from "./rates.js";
import { tracesOf } from "./trace-files.js";

const WIKI = "wiki_en_2016-01_week_1h-to-60s.csv";
const TWEET = "twitter_2021-08_burst_1400s.csv";
const AZURE = "maf2021_14days_60s_reconstructed.csv";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-traces-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const text = (stepS: number, rates: readonly number[]): string =>
  `# origin\nsecond,requests_per_second\n${rates.map((rate, row) => `${row * stepS},${rate}\n`).join("")}`;

/** Two quiet levels, half an hour of quiet before spikes, a slow wave. */
const GOOD: Readonly<Record<string, string>> = {
  [TWEET]: text(1, [10, 10, 10, 10, 40, 40, 10, 10]),
  [AZURE]: text(60, [...Array.from({ length: 30 }, () => 1), ...[0, 2, 0, 0, 9, 11, 1, 1], 1, 1]),
  [WIKI]: text(
    1,
    Array.from({ length: 96 }, (_, row) => 1000 + 180 * Math.sin((2 * Math.PI * row) / 48)),
  ),
};

function withFiles(changed: Readonly<Record<string, string>> = {}): string {
  const dir = mkdtempSync(path.join(folder, "dir-"));
  for (const [name, content] of Object.entries({ ...GOOD, ...changed })) writeFileSync(path.join(dir, name), content);
  return dir;
}

const refusalOf = (dir: string, seconds: number): string => {
  try {
    for (const trace of tracesOf(dir)) trace.factors(seconds);
  } catch (error) {
    return (error as Error).message;
  }
  return "nothing is refused";
};

describe("rates of PARD's traces from files", () => {
  it("generated ones without a folder", () => expect(tracesOf(undefined)).toBe(GENERATED));

  it("tweet: the whole trace is the run, each second the mean of its span, relative to the mean", () => {
    const [, tweet] = tracesOf(withFiles());
    const mean = 17.5;
    expect(tweet.factors(4)).toEqual([10, 10, 40, 10].map((rate) => rate / mean));
    // Spans that end within a row take their part of it: 8 rows over 3 s are 2 2/3 rows each.
    for (const [second, rate] of [10, (10 * 4) / 3 / (8 / 3) + (40 * 4) / 3 / (8 / 3), 17.5].entries())
      expect(tweet.factors(3)[second]).toBeCloseTo(rate / mean, 12);
  });

  it("wiki: stretched around the mean to the paper's deviation, cut at 0", () => {
    const [wiki] = tracesOf(withFiles());
    const factors = wiki.factors(96);
    expect(cvOf(factors)).toBeCloseTo(0.47, 6);
    expect(factors[12]! / factors[60]!).toBeCloseTo(1, 6);
    // Two periods: highest after a quarter of each, lowest after three quarters.
    expect(factors.indexOf(Math.max(...factors)) % 48).toBe(12);
    expect(Math.min(...factors)).toBeGreaterThanOrEqual(0);
  });

  it("azure: two minutes are a second, of the row of them whose deviation is nearest the paper's", () => {
    const [, , azure] = tracesOf(withFiles());
    // Spans 0 to 14 are 1, then 1, 0, 10, 1, 1: four in a row have a deviation of 1.35 with the 10, else of at most 0.58.
    expect(azure.factors(4)).toEqual([1, 1, 0, 10].map((rate) => rate / 3));
  });

  it("names the file in what is run, so that a report says where its rates are from", () => {
    const { scope, points } = fig8.plan("tiny", withFiles());
    expect(scope).toContain(`wiki from ${WIKI}, tweet from ${TWEET}, azure from ${AZURE}`);
    expect(points).not.toEqual(fig8.plan("tiny").points);
    expect(points).toHaveLength(fig8.plan("tiny").points.length);
  });

  it.each([
    [
      "a rate that is no number",
      { [TWEET]: `${text(1, [3, 4])}2,many\n` },
      `${TWEET}:5: requests_per_second: must be a number in [0, 1000000000]; was "many"`,
    ],
    [
      "a second that goes back",
      { [AZURE]: `${text(60, [3, 4])}60,1\n` },
      `${AZURE}:5: second: must be greater than the row before (60); was 60`,
    ],
    [
      "a trace that is shorter than the run",
      { [TWEET]: text(1, [1, 2, 3]) },
      `${TWEET}: must have at least one row for each second of the run (4); has 3`,
    ],
    [
      "too few spans",
      { [AZURE]: text(60, [1, 2, 3, 4, 5, 6]) },
      `${AZURE}: must have at least one span of 120 s for each second of the run (4); has 3`,
    ],
    [
      "a trace that cannot be stretched",
      { [WIKI]: text(1, [2, 2, 2, 2]) },
      `${WIKI}: must have rates that differ, to be stretched around their mean`,
    ],
    [
      "a trace without requests",
      { [WIKI]: text(1, [0, 0, 0, 0]) },
      `${WIKI}:6: requests_per_second: must be above 0 in some row; was 0 in all`,
    ],
  ])("refuses %s by file, line and value", (_, changed, message) => {
    const dir = withFiles(changed);
    expect(refusalOf(dir, 4)).toBe(path.join(dir, message));
  });

  it("refuses a folder without one of the files", () => {
    const dir = withFiles();
    rmSync(path.join(dir, AZURE));
    expect(refusalOf(dir, 4)).toBe(`${path.join(dir, AZURE)}: no such file`);
  });
});
