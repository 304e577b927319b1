import { expect, test } from "vitest";
import { benchCore, benchSimulate } from "./core-bench.js";

test("benchmarks run tiny, and give the same answer twice", () => {
  const run = () => [...benchCore({ size: 0.002 }), ...benchSimulate({ size: 0.002 })];
  const results = run();
  expect(results.map(({ name }) => name)).toEqual([
    "core-1-model",
    "core-64-models",
    "core-1000-models",
    "simulate-1-model",
    "simulate-37-models",
  ]);
  for (const { value, digest } of results) {
    expect(value).toBeGreaterThan(0);
    expect(digest).toMatch(/^[0-9a-z-]{8,}$/);
  }
  expect(run().map(({ digest }) => digest)).toEqual(results.map(({ digest }) => digest));
});
