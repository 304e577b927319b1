import { spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ExperimentPlan } from "./experiment.js";
import { digestOf, type Point, type PointResult } from "./point.js";
import { ResultStore } from "./result-store.js";
import { runPoint } from "./run-point.js";
import { type Progress, runPoints } from "./runner.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-runner-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const pointAt = (rateRps: number): Point => ({
  kind: "sweep",
  scenario: {
    name: "one",
    duration_s: 0.2,
    accelerators: 2,
    models: [{ name: "m", profile: { alpha_ms: 1, beta_ms: 5 }, slo_ms: 40 }],
    arrivals: { process: "poisson", rate_rps: 100 },
  },
  choice: { policy: "deferred", options: {} },
  seeds: [1, 2],
  rates_rps: [rateRps],
  tolerance: 0.05,
});
const planOf = (points: readonly Point[]): ExperimentPlan => ({
  points,
  scope: "",
  present: () => ({ tables: [], figures: [], findings: [], notes: [] }),
});
const POINTS = [50, 100, 150, 200, 250].map(pointAt);

async function run(execute: (point: Point) => Promise<PointResult> = runPoint, width = 1) {
  const progress: Progress[] = [];
  let nowS = 0;
  const store = new ResultStore(folder);
  const get = await runPoints([planOf(POINTS)], {
    store,
    execute,
    width,
    nowS: () => nowS++,
    onProgress: (step) => progress.push(step),
  });
  return { results: POINTS.map((point) => get(point)), progress };
}

/** Ends after some points, as a killed process does: what was running is lost. */
function endingAfter(count: number) {
  let left = count;
  return async (point: Point) => {
    if (left-- === 0) throw new Error("killed");
    return runPoint(point);
  };
}

describe("runner", () => {
  it("goes on where it was ended, and the results are those of one run", async () => {
    const whole = await run();
    rmSync(path.join(folder, "points.jsonl"));
    await expect(run(endingAfter(2))).rejects.toThrow("killed");
    let executed = 0;
    const rest = await run((point) => {
      executed++;
      return runPoint(point);
    });
    expect(executed).toBe(3);
    expect(rest.results).toEqual(whole.results);
    expect(rest.progress[0]).toMatchObject({ done: 2, kept: 2, total: 5 });
  });

  it("a process that is killed loses what was running and nothing else", async () => {
    const dist = (file: string) => JSON.stringify(new URL(`../../dist/reproduce/${file}`, import.meta.url).href);
    const program = `
      const [{ runPoints }, { ResultStore }, { runPoint }] =
        await Promise.all([import(${dist("runner.js")}), import(${dist("result-store.js")}), import(${dist("run-point.js")})]);
      const plan = { points: ${JSON.stringify(POINTS)} };
      let count = 0;
      const execute = (point) => (count++ < 2 ? runPoint(point) : new Promise(() => setInterval(() => {}, 1000)));
      await runPoints([plan], { store: new ResultStore(${JSON.stringify(folder)}), execute, width: 2, nowS: () => 0,
        onProgress: ({ done }) => console.log(done) });`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    for await (const text of child.stdout) if (String(text).includes("2")) break;
    child.kill("SIGKILL");
    const whole = await run();
    expect(whole.progress[0]).toMatchObject({ kept: 2, total: 5 });
    rmSync(path.join(folder, "points.jsonl"));
    expect((await run()).results).toEqual(whole.results);
  });

  it("passes over a line that was cut off, and over another format's", async () => {
    const whole = await run();
    const file = path.join(folder, "points.jsonl");
    const lines = readFileSync(file, "utf8").trimEnd().split("\n");
    const other = lines[1]!.replace(/"format":\d+/, '"format":0');
    writeFileSync(file, `${[lines[0], other, lines[2]].join("\n")}\n${lines[3]!.slice(0, 40)}`);
    let executed = 0;
    const again = await run((point) => {
      executed++;
      return runPoint(point);
    });
    expect(executed).toBe(3);
    expect(again.results).toEqual(whole.results);
    // What was appended after the torn line is whole again.
    expect(new ResultStore(folder).size).toBe(5);
  });

  it("runs nothing twice; forgets what it is told to", async () => {
    await run();
    const never = async (): Promise<PointResult> => {
      throw new Error("must not run");
    };
    await run(never);
    const store = new ResultStore(folder);
    store.forget(new Set([digestOf(POINTS[0]!)]));
    expect(new ResultStore(folder).size).toBe(4);
    appendFileSync(store.file, "not json\n");
    expect(new ResultStore(folder).size).toBe(4);
  });

  it("knows which results other code ran", async () => {
    await run();
    const digests = POINTS.map(digestOf);
    expect(new ResultStore(folder).countOfOtherCode(digests)).toBe(0);
    const other = new ResultStore(folder, "other");
    expect([other.countOfOtherCode(digests), other.countOfOtherCode([])]).toEqual([5, 0]);
    other.forget(new Set([digests[0]!]));
    await runPoints([planOf(POINTS)], { store: other, execute: runPoint, width: 1, nowS: () => 0 });
    expect(new ResultStore(folder, "other").countOfOtherCode(digests)).toBe(4);
    expect(new ResultStore(folder).countOfOtherCode(digests)).toBe(1);
  });

  it("threads or one lane: the same results", async () => {
    const whole = await run();
    rmSync(path.join(folder, "points.jsonl"));
    expect((await run(runPoint, 3)).results).toEqual(whole.results);
  });

  it("says how much is done and how long the rest will take", async () => {
    const { progress } = await run();
    expect(progress.map(({ done }) => done)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(progress.at(-1)!.etaS).toBe(0);
    expect(progress[2]!.etaS).toBeGreaterThan(progress[4]!.etaS!);
  });

  it("a result that was not run is not made up", async () => {
    const store = new ResultStore(folder);
    const get = await runPoints([planOf([])], { store, execute: runPoint, width: 1, nowS: () => 0 });
    expect(() => get(POINTS[0]!)).toThrow("no result of one, deferred");
  });
});
