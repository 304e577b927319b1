import { describe, expect, test } from "vitest";
import { stream, type Uniform } from "../../sim/random.js";
import { BatchLine } from "./batch-line.js";
import { Distribution } from "./distribution.js";
import { Longest } from "./longest.js";

const C0 = 5000;
const C1 = 0.4;
const TIMES = Distribution.of([10_000, 20_000, 80_000, 100_000], [0.5, 0, 0.5]);
const SIZES = [1, 2, 4, 8, 16];
const EXPECTED = SIZES.map((count) => new Longest([{ times: TIMES, count }]).mean);

/** Batches of these sizes as they are measured: the longest is drawn, only its expectation is told. */
function serve(line: BatchLine, sizes: readonly number[], batches: number, random: Uniform, c0 = C0, c1 = C1): void {
  for (let batch = 0; batch < batches; batch++) {
    const size = sizes[Math.floor(random() * sizes.length)]!;
    let longest = 0;
    for (let member = 0; member < size; member++) longest = Math.max(longest, TIMES.quantile(random()));
    line.observe(size * EXPECTED[SIZES.indexOf(size)]!, c0 + c1 * size * longest);
  }
}

describe("BatchLine", () => {
  test("finds the line from batches of all sizes, whatever it believed", () => {
    for (const [c0Us, c1] of [
      [1000, 1],
      [0, 0.1],
      [40_000, 0.4],
    ] as const) {
      const line = new BatchLine({ c0Us, c1 });
      for (let batch = 0; batch < 3000; batch++) {
        const x = SIZES[batch % 5]! * EXPECTED[batch % 5]!;
        line.observe(x, C0 + C1 * x);
      }
      expect(Math.abs(line.c0Us / C0 - 1)).toBeLessThan(0.15);
      for (const [index, size] of SIZES.entries()) {
        const x = size * EXPECTED[index]!;
        expect(Math.abs(line.at(x) / (C0 + C1 * x) - 1)).toBeLessThan(0.02);
      }
    }
  });

  test("knowing only the expected longest leaves c1 unbiased (Berkson)", () => {
    const found: number[] = [];
    for (let seed = 1; seed <= 40; seed++) {
      const line = new BatchLine({ c0Us: 2000, c1: 0.8, memory: 500 });
      serve(line, SIZES, 3000, stream(seed, "berkson"));
      found.push(line.c1);
    }
    expect(Math.abs(found.reduce((a, b) => a + b, 0) / found.length / C1 - 1)).toBeLessThan(0.02);
  });

  test("where all batches are alike both are corrected in proportion", () => {
    const line = new BatchLine({ c0Us: 4000, c1: 0.3 });
    const x = 16 * EXPECTED[4]!;
    for (let batch = 0; batch < 1000; batch++) line.observe(x, 1.5 * (4000 + 0.3 * x));
    expect(line.c0Us / 4000).toBeCloseTo(line.c1 / 0.3, 12);
    expect(Math.abs(line.c1 / 0.45 - 1)).toBeLessThan(0.011);
  });

  test("hours of one size do not make it forget what others taught", () => {
    const line = new BatchLine({ c0Us: 40_000, c1: 0.2 });
    for (let batch = 0; batch < 2000; batch++) {
      const x = SIZES[batch % 5]! * EXPECTED[batch % 5]!;
      line.observe(x, C0 + C1 * x);
    }
    const x = 16 * EXPECTED[4]!;
    for (let batch = 0; batch < 20_000; batch++) line.observe(x, C0 + C1 * x);
    const alone = EXPECTED[0]!;
    expect(Math.abs(line.at(alone) / (C0 + C1 * alone) - 1)).toBeLessThan(0.05);
  });

  test("a changed model is followed in about as many batches as are remembered", () => {
    const line = new BatchLine({ c0Us: C0, c1: C1, memory: 100 });
    const random = stream(5, "change");
    serve(line, SIZES, 1000, random);
    serve(line, SIZES, 400, random, 2 * C0, 2 * C1);
    const x = 8 * EXPECTED[3]!;
    expect(Math.abs(line.at(x) / (2 * (C0 + C1 * x)) - 1)).toBeLessThan(0.1);
  });

  test("c0 is never negative and c1 always positive, and the time where it is known stays", () => {
    const below = new BatchLine({ c0Us: 1000, c1: 0.4 });
    const flat = new BatchLine({ c0Us: 1000, c1: 0.4 });
    for (let batch = 0; batch < 2000; batch++) {
      const x = SIZES[batch % 5]! * EXPECTED[batch % 5]!;
      below.observe(x, Math.max(1, 0.4 * x - 15_000));
      flat.observe(x, 60_000 - 0.01 * x);
    }
    expect([below.c0Us, below.c1 > 0]).toEqual([0, true]);
    expect(flat.c1).toBeCloseTo(0.004, 12);
    expect(flat.c0Us).toBeGreaterThan(0);
  });

  test("a stall counts as ten times its batch, not as a thousand", () => {
    const line = new BatchLine({ c0Us: C0, c1: C1 });
    const x = 4 * EXPECTED[2]!;
    for (let batch = 0; batch < 500; batch++) line.observe(x, C0 + C1 * x);
    line.observe(x, 1000 * (C0 + C1 * x));
    expect(line.at(x) / (C0 + C1 * x)).toBeLessThan(1.06);
  });

  test("its version changes with it, by more than 1 % of a batch", () => {
    const line = new BatchLine({ c0Us: C0, c1: C1 });
    const x = 4 * EXPECTED[2]!;
    const before = line.at(x);
    expect(line.observe(x, 1.001 * before)).toBe(false);
    expect(line.version).toBe(0);
    expect(line.at(x) / before).toBeCloseTo(1.0001, 4);
    expect(line.observe(x, 3 * before)).toBe(true);
    expect(line.version).toBe(1);
    expect(line.at(x) / before).toBeGreaterThan(1.01);
  });

  test("refuses what is no line and no batch", () => {
    expect(() => new BatchLine({ c0Us: -1, c1: 1 })).toThrow("c0Us must be >= 0 and finite; was -1");
    expect(() => new BatchLine({ c0Us: 0, c1: 0 })).toThrow("c1 must be > 0 and finite; was 0");
    expect(() => new BatchLine({ c0Us: 0, c1: 1, memory: 1 })).toThrow("memory must be >= 2 batches; was 1");
    expect(() => new BatchLine({ c0Us: 0, c1: 1 }).observe(0, 5)).toThrow("x of a batch must be > 0 and finite; was 0");
    expect(() => new BatchLine({ c0Us: 0, c1: 1 }).observe(5, Number.NaN)).toThrow("time of a batch must be > 0 µs");
  });
});
