// Makes a fresh clone runnable: installs dependencies and builds, each only when something changed.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const at = (...parts) => path.join(root, ...parts);

export function run(command, args, options = {}) {
  const result = spawnSync(command, args, { cwd: root, stdio: "inherit", ...options });
  if (result.error) throw result.error;
  return result.status ?? 1;
}

function lockHash() {
  return createHash("sha256")
    .update(readFileSync(at("package-lock.json")))
    .digest("hex");
}

function newestMtime(folder) {
  let newest = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const full = path.join(folder, entry.name);
    newest = Math.max(newest, entry.isDirectory() ? newestMtime(full) : statSync(full).mtimeMs);
  }
  return newest;
}

/** Installs when the lock file differs from what is installed; builds when a source is newer than the build. */
export function ensure() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < 20 || (major === 20 && minor < 19)) {
    console.error(`rubato needs Node 20.19 or newer; this is ${process.versions.node}`);
    process.exit(1);
  }
  const stamp = at("node_modules", ".rubato-lock");
  const wanted = lockHash();
  if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== wanted) {
    console.error("rubato: installing dependencies (npm ci; 20 s to a minute)");
    const status = run("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], { stdio: ["ignore", 2, 2] });
    if (status !== 0) process.exit(status);
    writeFileSync(stamp, wanted);
  }
  const built = at("dist", ".built");
  const sources = Math.max(
    newestMtime(at("src")),
    statSync(at("tsconfig.build.json")).mtimeMs,
    statSync(at("tsconfig.json")).mtimeMs,
  );
  if (!existsSync(built) || statSync(built).mtimeMs < sources) {
    console.error("rubato: building (10 s to a minute, silent)");
    const status = run(process.execPath, [at("node_modules", "typescript", "bin", "tsc"), "-p", "tsconfig.build.json"]);
    if (status !== 0) process.exit(status);
    mkdirSync(at("dist"), { recursive: true });
    writeFileSync(built, "");
  }
}
