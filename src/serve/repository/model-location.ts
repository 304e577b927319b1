/**
 * Where a model's files are: `npm:PACKAGE/path`, or a path inside the repository. Nothing is executed or resolved through
 * code, and no link leads out of the repository or the package: whoever may write into a model's folder must not have
 * the server read what lies elsewhere.
 */
import { existsSync, realpathSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { ServingError } from "../../wire/serving-error.js";

const PACKAGE = /^npm:((?:@[a-z0-9._~-]+\/)?[a-z0-9._~-]+)\/(.+)$/i;

/** @throws ServingError invalid-argument naming the field and what was looked for where. */
export function resolveModelFile(reference: string, folder: string, repository: string, field: string): string {
  const found = reference.startsWith("npm:")
    ? fromPackage(reference, repository, field)
    : insideOf(repository, path.resolve(folder, reference), reference, field);
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
      if (existsSync(root)) return insideOf(root, path.resolve(root, rest!), reference, field);
      if (path.dirname(at) === at) break;
    }
  }
  throw new ServingError("invalid-argument", `${field}: package ${name} is not installed; was ${reference}`);
}

/**
 * The file, if it lies in the folder, by its name and where links lead; it need not exist.
 *
 * @throws ServingError invalid-argument `FIELD: must stay inside ROOT; was REFERENCE`.
 */
export function insideOf(root: string, file: string, reference: string, field: string): string {
  const isOutside = isOutsideOf(path.resolve(root), file) || isOutsideOf(realPath(root), realPath(file));
  if (!isOutside) return file;
  throw new ServingError(
    "invalid-argument",
    `${field}: must stay inside ${path.resolve(root)}, also where links lead; was ${reference}`,
  );
}

function isOutsideOf(root: string, file: string): boolean {
  const relative = path.relative(root, file);
  return relative === ".." || relative.startsWith(`..${path.sep}`) || path.isAbsolute(relative);
}

/** What does not exist leads nowhere. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    const parent = path.dirname(file);
    return parent === file ? file : path.join(realPath(parent), path.basename(file));
  }
}

/** A link to nowhere, or what was removed since it was listed, is none. */
export function isFolder(file: string): boolean {
  try {
    return statSync(file).isDirectory();
  } catch {
    return false;
  }
}

export function isFile(file: string): boolean {
  try {
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
