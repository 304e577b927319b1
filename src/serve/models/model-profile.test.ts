import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { emulatedSpec, modelSpec, padded, tensorSpec } from "../../../test/support/specs.js";
import type { ElasticSpec } from "../../config/elastic.js";
import { fitLine } from "./linear-fit.js";
import {
  fitProfile,
  implausibility,
  interpolateTable,
  type ModelProfile,
  type ProfilePoint,
  profileOfEmulated,
} from "./model-profile.js";
import { ModelTimes } from "./model-times.js";
import { loadProfile, saveProfile } from "./profile-store.js";

const point = (extent: number | null, batchSize: number, us: number): ProfilePoint => {
  const quantiles = { p50Us: us, p90Us: us, p99Us: us, runs: 3 };
  return { extent, batchSize, alone: quantiles, busy: { ...quantiles, p50Us: us * 2 } };
};
const environment = { cpuModel: "c", threads: 1, accelerators: 2, runtime: "r", modelBytes: 0 };
const profile = (batchMax: number, points: ProfilePoint[]): ModelProfile => ({
  schema: 1,
  model: "m",
  version: "1",
  batchMax,
  environment,
  points,
  fits: fitProfile(points),
  complete: true,
});

describe("fit", () => {
  test("recovers a line exactly, with errors near zero", () => {
    const fit = fitLine([1, 2, 4, 8].map((x) => ({ x, y: 3 * x + 7 })));
    expect(fit.alphaUs).toBeCloseTo(3, 9);
    expect(fit.betaUs).toBeCloseTo(7, 9);
    expect(fit.alphaSeUs).toBeCloseTo(0, 6);
    expect(fit.r2).toBeCloseTo(1, 9);
  });

  test("weighs by relative error: the small sizes are not drowned by the large", () => {
    const noisy = [1, 2, 4, 8, 16, 32].map((x) => ({ x, y: (2 * x + 10) * (x === 32 ? 1.3 : 1) }));
    const fit = fitLine(noisy);
    expect(Math.abs(fit.alphaUs + fit.betaUs - 12) / 12).toBeLessThan(0.1);
    expect(fit.alphaSeUs).toBeGreaterThan(0);
    expect(fit.betaSeUs).toBeGreaterThan(0);
  });

  test("one point and none are answered, not divided by", () => {
    expect(fitLine([{ x: 4, y: 8 }])).toMatchObject({ alphaUs: 2, betaUs: 0, alphaSeUs: null });
    expect(fitLine([])).toMatchObject({ alphaUs: 0, betaUs: 0 });
  });
});

describe("table", () => {
  test("goes through the points, straight between them, on with the last slope", () => {
    const table = interpolateTable(
      profile(8, [point(null, 1, 10), point(null, 2, 14), point(null, 4, 30)]),
      null,
      "alone",
    );
    expect([...table]).toEqual([0, 10, 14, 22, 30, 38, 46, 54, 62]);
  });

  test("with all workers busy is the default", () => {
    expect(interpolateTable(profile(1, [point(null, 1, 10)]), null)[1]).toBe(20);
  });

  test("never falls, whatever was measured", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 1, maxLength: 6 }),
        fc.boolean(),
        (times, two) => {
          const points = times.map((us, i) => point(two ? 16 : null, 2 ** i, us));
          if (two) points.push(point(32, 1, 500));
          const table = interpolateTable(profile(64, points), two ? 24 : null);
          for (let b = 1; b <= 64; b++) expect(table[b]!).toBeGreaterThanOrEqual(table[b - 1]!);
          expect(table[1]).toBeGreaterThan(0);
        },
      ),
    );
  });

  test("between extents it is in between, beyond the largest in proportion, below the smallest that one", () => {
    const two = profile(1, [point(10, 1, 100), point(20, 1, 300)]);
    const at = (extent: number) => interpolateTable(two, extent, "alone")[1];
    expect([at(5), at(10), at(15), at(20), at(40)]).toEqual([100, 100, 200, 300, 600]);
  });

  test("a model of fixed batch costs the same at any size", () => {
    expect([...interpolateTable(profile(4, [point(null, 4, 9)]), null, "alone")]).toEqual([0, 9, 9, 9, 9]);
  });

  test("an emulated model is its specification", () => {
    const table = interpolateTable(profileOfEmulated(emulatedSpec("e", { alphaMs: 1.053, betaMs: 5.072 })), null);
    expect([table[1], table[8]]).toEqual([6125, 13_496]);
  });
});

