import { expect, test } from "vitest";
import { BatchSpread, INTERVAL_TAIL } from "./batch-spread.js";

/** Numbers in (0, 1) of a generator that is written down here: the same in every run. */
function* uniforms(): Generator<number, never> {
  for (let state = 1; ; ) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield (state + 0.5) / 2 ** 32;
  }
}

const COUNT = 20_000;

/** Shares of batches below and above the interval, where 100 µs is expected exactly and a batch takes that times e^(deviation z). */
function outside(belowDeviation: number, aboveDeviation: number): [below: number, above: number] {
  const spread = new BatchSpread();
  const draws = uniforms();
  const draw = (): number => draws.next().value;
  let below = 0;
  let above = 0;
  for (let batch = 0; batch < COUNT; batch++) {
    const z = Math.sqrt(-2 * Math.log(draw())) * Math.cos(2 * Math.PI * draw());
    const us = 100 * Math.exp(z * (z < 0 ? belowDeviation : aboveDeviation));
    const quantile = spread.chanceOf(us, (within) => (within >= 100 ? 1 : 0));
    if (quantile < INTERVAL_TAIL) below++;
    if (quantile > 1 - INTERVAL_TAIL) above++;
    spread.observe(quantile);
  }
  return [below / COUNT, above / COUNT];
}

test.each([
  [0.1, 0.1],
  [0.02, 0.3],
])("batches that vary by %d below and %d above are beyond each end as often as it says", (low, high) => {
  const [below, above] = outside(low, high);
  expect(below).toBeGreaterThan(0.04);
  expect(below).toBeLessThan(0.06);
  expect(above).toBeGreaterThan(0.04);
  expect(above).toBeLessThan(0.06);
});

test("without anything measured Eq. 3 is nearly exact, and quantiles grow with the time", () => {
  const spread = new BatchSpread();
  const uniform = (us: number): number => Math.min(1, Math.max(0, (us - 50) / 100));
  expect(spread.chanceOf(100, uniform)).toBeCloseTo(0.5, 3);
  expect(spread.chanceOf(49, uniform)).toBe(0);
  expect(spread.chanceOf(151, uniform)).toBe(1);
  let before = 0;
  for (let us = 50; us <= 150; us += 10) {
    const chance = spread.chanceOf(us, uniform);
    expect(chance).toBeGreaterThanOrEqual(before);
    before = chance;
  }
});
