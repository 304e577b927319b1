import { defineConfig } from "vitest/config";

/** What nothing in real time is asked of: side by side. */
const VIRTUAL = [
  ...["capacity", "config", "core", "measure", "planning", "policies", "reproduce", "scaling", "sim", "system"].map(
    (room) => `src/${room}/**/*.test.ts`,
  ),
  "src/bench/otas/**/*.test.ts",
  ...["contract", "golden", "property", "recorded", "sim", "virtual"].map((room) => `test/${room}/**/*.test.ts`),
];
const limits = { testTimeout: 60_000, hookTimeout: 60_000, pool: "forks" as const };

export default defineConfig({
  test: {
    projects: [
      { test: { ...limits, name: "virtual", include: VIRTUAL, maxWorkers: 2, sequence: { groupOrder: 0 } } },
      {
        test: {
          ...limits,
          name: "real time",
          include: ["src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: VIRTUAL,
          // Two cores: these measure time, so files run one after another. Those of live servers and loads have two more tries: a machine
          // that stalls is not a broken promise, and a broken promise fails three times.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
