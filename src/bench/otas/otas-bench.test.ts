import { expect, test } from "vitest";
import { benchOtas } from "./otas-bench.js";

test("runs tiny; the same answers each time, the frontier loses nothing on small queues", async () => {
  const run = () => benchOtas({ size: 0.01, onProgress: () => {} });
  const results = await run();
  expect((await run()).map(({ digest }) => digest)).toEqual(results.map(({ digest }) => digest));
  const losses = results.filter(({ name }) => name.startsWith("otas-loss"));
  expect(losses).toHaveLength(24);
  for (const { figures } of losses) expect(figures!.frontierLost).toBe(0);
  expect(results.filter(({ unit }) => unit === "ms a plan")).toHaveLength(9);
  const shares = results.filter(({ unit }) => unit === "% of the ceiling");
  expect(shares).toHaveLength(64);
  // Answers are drawn: by luck a little more is right than expected.
  for (const { value } of shares) expect(value).toBeLessThanOrEqual(110);
  expect(results.filter(({ unit }) => unit === "% of the offered")).toHaveLength(3);
  expect(results.filter(({ unit }) => unit === "ms a decision")).toHaveLength(3);
});
