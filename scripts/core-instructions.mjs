// Instructions an arrival takes in the scheduling core, counted by valgrind: `node scripts/core-instructions.mjs [folder ...]`.
// What `rubato bench core` times, where a machine's speed varies by more than versions differ. Folders are built checkouts
// (this one else), all counted beside the first. A run of 400,000 arrivals is taken off one of 1.2 million (600,000 off 1.8
// million with 1,000 models): start, compilation and tables are in both. Needs valgrind (Debian: apt-get install valgrind); 8 min a folder.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { root } from "./ensure.mjs";

const SETTINGS = [
  { models: 1, accelerators: 32, short: 400_000 },
  { models: 64, accelerators: 512, short: 400_000 },
  { models: 1000, accelerators: 4096, short: 600_000 },
];

/** Instructions of a whole process that runs so many arrivals, and the digest of its answer. */
function count(folder, { models, accelerators }, arrivals) {
  const [now, once] = ["sim/core-run.js", "bench/core-bench.js"].map((file) => path.join(folder, "dist", file));
  const program = `const { CoreRun } = await import(${JSON.stringify(existsSync(now) ? now : once)});
    const run = new CoreRun(${models}, ${accelerators}, ${arrivals}); run.run(); console.log(run.digest);`;
  const tool = ["--tool=cachegrind", "--cache-sim=no", "--smc-check=all-non-file", "--cachegrind-out-file=/dev/null"];
  const log = ["--log-fd=1", process.execPath, "--single-threaded", "--input-type=module", "--eval", program];
  const printed = execFileSync("valgrind", [...tool, ...log], { encoding: "utf8" });
  return {
    instructions: Number(/I\s+refs:\s+([\d,]+)/.exec(printed)[1].replaceAll(",", "")),
    digest: /^[0-9a-f]{8}$/m.exec(printed)[0],
  };
}

const folders = process.argv.length > 2 ? process.argv.slice(2).map((given) => path.resolve(given)) : [root];
for (const setting of SETTINGS) {
  let first;
  for (const folder of folders) {
    const less = count(folder, setting, setting.short);
    const more = count(folder, setting, 3 * setting.short);
    const each = (more.instructions - less.instructions) / (2 * setting.short);
    first ??= each;
    console.log(
      `${setting.models} models: ${each.toFixed(0)} instructions an arrival, ${(each / first).toFixed(3)} of the first, digest ${more.digest}  ${folder}`,
    );
  }
}
