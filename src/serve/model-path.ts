/** Where a model's file is: `npm:PACKAGE/path`, or a path inside the repository. Nothing is executed or resolved through code. */
import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { ServingError } from "../wire/serving-error.js";

const PACKAGE = /^npm:((?:@[a-z0-9._~-]+\/)?[a-z0-9._~-]+)\/(.+)$/i;

/** @throws ServingError invalid-argument naming the field and what was looked for where. */
export function resolveModelFile(reference: string, folder: string, repository: string, field: string): string {
  const found = reference.startsWith("npm:")
    ? fromPackage(reference, repository, field)
    : inside(repository, path.resolve(folder, reference), reference, field);
  if (!existsSync(found) || !statSync(found).isFile())
    throw new ServingError("invalid-argument", `${field}: no such file; was ${reference} (looked for ${found})`);
  return found;
}

/** Packages of this program, then of the repository's surroundings, innermost first: as Node looks for them. */
function fromPackage(reference: string, repository: string, field: string): string {
  const match = PACKAGE.exec(reference);
  if (match === null)
    throw new ServingError("invalid-argument", `${field}: must be npm:PACKAGE/path/in/package; was ${reference}`);
  const [, name, rest] = match;
  const starts = [path.dirname(fileURLToPath(import.meta.url)), path.resolve(repository)];
  for (const start of starts) {
    for (let at = start; ; at = path.dirname(at)) {
      const root = path.join(at, "node_modules", name!);
      if (existsSync(root)) return inside(root, path.resolve(root, rest!), reference, field);
      if (path.dirname(at) === at) break;
    }
  }
  throw new ServingError("invalid-argument", `${field}: package ${name} is not installed; was ${reference}`);
}

function inside(root: string, file: string, reference: string, field: string): string {
  const relative = path.relative(path.resolve(root), file);
  if (relative.startsWith("..") || path.isAbsolute(relative))
    throw new ServingError("invalid-argument", `${field}: must stay inside ${path.resolve(root)}; was ${reference}`);
  return file;
}
