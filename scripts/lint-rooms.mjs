// Keeps the import arrows of ARCHITECTURE.md: a room may import only the rooms listed for it.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { root } from "./ensure.mjs";

const any = null;
const rooms = {
  core: [],
  policies: ["core"],
  config: ["core", "policies"],
  measure: ["core"],
  scaling: ["core", "policies"],
  sim: ["core", "policies", "measure", "scaling", "config"],
  wire: ["core"],
  threads: ["core", "policies", "wire"],
  worker: ["core", "wire", "config"],
  serve: ["core", "policies", "measure", "scaling", "wire", "config", "planning", "threads"],
  load: ["core", "measure", "wire"],
  planning: ["core", "config"],
  report: ["core", "policies", "measure", "sim", "config"],
  bench: any,
  reproduce: ["core", "policies", "measure", "sim", "config", "report", "planning", "bench"],
  cli: any,
};
// Packages that only one room may know.
const owned = {
  "onnxruntime-node": ["worker"],
  fastify: ["serve"],
  commander: ["cli"],
  highs: ["planning"],
  vega: ["reproduce"],
  "vega-lite": ["reproduce"],
};

const src = path.join(root, "src");
const problems = [];
function walk(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const full = path.join(folder, entry.name);
    if (entry.isDirectory()) walk(full);
    else if (entry.name.endsWith(".ts")) lint(full);
  }
}
function lint(file) {
  const relative = path.relative(src, file);
  const room = relative.split(path.sep)[0];
  if (!relative.includes(path.sep)) return; // src/index.ts wires the library
  const isTest = file.endsWith(".test.ts");
  const allowed = rooms[room];
  if (allowed === undefined) problems.push(`${relative}: '${room}' is not a room of ARCHITECTURE.md`);
  const text = readFileSync(file, "utf8");
  for (const match of text.matchAll(/(?:from\s+|import\s*\(\s*|import\s+)["']([^"']+)["']/g)) {
    const target = match[1];
    if (target.startsWith(".")) {
      const to = path.relative(src, path.resolve(path.dirname(file), target)).split(path.sep)[0];
      if (to !== room && allowed !== any && !isTest && !allowed?.includes(to))
        problems.push(`${relative}: ${room} may not import ${to} (${target})`);
    } else {
      const name = target.startsWith("@") ? target.split("/").slice(0, 2).join("/") : target.split("/")[0];
      const owners = owned[name];
      if (owners && !owners.includes(room)) problems.push(`${relative}: only ${owners.join(", ")} may import ${name}`);
      if ((room === "core" || room === "policies") && !isTest)
        problems.push(`${relative}: ${room} imports no package (${target})`);
    }
  }
  if (
    ["core", "policies", "measure", "scaling", "sim"].includes(room) &&
    !isTest &&
    /Math\.random|Date\.now/.test(text)
  )
    problems.push(`${relative}: randomness and time are passed in`);
}
walk(src);
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exit(1);
