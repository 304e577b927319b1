import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * The file that a thread is started from. Threads run JavaScript: from sources (tests) the build of it is taken.
 * @param from `import.meta.url` of the module beside it. @param name such as "./timer-thread.js".
 */
export function threadFile(from: string, name: string): URL {
  const beside = new URL(name, from);
  if (existsSync(fileURLToPath(beside))) return beside;
  return new URL(beside.href.replace(/\/src\/(?!.*\/src\/)/, "/dist/"));
}
