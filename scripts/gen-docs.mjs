// Writes docs/configuration.md and docs/schemas/*.json from the schemas; `--check` only compares and exits 1 on a difference.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { root } from "./ensure.mjs";

const built = path.join(root, "dist", "config", "reference.js");
if (!existsSync(built)) {
  console.error("gen-docs: build first (npm run build)");
  process.exit(1);
}
const { renderReference } = await import("../dist/config/reference.js");
const check = process.argv.includes("--check");
const files = renderReference();
let stale = 0;
for (const [name, text] of files) {
  const file = path.join(root, "docs", name);
  if (existsSync(file) && readFileSync(file, "utf8") === text) continue;
  stale++;
  console.error(`${check ? "differs" : "written"}: docs/${name}`);
  if (check) continue;
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}
const schemas = path.join(root, "docs", "schemas");
for (const name of existsSync(schemas) ? readdirSync(schemas) : []) {
  if (files.has(`schemas/${name}`)) continue;
  stale++;
  console.error(`${check ? "extra" : "removed"}: docs/schemas/${name}`);
  if (!check) rmSync(path.join(schemas, name));
}
process.exitCode = check && stale > 0 ? 1 : 0;
