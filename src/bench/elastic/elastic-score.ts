/** What a run earned: the utility of each query that was answered in time and with its true label. */

import type { AnswerBody } from "../../load/senders/sender.js";
import { ServingError } from "../../wire/serving-error.js";

/** As a query that counts ended, seen from its client. */
export interface ScoredQuery {
  /** Index of its type. */
  readonly type: number;
  readonly utility: number;
  /** What it earns in expectation in time and at the best gamma for its task. */
  readonly best: number;
  readonly end: "in-time" | "late" | "dropped";
  /** That it was served with; null: no answer came. */
  readonly gamma: number | null;
  readonly isRight: boolean;
}

interface TypeCounts {
  arrived: number;
  in_time: number;
  right: number;
}

/** Plain data. */
export interface Score {
  readonly arrived: number;
  readonly in_time: number;
  /** In time and right. */
  readonly right: number;
  readonly late: number;
  readonly dropped: number;
  /** Utility of all that arrived, what was earned of it, and the ceiling: all in time at the best gamma. */
  readonly offered: number;
  readonly earned: number;
  readonly ceiling: number;
  /** Answers by gamma, late ones included. */
  readonly gammas: Readonly<Record<string, number>>;
  /** By index. */
  readonly types: readonly Readonly<TypeCounts>[];
}

export function scoreOf(queries: readonly ScoredQuery[], typeCount: number): Score {
  const score = {
    arrived: queries.length,
    in_time: 0,
    right: 0,
    late: 0,
    dropped: 0,
    offered: 0,
    earned: 0,
    ceiling: 0,
  };
  const gammas: Record<string, number> = {};
  const types = Array.from({ length: typeCount }, (): TypeCounts => ({ arrived: 0, in_time: 0, right: 0 }));
  for (const { type, utility, best, end, gamma, isRight } of queries) {
    const own = types[type]!;
    own.arrived++;
    score.offered += utility;
    score.ceiling += best;
    if (gamma !== null) gammas[gamma] = (gammas[gamma] ?? 0) + 1;
    if (end === "late") score.late++;
    if (end === "dropped") score.dropped++;
    if (end !== "in-time") continue;
    score.in_time++;
    own.in_time++;
    if (!isRight) continue;
    score.right++;
    own.right++;
    score.earned += utility;
  }
  return { ...score, gammas, types };
}

export interface Classified {
  /** Of the largest logit, the first of equals. */
  readonly found: number;
  readonly gamma: number;
}

interface AnswerJson {
  readonly outputs: readonly { readonly name: string; readonly parameters?: { readonly binary_data_size?: number } }[];
  readonly parameters?: { readonly gamma?: number };
}

/** @throws ServingError bad answer: it has no binary logits or no gamma. */
export function classify({ bytes, jsonBytes }: AnswerBody): Classified {
  const { outputs, parameters } = JSON.parse(bytes.toString("utf8", 0, jsonBytes)) as AnswerJson;
  const gamma = parameters?.gamma;
  let at = jsonBytes;
  for (const { name, parameters: own } of outputs) {
    const size = own?.binary_data_size ?? 0;
    if (name === "logits" && size >= 4 && gamma !== undefined) return { found: largest(bytes, at, size), gamma };
    at += size;
  }
  throw new ServingError(
    "internal",
    `an answer must have binary logits and a gamma; was ${bytes.toString("utf8", 0, Math.min(jsonBytes, 200))}`,
  );
}

function largest(bytes: Buffer, from: number, size: number): number {
  let found = 0;
  for (let index = 1; index < size / 4; index++)
    if (bytes.readFloatLE(from + 4 * index) > bytes.readFloatLE(from + 4 * found)) found = index;
  return found;
}