describe("an elastic model", () => {
  const at = (gamma: number, ...us: number[]): ProfilePoint[] =>
    us.map((each, index) => ({ ...point(null, 2 ** index, each), gamma }));
  const points = [...at(-2, 100, 150, 250), ...at(0, 200, 300, 500), ...at(2, 900, 1500, 2700)];
  const elastic = { gammas: [-2, 0, 2], gamma: 2 } as unknown as ElasticSpec;
  const spec = { ...modelSpec({ name: "m", batchSizeMax: 4 }), elastic };

  test("has the times of each gamma apart, and by default those that batches run with", () => {
    const times = new ModelTimes(spec, profile(4, points));
    const table = (variant: number): number[] => [...times.ofVariant(variant).table(1, null, 4)];
    expect([1, 2, 3].map(table)).toEqual([
      [200, 300, 400, 500],
      [400, 600, 800, 1000],
      [1800, 3000, 4200, 5400],
    ]);
    expect(table(0)).toEqual(table(3));
    expect(fitProfile(points).map(({ gamma, alone }) => [gamma, Math.round(alone.alphaUs)])).toEqual([
      [-2, 50],
      [0, 100],
      [2, 600],
    ]);
  });

  test("is not implausible because gammas differ, only where one does within itself", () => {
    expect(implausibility(profile(4, points))).toBeNull();
    expect(implausibility(profile(4, [...at(-2, 100, 150), ...at(0, 200, 90_000)]))).toBe(
      "a batch of 2 at gamma 0 takes 450.00 times as long as one of 1",
    );
  });
});

describe("store", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), "rubato-profile-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const spec = () => modelSpec({ name: "m", folder, batchSizeMax: 4 });

  test("is read back from beside the model, whole, with no draft left", () => {
    const file = saveProfile(spec(), profile(4, [point(null, 1, 10)]), null);
    expect(file).toBe(path.join(folder, "1", "profile.json"));
    expect(readdirSync(path.join(folder, "1"))).toEqual(["profile.json"]);
    expect(loadProfile(spec(), environment, null)).toMatchObject({ staleness: null, profile: { model: "m" } });
  });

  test("says what makes it stale", () => {
    const stale = (change: Partial<typeof environment>) =>
      loadProfile(spec(), { ...environment, ...change }, null)?.staleness;
    expect(stale({ threads: 2 })).toBe("threads was 1 and is 2");
    expect(stale({ runtime: "onnxruntime 9" })).toBe("runtime was r and is onnxruntime 9");
    expect(stale({ cpuModel: "other" })).toBe("CPU was c and is other");
    expect(loadProfile({ ...spec(), batchSizeMax: 8 }, environment, null)?.staleness).toBe("batch_max was 4 and is 8");
    const bucketed = { ...spec(), inputs: [tensorSpec("x", "FP32", [-1, -1], { variable: padded(1, [8]) })] };
    expect(loadProfile(bucketed, environment, null)?.staleness).toBe("extents was  and is 8");
    const elastic = { gammas: [-2, 0] } as unknown as ElasticSpec;
    expect(loadProfile({ ...spec(), elastic }, environment, null)?.staleness).toBe("gammas was  and is -2,0");
  });

  test("goes to the cache where the model's folder cannot be written", () => {
    const blocked = path.join(folder, "file");
    writeFileSync(blocked, "");
    const cache = path.join(folder, "cache");
    mkdirSync(cache);
    const elsewhere = { ...spec(), name: "a/b", folder: blocked };
    const file = saveProfile(elsewhere, profile(4, [point(null, 1, 10)]), cache);
    expect(file).toBe(path.join(cache, "a%2Fb", "1", "profile.json"));
    expect(loadProfile(elsewhere, environment, cache)?.file).toBe(file);
    expect(saveProfile(elsewhere, profile(4, [point(null, 1, 10)]), null)).toBeNull();
  });

  test("a file that is no profile is as good as none", () => {
    writeFileSync(path.join(folder, "1", "profile.json"), "{ broken");
    expect(loadProfile(spec(), environment, null)).toBeNull();
  });
});

