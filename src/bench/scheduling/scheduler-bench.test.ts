import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { benchScheduler } from "./scheduler-bench.js";

test("the benchmark of the scheduler runs tiny, with its figures", async () => {
  const figuresDir = mkdtempSync(path.join(tmpdir(), "rubato-figures-"));
  try {
    const results = await benchScheduler({ size: 0.002, figuresDir, onProgress: () => {} });
    const names = new Set(results.map(({ name }) => name));
    for (const name of [
      "threads-1-model",
      "threads-64-models",
      "lots-1000us",
      "lots-50us",
      "core-allocation",
      "cost-over-models",
      "queue-threads-2",
    ])
      expect(names).toContain(name);
    for (const { name, value, unit } of results) {
      // What finished in 0.3 s of real time is a busy machine's to say.
      if (unit === "finished/CPU-s") expect(value, name).toBeGreaterThanOrEqual(0);
      else if (name !== "core-allocation") expect(value, name).toBeGreaterThan(0);
    }
    expect(readdirSync(figuresDir).sort()).toEqual(["scheduler-cost.svg", "scheduler-rank.svg"]);
  } finally {
    rmSync(figuresDir, { recursive: true });
  }
});
