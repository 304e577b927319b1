import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { benchDistribution } from "./distribution-bench.js";

test("runs tiny, with its figure; a scan of all finds the same scores as what keeps an order", async () => {
  const figuresDir = mkdtempSync(path.join(tmpdir(), "rubato-figures-"));
  try {
    const run = () => benchDistribution({ size: 0.02, figuresDir, onProgress: () => {} });
    const results = await run();
    expect(results.length).toBe(4 * 3);
    const digestOf = (name: string) => results.find((result) => result.name === `distribution-${name}`)!.digest;
    for (const pending of [10, 100, 1000]) {
      expect(digestOf(`lines-${pending}`)).toBe(digestOf(`scan-${pending}`));
      expect(digestOf(`deadlines-${pending}`)).toBe(digestOf(`scan-${pending}`));
    }
    expect(digestOf("scan-10")).not.toBe(digestOf("scan-100"));
    expect((await run()).map(({ digest }) => digest)).toEqual(results.map(({ digest }) => digest));
    expect(readdirSync(figuresDir)).toEqual(["kind-queue.svg"]);
  } finally {
    rmSync(figuresDir, { recursive: true });
  }
});
