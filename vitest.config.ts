import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: "forks",
    // Two cores: the live tests measure time, so files run one after another. They (test/live, load) have two more tries: a machine
    // that stalls is not a broken promise, and a broken promise fails three times.
    fileParallelism: false,
  },
});
