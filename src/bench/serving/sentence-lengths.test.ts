import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { sentenceLengths } from "./sentence-lengths.js";

test("drawn lengths have the statistics of WMT21 sentences, and are the same for the same seed", () => {
  const { tokens, longest } = sentenceLengths(null, 20_000, 7);
  // Back to words: 1.3 tokens each and two marks.
  const words = tokens.map((count) => (count - 2) / 1.3).sort((a, b) => a - b);
  const mean = words.reduce((a, b) => a + b) / words.length;
  const sd = Math.sqrt(words.reduce((sum, count) => sum + (count - mean) ** 2, 0) / words.length);
  expect(mean).toBeGreaterThan(23.5);
  expect(mean).toBeLessThan(24.7);
  expect(sd / mean).toBeGreaterThan(0.47);
  expect(sd / mean).toBeLessThan(0.53);
  expect(words[19_000]).toBeGreaterThan(44);
  expect(words[19_000]).toBeLessThan(49);
  expect(words[19_800]).toBeGreaterThan(57);
  expect(words[19_800]).toBeLessThan(64);
  expect(Math.max(...tokens)).toBeLessThanOrEqual(longest);
  expect(longest).toBe(155);
  expect(sentenceLengths(null, 20_000, 7).tokens).toEqual(tokens);
  expect(sentenceLengths(null, 20_000, 8).tokens).not.toEqual(tokens);
});

test("lengths come from the data folder where one is given; what is wrong there is named", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-lengths-"));
  try {
    expect(() => sentenceLengths(folder, 1, 1)).toThrow(`--data-dir ${folder}: holds no wmt21_en-de_words.csv`);
    const file = path.join(folder, "wmt21_en-de_words.csv");
    writeFileSync(file, "# origin\nsource_words,reference_words\n10,9\n300,1\n");
    expect(sentenceLengths(folder, 1, 1)).toMatchObject({ tokens: [15, 256], longest: 256 });
    writeFileSync(file, "source_words\n10\nten\n");
    expect(() => sentenceLengths(folder, 1, 1)).toThrow(
      "line 3: source_words must be a whole number of at least 1; was 'ten'",
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
