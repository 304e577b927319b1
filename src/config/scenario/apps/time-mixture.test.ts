/** Means and quantiles of times alone, against values from the textbook. */
import { expect, test } from "vitest";
import { expandApps } from "./expand-apps.js";
import { meanUs, quantileUs } from "./time-mixture.js";

type Time = Parameters<typeof expandApps>[0][number]["time"];
const of = (...times: [share: number, time: Time][]) =>
  expandApps(
    times.map(([share, time], index) => ({ name: `a${index}`, share, time })),
    () => [],
  );

// Standard normal: 1.2815516 at 0.9, 1 at 0.8413447.
const BINS: Time = { histogram: { edges_ms: [10, 20, 80, 100], weights: [1, 0, 1] } };
const LOGNORMAL: Time = { lognormal: { mean_ms: 50, sd_ms: 50 } };
const MODES: Time = {
  modes: [
    { weight: 3, mean_ms: 10, sd_ms: 0 },
    { weight: 1, mean_ms: 50, sd_ms: 10 },
  ],
};
test.each<[string, Time, number, [probability: number, us: number][]]>([
  [
    "constant",
    { constant_ms: 7 },
    7000,
    [
      [0.01, 7000],
      [0.99, 7000],
    ],
  ],
  [
    "normal",
    { normal: { mean_ms: 50, sd_ms: 10 } },
    50_000,
    [
      [0.5, 50_000],
      [0.9, 62_815.516],
      [0.8413447460685429, 60_000],
    ],
  ],
  // Half of what is drawn is below 1 µs, where it is cut off: 0.5 + 0.5 + 2 / sqrt(2 pi).
  [
    "normal, cut off",
    { normal: { mean_ms: 0.001, sd_ms: 0.002 } },
    1.798,
    [
      [0.4, 1],
      [0.8413447460685429, 3],
    ],
  ],
  // Of the logarithm: variance ln 2, so the median is 50 / sqrt(2).
  [
    "lognormal",
    LOGNORMAL,
    50_000,
    [
      [0.5, 35_355.339],
      [0.8413447460685429, 81_288.457],
    ],
  ],
  [
    "modes",
    MODES,
    20_000,
    [
      [0.75, 10_000],
      [0.975, 62_815.516],
    ],
  ],
  // The histogram of ORLOJ's worked example.
  [
    "histogram",
    BINS,
    52_500,
    [
      [0.25, 15_000],
      [0.5, 20_000],
      [0.75, 90_000],
      [0.9, 96_000],
    ],
  ],
  [
    "values",
    { values_ms: [9, 1, 2] },
    4000,
    [
      [0.3, 1000],
      [0.34, 2000],
      [0.99, 9000],
    ],
  ],
])("%s: mean and quantiles", (_, time, mean, quantiles) => {
  expect(meanUs(of([1, time]))).toBeCloseTo(mean, 2);
  for (const [probability, us] of quantiles) expect(quantileUs(of([1, time]), probability)).toBeCloseTo(us, 1);
});

test("of several apps, each as often as its share", () => {
  const both = of([3, { constant_ms: 5 }], [1, BINS]);
  expect(meanUs(both)).toBe(0.75 * 5000 + 0.25 * 52_500);
  expect(quantileUs(both, 0.75)).toBe(5000);
  // A sixteenth of all is past 0.75 of the histogram.
  expect(quantileUs(both, 1 - 1 / 16)).toBe(90_000);
});
