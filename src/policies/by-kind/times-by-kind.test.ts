import { describe, expect, test } from "vitest";
import { linearTable, ProfiledLatency } from "../../core/latency/latency.js";
import type { KindTimes, QueueSpec } from "../../core/policy.js";
import { BatchTable } from "../../core/tables/batch-table.js";
import { PLAIN, RequestTable } from "../../core/tables/request-table.js";
import { Distribution } from "../../core/times/distribution.js";
import { Longest } from "../../core/times/longest.js";
import { TimesByKind } from "./times-by-kind.js";

/** Evenly spread over [from, to) ms, as µs. */
const between = (from: number, to: number): Float64Array =>
  Float64Array.from({ length: 1000 }, (_, index) => 1000 * (from + ((to - from) * (index + 0.5)) / 1000));
const KINDS: readonly KindTimes[] = [
  { name: "short", share: 0.75, aloneUs: between(30, 40) },
  { name: "long", share: 0.25, aloneUs: between(90, 100) },
];
const C0_US = 25_000;

const specOf = (kinds?: readonly KindTimes[]): QueueSpec => ({
  latency: new ProfiledLatency(linearTable(20_000, C0_US, 16)),
  sloUs: 1e6,
  lengthMax: 100,
  ...(kinds === undefined ? {} : { kinds, batchTime: { c0Us: C0_US, c1: 0.3 } }),
});
const timesOf = (kinds?: readonly KindTimes[], windowUs = 60e6): TimesByKind =>
  new TimesByKind(specOf(kinds), { windowUs });

/** A batch of these kinds that starts at `execAt`. */
function given(kinds: readonly number[], execAt = 0) {
  const requests = new RequestTable(64);
  const batches = new BatchTable(4);
  let first = -1;
  for (const kind of kinds) {
    const handle = requests.add(0, 0, 0, 1e6);
    requests.describe(handle, { ...PLAIN, kind }, 1e6);
    requests.next[handle] = first;
    first = handle;
  }
  return { batch: batches.add(0, first, kinds.length, execAt, 1, 0), batches, requests };
}

/** What the order statistics say exactly. */
function exactly(counts: readonly [short: number, long: number]): number {
  const [short, long] = KINDS.map(({ aloneUs }) => Distribution.ofSample(aloneUs));
  const longest = new Longest([
    { times: short!, count: counts[0] },
    { times: long!, count: counts[1] },
  ]);
  return C0_US + (counts[0] + counts[1]) * (longest.mean - C0_US);
}

describe("times of batches by the kinds of their members", () => {
  test("a given batch takes c0 + k (E[longest] - c0), and one alone its own mean", () => {
    const times = timesOf(KINDS);
    for (const [kinds, counts] of [
      [
        [0, 0],
        [2, 0],
      ],
      [
        [0, 0, 0, 0, 1],
        [4, 1],
      ],
      [
        [1, 1, 1],
        [0, 3],
      ],
    ] as const)
      expect(times.givenUs(given(kinds)) / exactly(counts)).toBeCloseTo(1, 2);
    expect(times.givenUs(given([0]))).toBeCloseTo(35_000, -3);
    expect(times.givenUs(given([1]))).toBeCloseTo(95_000, -3);
  });

  test("the plan of a size is that of members drawn as they come, and grows with it", () => {
    const times = timesOf(KINDS);
    const mixture = Distribution.mixture(
      KINDS.map(({ aloneUs }) => Distribution.ofSample(aloneUs)),
      [0.75, 0.25],
    );
    for (const size of [2, 5, 16]) {
      const exact = C0_US + size * (new Longest([{ times: mixture, count: size }]).mean - C0_US);
      expect(times.execUs[size]! / exact).toBeCloseTo(1, 2);
      expect(times.execUs[size]!).toBeGreaterThan(times.execUs[size - 1]!);
    }
  });

  test("quantiles are of the longest: of two, half are within what each is within with probability 0.7071", () => {
    const times = timesOf(KINDS);
    expect(times.quantileUs(1, 0.375)).toBeCloseTo(35_000, -3);
    expect(times.quantileUs(2, 0.5) / (C0_US + 2 * (1000 * (30 + (10 * Math.SQRT1_2) / 0.75) - C0_US))).toBeCloseTo(
      1,
      2,
    );
  });

  test("longestWithin is the inverse of batchUs", () => {
    const times = timesOf(KINDS);
    for (const size of [1, 2, 16])
      for (const us of [31_000, 96_000]) expect(times.longestWithin(size, times.batchUs(size, us))).toBeCloseTo(us, 6);
  });

  test("without kinds the profile is what is known", () => {
    const times = timesOf();
    for (const size of [1, 2, 16]) expect(times.execUs[size]! / (C0_US + 20_000 * size)).toBeCloseTo(1, 1);
  });

  test("a kind that nobody told of is like all together until it is measured", () => {
    const times = timesOf(KINDS);
    times.arrived(2);
    expect(times.meanAloneUs(2)).toBeCloseTo(50_000, -3);
    for (let run = 0; run < 50; run++) times.measured(given([2], 1e6 * run), 200_000);
    expect(times.meanAloneUs(2) / 200_000).toBeCloseTo(1, 1);
    expect(times.meanAloneUs(0)).toBeCloseTo(35_000, -3);
  });

  test("what kinds take alone is followed within a window when it doubles", () => {
    const times = timesOf(KINDS, 20e6);
    for (let run = 0; run < 400; run++) times.measured(given([0], 1e5 * run), run < 200 ? 35_000 : 70_000);
    expect(times.meanAloneUs(0) / 70_000).toBeCloseTo(1, 1);
  });

  test("batches that take longer than Eq. 3 says move c0 and c1, and plans with them", () => {
    const times = timesOf(KINDS);
    const before = times.givenUs(given([0, 0, 0, 0]));
    let isTold = false;
    for (let run = 0; run < 300; run++) {
      const kinds = run % 2 === 0 ? [0, 0, 0, 0] : [1, 1, 0, 0, 0, 0, 0, 0];
      isTold = times.measured(given(kinds, 1e5 * run), 1.5 * timesOf(KINDS).givenUs(given(kinds))) || isTold;
    }
    expect(isTold).toBe(true);
    expect(times.givenUs(given([0, 0, 0, 0])) / before).toBeCloseTo(1.5, 1);
  });
});
