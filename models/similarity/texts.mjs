// Texts to token ids before `embedder`, and two embeddings to one number after it.
import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

const read = (name) => JSON.parse(readFileSync(new URL(`../embedder/${name}`, import.meta.url), "utf8"));
const config = read("tokenizer_config.json");
const tokenizer = new Tokenizer(read("tokenizer.json"), config);
const TOKENS_MAX = config.model_max_length;

export function tokens({ a, b }) {
  const [left, right] = [idsOf(a), idsOf(b)];
  return { a_ids: tensor(left), a_mask: tensor(left.map(() => 1)), b_ids: tensor(right), b_mask: tensor(right.map(() => 1)) };
}

/** Ids with [CLS] and [SEP]; a text beyond TOKENS_MAX is cut and [SEP] put last, which the library does not do. */
function idsOf({ data }) {
  const { ids } = tokenizer.encode(Buffer.from(data[0]).toString());
  return ids.length <= TOKENS_MAX ? ids : [...ids.slice(0, TOKENS_MAX - 1), ids.at(-1)];
}

const tensor = (ids) => ({ shape: [1, ids.length], data: BigInt64Array.from(ids, BigInt) });

/** Cosine of two embeddings; they have length 1. */
export function similarity({ a, b }) {
  let sum = 0;
  for (let i = 0; i < a.data.length; i += 1) sum += a.data[i] * b.data[i];
  return { similarity: { shape: [1], data: [sum] } };
}
