import { defineConfig } from "vitest/config";

const rooms = (top: string, names: string): string[] => names.split(" ").map((room) => `${top}/${room}/**/*.test.ts`);
const files = (top: string, names: string): string[] => names.split(" ").map((name) => `${top}/${name}.test.ts`);
/** Two at a time: in virtual time, or with servers, processes and models of which it is asked what they do, not how fast. */
const SIDE_BY_SIDE = [
  ...rooms(
    "src",
    "bench capacity cli config core measure planning policies reproduce scaling serve sim system wire worker",
  ),
  ...rooms("test", "contract docs doors golden models property recorded sim virtual"),
  ...files(
    "test/live",
    "elastic elastic-malformed hostile-models process-pool shutdown steps task-deletion task-versions tritonclient values versions",
  ),
  ...files("test/threads", "lockstep traits"),
];
const limits = {
  testTimeout: 60_000,
  hookTimeout: 60_000,
  pool: "forks" as const,
  setupFiles: ["test/support/property-seed.ts"],
};

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...limits,
          name: "side by side",
          include: SIDE_BY_SIDE,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...limits,
          name: "alone",
          include: ["src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: SIDE_BY_SIDE,
          // Two cores: these measure time, so files run one after another. Those of live servers and loads have two more tries: a machine
          // that stalls is not a broken promise, and a broken promise fails three times.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
