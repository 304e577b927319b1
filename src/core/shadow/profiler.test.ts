import { describe, expect, it } from "vitest";
import { PROFILER_DEFAULTS, Profiler } from "./profiler.js";

const SECOND = 1_000_000;

/** @param draws numbers in [0, 1), again from the first after the last. */
function profiler(draws: readonly number[] = [0], options = {}): Profiler {
  let next = 0;
  return new Profiler({ ...PROFILER_DEFAULTS, ...options }, () => draws[next++ % draws.length]!);
}

describe("which request is run again", () => {
  it("is drawn: each member of a batch with the same chance, and mostly none", () => {
    const counts = [0, 0, 0, 0];
    let none = 0;
    let draw = 0;
    const each = new Profiler({ ...PROFILER_DEFAULTS, requestShare: 0.05 }, () => ((draw++ % 1000) + 0.5) / 1000);
    each.present(1, 0);
    for (let batch = 0; batch < 1000; batch++) {
      const place = each.pick(4, 1000 * SECOND, () => 1);
      if (place < 0) none++;
      else {
        counts[place]!++;
        each.ended("expired", 0);
      }
    }
    expect(counts).toEqual([50, 50, 50, 50]);
    expect(none).toBe(800);
  });

  it("is none of a batch of one, none that is not wanted, and none while another is out", () => {
    const one = profiler();
    one.present(1, 0);
    const at = 100 * SECOND;
    expect(one.pick(1, at, () => 10)).toBe(-1);
    expect(one.pick(2, at, () => 0)).toBe(-1);
    expect(one.pick(2, at, () => 10)).toBe(0);
    expect(one.pick(2, at, () => 10)).toBe(-1);
    one.ended("expired", 0);
    expect(one.pick(2, at, () => 10)).toBe(0);
  });

  it("is none before what it takes has been saved, of the time of the accelerators that were there", () => {
    const two = profiler();
    two.present(2, 0);
    // 0.2 % of two accelerators: 10 ms after 2.5 s.
    expect(two.pick(2, 2.49 * SECOND, () => 10_000)).toBe(-1);
    expect(two.pick(2, 2.5 * SECOND, () => 10_000)).toBe(0);
    two.ended("ran", 12_000);
    // It took 2 ms more than it might: they are saved first.
    expect(two.pick(2, 5.49 * SECOND, () => 10_000)).toBe(-1);
    expect(two.pick(2, 5.5 * SECOND, () => 10_000)).toBe(0);
    expect(two.ranUs / two.presentUs).toBeLessThanOrEqual(0.002);
  });

  it("is none where no accelerator is", () => {
    const one = profiler();
    one.present(1, 0);
    one.present(0, 100 * SECOND);
    expect(one.pick(2, 100 * SECOND, () => 10)).toBe(-1);
  });

  it("what was saved in ten minutes is most that is spent at once, and who takes longer has a turn then", () => {
    const one = profiler();
    one.present(1, 0);
    const day = 86_400 * SECOND;
    for (let runs = 0; runs < 12; runs++) {
      expect(one.pick(2, day, () => 100_000)).toBe(0);
      one.ended("ran", 100_000);
    }
    expect(one.pick(2, day, () => 100_000)).toBe(-1);
    expect(one.pick(2, day + 599 * SECOND, () => 5_000_000)).toBe(-1);
    expect(one.pick(2, day + 600 * SECOND, () => 5_000_000)).toBe(0);
  });
});
