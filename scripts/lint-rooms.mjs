// Keeps the import arrows of ARCHITECTURE.md: a room may import only the rooms listed for it, neighbours within a room do not
// import each other in a circle, and no folder of src holds more than twenty files.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { root } from "./ensure.mjs";

const src = path.join(root, "src");
const problems = [];
/** Room to the rooms it may import, null: any. As ARCHITECTURE.md has them, so that the picture is the house. */
const rooms = Object.fromEntries(
  [...readFileSync(path.join(root, "ARCHITECTURE.md"), "utf8").matchAll(/^\| `(\w+)\/` \|[^|]*\| ([^|]+) \|$/gm)].map(
    ([, room, imports]) => [room, imports === "any" ? null : imports === "–" ? [] : imports.split(", ")],
  ),
);
for (const entry of readdirSync(src, { withFileTypes: true }))
  if (entry.isDirectory() && !(entry.name in rooms))
    problems.push(`src/${entry.name}: is not a room of ARCHITECTURE.md`);
for (const [room, imports] of Object.entries(rooms))
  for (const name of [room, ...(imports ?? [])])
    if (!existsSync(path.join(src, name))) problems.push(`ARCHITECTURE.md: room '${name}' is not a folder of src`);
// Packages that only one room may know.
const owned = {
  "onnxruntime-node": ["worker"],
  fastify: ["serve"],
  commander: ["cli"],
  highs: ["planning"],
  vega: ["reproduce"],
  "vega-lite": ["reproduce"],
};

const FILES_MAX = 20;
/** Folder to the folders that its production code imports. */
const edges = new Map();
function walk(folder) {
  const entries = readdirSync(folder, { withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).length;
  if (files > FILES_MAX) problems.push(`${path.relative(src, folder)}: holds ${files} files, more than ${FILES_MAX}`);
  for (const entry of entries) {
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
  const text = readFileSync(file, "utf8");
  for (const match of text.matchAll(/(?:from\s+|import\s*\(\s*|import\s+)["']([^"']+)["']/g)) {
    const target = match[1];
    if (target.startsWith(".")) {
      const toFile = path.relative(src, path.resolve(path.dirname(file), target));
      const to = toFile.split(path.sep)[0];
      if (!isTest) connect(path.dirname(relative), path.dirname(toFile));
      if (to !== room && allowed !== null && !isTest && !allowed?.includes(to))
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
    ["core", "policies", "system", "measure", "scaling", "sim"].includes(room) &&
    !isTest &&
    /Math\.random|Date\.now/.test(text)
  )
    problems.push(`${relative}: randomness and time are passed in`);
}
/** An import between neighbours is one between the folders that hold them, where the ways from their common folder part. */
function connect(from, to) {
  const [a, b] = [from.split(path.sep), to.split(path.sep)];
  let depth = 0;
  while (depth < a.length && depth < b.length && a[depth] === b[depth]) depth++;
  if (depth === a.length || depth === b.length) return; // a room and a room within it
  const [x, y] = [a, b].map((parts) => parts.slice(0, depth + 1).join("/"));
  if (!edges.has(x)) edges.set(x, new Set());
  edges.get(x).add(y);
}
function circles() {
  const done = new Set();
  const visit = (room, way) => {
    if (way.includes(room)) problems.push(`circle of rooms: ${[...way.slice(way.indexOf(room)), room].join(" -> ")}`);
    else if (!done.has(room)) {
      for (const next of edges.get(room) ?? []) visit(next, [...way, room]);
      done.add(room);
    }
  };
  for (const room of edges.keys()) visit(room, []);
}
walk(src);
circles();
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exit(1);
