import { defineConfig } from "vitest/config";

const rooms = (top: string, names: string): string[] => names.split(" ").map((room) => `${top}/${room}/**/*.test.ts`);
/** In virtual time, or with servers and models of which no times are asked: side by side. */
const TIMELESS = [
  ...rooms(
    "src",
    "bench/otas capacity cli config core measure planning policies reproduce scaling serve sim system wire worker",
  ),
  ...rooms("test", "contract docs golden models property recorded sim virtual"),
];
const limits = { testTimeout: 60_000, hookTimeout: 60_000, pool: "forks" as const };

export default defineConfig({
  test: {
    projects: [
      { test: { ...limits, name: "timeless", include: TIMELESS, maxWorkers: 2, sequence: { groupOrder: 0 } } },
      {
        test: {
          ...limits,
          name: "real time",
          include: ["src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: TIMELESS,
          // Two cores: these measure time, so files run one after another. Those of live servers and loads have two more tries: a machine
          // that stalls is not a broken promise, and a broken promise fails three times.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
