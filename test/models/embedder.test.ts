import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { example, type InputTensor, inferDirectly } from "./direct-client.js";

interface Sentence {
  readonly text: string;
  readonly ids: readonly number[];
  readonly original: Float32Array;
}
interface TextModule {
  readonly TOKENS_MAX: number;
  tokenize(text: string): number[];
  embedderInputs(text: string): InputTensor[];
  similarity(a: Float32Array, b: Float32Array): number;
}
const { TOKENS_MAX, tokenize, embedderInputs, similarity } = await example<TextModule>("text.mjs");

const fixture = (name: string) => JSON.parse(readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8"));
const pairs: { a: string; b: string; grade: number }[] = fixture("sentence-pairs.json");
const sentences: Sentence[] = fixture("sentence-reference.json").sentences.map(
  (s: { text: string; ids: number[]; embedding: string }) => {
    const bytes = Buffer.from(s.embedding, "base64");
    return { ...s, original: new Float32Array(new Uint8Array(bytes).buffer) };
  },
);
const WIDTH = 384;

/** The rows padded with `filler` to a common length; padding is masked whatever stands in it. */
async function embedRows(rows: readonly (readonly number[])[], length: number, filler = 0): Promise<Float32Array[]> {
  const ids = new BigInt64Array(rows.length * length).fill(BigInt(filler));
  const mask = new BigInt64Array(rows.length * length);
  rows.forEach((row, r) => {
    row.forEach((id, i) => {
      ids[r * length + i] = BigInt(id);
      mask[r * length + i] = 1n;
    });
  });
  const shape = [rows.length, length];
  const { outputs } = await inferDirectly("embedder", [
    { name: "input_ids", datatype: "INT64", shape, data: ids },
    { name: "attention_mask", datatype: "INT64", shape, data: mask },
  ]);
  const embedding = outputs.embedding!;
  expect(embedding.shape).toEqual([rows.length, WIDTH]);
  return rows.map((_, r) => embedding.data.slice(r * WIDTH, (r + 1) * WIDTH));
}

async function embed(text: string): Promise<Float32Array> {
  return (await inferDirectly("embedder", embedderInputs(text))).outputs.embedding!.data;
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
}

describe("embedder", () => {
  it("tokenizer: the JavaScript library gives the ids of the original on every reference sentence", () => {
    for (const { text, ids } of sentences) expect(tokenize(text)).toEqual(ids);
  });

  it("tokenizer: a long text is cut at 256 tokens and still ends with [SEP]", () => {
    const ids = tokenize("tempo rubato ".repeat(300));
    expect(TOKENS_MAX).toBe(256);
    expect(ids).toHaveLength(256);
    expect([ids[0], ids[255]]).toEqual([101, 102]);
  });

  it("quality: every embedding has a cosine of at least 0.999 to PyTorch's fp32", async () => {
    for (const { text, original } of sentences) {
      const ours = await embed(text);
      expect(similarity(ours, ours)).toBeCloseTo(1, 5);
      expect(similarity(ours, original), text).toBeGreaterThanOrEqual(0.999);
    }
  });

  it("quality: no pair's similarity moves by more than 0.01", async () => {
    const originals = new Map(sentences.map((s) => [s.text, s.original]));
    for (const { a, b } of pairs) {
      const ours = similarity(await embed(a), await embed(b));
      expect(Math.abs(ours - similarity(originals.get(a)!, originals.get(b)!)), `${a} / ${b}`).toBeLessThan(0.01);
    }
  });

  it("meaning: pairs graded alike by a person are closer than those graded unlike", async () => {
    const mean = async (keep: (grade: number) => boolean) => {
      const kept = pairs.filter(({ grade }) => keep(grade));
      let sum = 0;
      for (const { a, b } of kept) sum += similarity(await embed(a), await embed(b));
      return sum / kept.length;
    };
    expect(await mean((grade) => grade >= 4)).toBeGreaterThan(0.3 + (await mean((grade) => grade <= 1)));
  });

  it("padding: a request padded in a mixed batch equals the request alone within 1e-6", async () => {
    const batch = sentences.slice(0, 16);
    const padded = await embedRows(
      batch.map((s) => s.ids),
      128,
    );
    const withOtherFiller = await embedRows(
      batch.map((s) => s.ids),
      128,
      2023,
    );
    for (let i = 0; i < batch.length; i += 1) {
      const alone = await embed(batch[i]!.text);
      expect(largestDifference(padded[i]!, alone), batch[i]!.text).toBeLessThan(1e-6);
      expect(largestDifference(withOtherFiller[i]!, alone), batch[i]!.text).toBeLessThan(1e-6);
    }
  });

  it("padding: a row without tokens, as a batch is filled up with, gives numbers and disturbs nobody", async () => {
    const ids = sentences[0]!.ids;
    const [row, empty] = await embedRows([ids, []], ids.length);
    expect(largestDifference(row!, await embed(sentences[0]!.text))).toBeLessThan(1e-6);
    expect(empty!.every(Number.isFinite)).toBe(true);
  });
});