test("a stored profile that was cut or edited is measured anew: numbers out of bounds are not computed with", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-profile-"));
  const spec = modelSpec({ name: "m", folder, batchSizeMax: 4 });
  const kept = profile(4, [point(null, 1, 100), point(null, 4, 200)]);
  saveProfile(spec, kept, null);
  expect(loadProfile(spec, environment, null)?.staleness).toBeNull();
  const [first] = kept.points;
  const broken: unknown[] = [
    null,
    [],
    { ...kept, points: [null] },
    { ...kept, points: [{ ...first, busy: undefined }] },
    { ...kept, points: [{ ...first, busy: { p50Us: "abc" } }] },
    { ...kept, points: [{ ...first, busy: { p50Us: -5 } }] },
    { ...kept, points: [{ ...first, busy: { p50Us: 1e300 } }] },
    { ...kept, points: [{ ...first, batchSize: 0 }] },
    { ...kept, points: [{ ...first, extent: "8" }] },
    { ...kept, batchMax: 4e9 },
    { ...kept, environment: null },
  ];
  for (const content of broken) {
    writeFileSync(path.join(folder, "1", "profile.json"), JSON.stringify(content));
    expect(loadProfile(spec, environment, null)).toBeNull();
  }
  rmSync(folder, { recursive: true });
});

test("a stored profile that cannot be true is measured anew", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-profile-"));
  const spec = modelSpec({ name: "m", version: "1", folder, batchSizeMax: 4 });
  saveProfile(spec, profile(4, [point(null, 1, 10), point(null, 4, 60e6)]), null);
  expect(loadProfile(spec, environment, null)?.staleness).toContain("a batch of 4 takes");
  rmSync(folder, { recursive: true });
});

describe("points that cannot all be times of one model", () => {
  const at = (batchSize: number, aloneUs: number, busyUs = aloneUs): ModelProfile["points"][number] => {
    const times = (us: number) => ({ p50Us: us, p90Us: us, p99Us: us, runs: 3 });
    return { extent: null, batchSize, alone: times(aloneUs), busy: times(busyUs) };
  };
  const problemOf = (...points: ModelProfile["points"]): string | null => implausibility(profile(8, [...points]));

  test("times of any real shape are believed, with noise", () => {
    expect(problemOf(at(1, 100), at(2, 190), at(4, 390), at(8, 800))).toBeNull();
    expect(problemOf(at(1, 10_000), at(2, 9000), at(4, 10_100), at(8, 10_050))).toBeNull();
    expect(problemOf(at(1, 0), at(2, 0))).toBeNull();
  });

  test("a batch that takes far more than its size says, or far less than a smaller one, is not", () => {
    expect(problemOf(at(1, 45), at(2, 60e6), at(4, 60e6))).toContain("a batch of 2 takes");
    expect(problemOf(at(1, 10_000), at(2, 4000))).toBe("a batch of 2 takes 0.40 times as long as one of 1");
  });

  test("nor are times with all at work that one alone contradicts", () => {
    expect(problemOf(at(1, 100, 1e6))).toContain("a batch of 1 takes 10000.00 times as long");
    expect(problemOf(at(1, 1000, 10))).toContain("a batch of 1 takes 0.05 times as long");
  });
});
