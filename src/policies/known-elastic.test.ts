import { expect, test } from "vitest";
import type { ElasticProfile } from "../core/latency/elastic.js";
import { decodeElastic, encodeElastic } from "./known-elastic.js";
import { encodeKinds } from "./known-kinds.js";

const table = (...us: number[]): Float64Array => Float64Array.of(0, ...us, Number.POSITIVE_INFINITY);
const variant = (gamma: number, ...us: number[]) => ({
  name: String(gamma),
  gamma,
  family: 0,
  execUs: table(...us),
  loadUs: 0,
  runMb: 1.5,
});

test("what is known of an elastic queue crosses as the last of its numbers, and what is before stays", () => {
  const elastic: ElasticProfile = {
    variants: [variant(-4, 100, 150, 200), variant(0, 200, 300, 400)],
    plain: 1,
    accuracy: [new Float64Array(), Float64Array.of(0.5, 0.75), new Float64Array(), Float64Array.of(0, 1)],
  };
  const kinds = encodeKinds({ kinds: [{ name: "", share: 1, aloneUs: Float64Array.of(3, 4) }] });
  const { rest, elastic: decoded } = decodeElastic(Float64Array.from([...kinds, ...encodeElastic(elastic)]));
  expect([...rest]).toEqual(kinds);
  expect(decoded).toEqual(elastic);
});

test("a queue that is not elastic has its numbers as they were", () => {
  const numbers = Float64Array.from([1, 2, 3]);
  expect(decodeElastic(numbers)).toEqual({ rest: numbers, elastic: undefined });
  expect(encodeElastic(undefined)).toEqual([]);
});
