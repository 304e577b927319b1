/** Lengths of real sentences in tokens, from a file or from a distribution with the same statistics. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { stream } from "../../sim/random.js";
import { ServingError } from "../../wire/serving-error.js";

/** Source sentences of WMT21 English-German: mean, squared coefficient of variation 0.25 = 1 / shape, longest. */
const WORDS_MEAN = 24.1;
const GAMMA_SHAPE = 4;
const WORDS_MAX = 118;
/** Word pieces per word of news text: 1.3 to 1.5; and the two marks around a sentence. */
const TOKENS_PER_WORD = 1.3;
const MARKS = 2;
const TOKENS_MAX = 256;

/** Column `source_words`; lines that begin with # are remarks. */
const FILE = "wmt21_en-de_words.csv";

export interface SentenceLengths {
  readonly tokens: readonly number[];
  /** The longest there is, whether it was drawn or not. */
  readonly longest: number;
  /** For people. */
  readonly source: string;
}

/** @param dataDir folder with the word counts, itself or in `lengths/`; null: the distribution. @throws ServingError not-found, invalid-argument. */
export function sentenceLengths(dataDir: string | null, count: number, seed: number): SentenceLengths {
  if (dataDir !== null) {
    const tokens = readWords(dataDir).map(tokensOf);
    return { tokens, longest: Math.max(...tokens), source: FILE };
  }
  const random = stream(seed, "bench/sentences");
  const words = (): number => {
    // A gamma of whole shape is a sum of exponentials. It has the tail of the sentences (P95 46.7 for 47, P99 60.5 for 59).
    let product = 1;
    for (let part = 0; part < GAMMA_SHAPE; part++) product *= 1 - random();
    return Math.min(WORDS_MAX, Math.max(1, Math.round((-Math.log(product) * WORDS_MEAN) / GAMMA_SHAPE)));
  };
  const tokens = Array.from({ length: count }, () => tokensOf(words()));
  return { tokens, longest: tokensOf(WORDS_MAX), source: "gamma like WMT21 sentences" };
}

const tokensOf = (words: number): number => Math.min(TOKENS_MAX, Math.round(words * TOKENS_PER_WORD) + MARKS);

function readWords(dataDir: string): number[] {
  const file = [path.join(dataDir, FILE), path.join(dataDir, "lengths", FILE)].find((candidate) =>
    existsSync(candidate),
  );
  if (file === undefined) throw new ServingError("not-found", `--data-dir ${dataDir}: holds no ${FILE}`);
  const words: number[] = [];
  readFileSync(file, "utf8")
    .split(/\r?\n/)
    .forEach((line, index) => {
      const cell = line.split(",")[0]!.trim();
      if (cell === "" || cell.startsWith("#") || cell === "source_words") return;
      const value = Number(cell);
      if (!Number.isInteger(value) || value < 1)
        throw new ServingError(
          "invalid-argument",
          `${file} line ${index + 1}: source_words must be a whole number of at least 1; was '${cell.slice(0, 40)}'`,
        );
      words.push(value);
    });
  if (words.length === 0) throw new ServingError("invalid-argument", `${file}: holds no sentence`);
  return words;
}
