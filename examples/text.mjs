// Text to token ids and back to meaning: what a client of `embedder` does before and after the model.
import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";
import { tensor } from "./client.mjs";

const read = (name) => JSON.parse(readFileSync(new URL(`../models/embedder/${name}`, import.meta.url), "utf8"));
const config = read("tokenizer_config.json");
const tokenizer = new Tokenizer(read("tokenizer.json"), config);
export const TOKENS_MAX = config.model_max_length;

/** Ids with [CLS] and [SEP]; a text beyond TOKENS_MAX is cut and [SEP] put last, which the library does not do. */
export function tokenize(text) {
  const { ids } = tokenizer.encode(text);
  return ids.length <= TOKENS_MAX ? ids : [...ids.slice(0, TOKENS_MAX - 1), ids.at(-1)];
}

/** The inputs of one text at its own length: padding and batching are the server's business. */
export function embedderInputs(text) {
  const ids = tokenize(text);
  const shape = [1, ids.length];
  return [
    tensor("input_ids", "INT64", shape, BigInt64Array.from(ids, BigInt)),
    tensor("attention_mask", "INT64", shape, new BigInt64Array(ids.length).fill(1n)),
  ];
}

/** Cosine of two embeddings; they have length 1. */
export function similarity(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}
