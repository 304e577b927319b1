/** What a step's file imports and Node would not find: it looks for packages from the file's folder upwards. */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { isBuiltin } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** Static imports, each at the beginning of a line; those that a run decides are not looked at. */
const IMPORT = /^\s*(?:import|export)\b(?:[^'"`;()]*?\bfrom)?\s*["']([^"']+)["']/gm;

/** @returns specifiers as they are written. Nothing of the file is run. */
export function missingImports(file: string): string[] {
  const real = realpathSync(file);
  const written = [...readFileSync(real, "utf8").matchAll(IMPORT)].map((match) => match[1]!);
  return [...new Set(written)].filter((specifier) => !isThere(specifier, path.dirname(real)));
}

function isThere(specifier: string, folder: string): boolean {
  if (specifier.startsWith("file:")) return existsSync(fileURLToPath(specifier));
  if (specifier.startsWith(".") || specifier.startsWith("/")) return existsSync(path.resolve(folder, specifier));
  // `#name` is the package's own business, as are other schemes.
  if (isBuiltin(specifier) || specifier.startsWith("#") || specifier.includes(":")) return true;
  const [scope, name] = specifier.split("/") as [string, string | undefined];
  return isInstalled(scope.startsWith("@") && name !== undefined ? `${scope}/${name}` : scope, folder);
}

function isInstalled(name: string, folder: string): boolean {
  for (let at = folder; ; at = path.dirname(at)) {
    if (existsSync(path.join(at, "node_modules", name))) return true;
    if (at === path.dirname(at)) return false;
  }
}
