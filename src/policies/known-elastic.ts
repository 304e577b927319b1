/** The ways of running an elastic queue's batches, as numbers: they fit rows of events. */
import type { ElasticProfile, Variant } from "../core/latency/elastic.js";

/**
 * [variants, plain, largest batch; by variant its gamma, family, load, megabytes and l(1), l(2), ...; kinds, and the accuracy of
 * each by variant (NaN: not known); how many numbers that is, NaN]. They are the last of a queue's numbers, and known by the NaN.
 */
export function encodeElastic(elastic: ElasticProfile | undefined): number[] {
  if (elastic === undefined) return [];
  const { variants, plain, accuracy } = elastic;
  const sizeMax = variants[0]!.execUs.length - 2;
  const numbers = [
    variants.length,
    plain,
    sizeMax,
    ...variants.flatMap(({ gamma, family, loadUs, runMb, execUs }) => [
      gamma,
      family,
      loadUs,
      runMb,
      ...execUs.subarray(1, sizeMax + 1),
    ]),
    accuracy.length,
    ...accuracy.flatMap((ofKind) => variants.map((_, variant) => ofKind[variant] ?? Number.NaN)),
  ];
  return [...numbers, numbers.length, Number.NaN];
}

/** @param numbers of a queue. @returns those before, and what these say; undefined: the queue is not elastic. */
export function decodeElastic(numbers: Float64Array): { rest: Float64Array; elastic: ElasticProfile | undefined } {
  if (numbers.length < 2 || !Number.isNaN(numbers.at(-1))) return { rest: numbers, elastic: undefined };
  const from = numbers.length - 2 - numbers.at(-2)!;
  let at = from;
  const next = (): number => numbers[at++]!;
  const [count, plain, sizeMax] = [next(), next(), next()];
  const variants = Array.from({ length: count }, (): Variant => {
    const [gamma, family, loadUs, runMb] = [next(), next(), next(), next()];
    const execUs = new Float64Array(sizeMax + 2);
    execUs.set(numbers.subarray(at, at + sizeMax), 1);
    execUs[sizeMax + 1] = Number.POSITIVE_INFINITY;
    at += sizeMax;
    return { name: String(gamma), gamma, family, execUs, loadUs, runMb };
  });
  const accuracy = Array.from({ length: next() }, () => {
    const ofKind = numbers.slice(at, at + count);
    at += count;
    return Number.isNaN(ofKind[0]) ? new Float64Array() : ofKind;
  });
  return { rest: numbers.subarray(0, from), elastic: { variants, plain, accuracy } };
}
