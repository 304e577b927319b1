import { expect, test } from "vitest";
import { benchPard } from "./pard-bench.js";

test("runs tiny; the same answers each time, a state row below 500 bytes", async () => {
  const run = () => benchPard({ size: 0.01, onProgress: () => {} });
  const results = await run();
  expect(results.map(({ name }) => name)).toEqual([
    "pard-depq-10",
    "pard-depq-100",
    "pard-depq-1000",
    "pard-depq-10000",
    "pard-request-0",
    "pard-request-1000",
    "pard-planner",
    "pard-planner-ways",
  ]);
  expect((await run()).map(({ digest }) => digest)).toEqual(results.map(({ digest }) => digest));
  expect(results.at(-1)!.figures!.row_bytes).toBeLessThan(500);
});
