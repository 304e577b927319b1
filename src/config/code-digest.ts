import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

const ROOT = path.resolve(import.meta.dirname, "..");

/** Of all code that this process may run: what it measured says nothing of other code. */
export function codeDigest(): string {
  const files = readdirSync(ROOT, { recursive: true, encoding: "utf8" }).filter((file) =>
    /(?<!\.d)\.[jt]s$/.test(file),
  );
  const hash = createHash("sha256");
  for (const file of files.sort())
    hash
      .update(file)
      .update("\0")
      .update(readFileSync(path.join(ROOT, file)))
      .update("\0");
  return hash.digest("hex").slice(0, 12);
}
