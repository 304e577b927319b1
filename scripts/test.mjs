// `npm test`: install and build when needed, then types, lint and every test.

import path from "node:path";
import { ensure, root, run } from "./ensure.mjs";

ensure();
const bin = (...parts) => path.join(root, "node_modules", ...parts);
const steps = [
  ["types", [bin("typescript", "bin", "tsc"), "-p", "tsconfig.json", "--noEmit"]],
  ["lint", [bin("@biomejs", "biome", "bin", "biome"), "check", "."]],
  ["rooms", [path.join(root, "scripts", "lint-rooms.mjs")]],
  ["tests", [bin("vitest", "vitest.mjs"), "run", ...process.argv.slice(2)]],
];
for (const [name, args] of steps) {
  const status = run(process.execPath, args);
  if (status !== 0) {
    console.error(`npm test: ${name} failed`);
    process.exit(status);
  }
}
