import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

export interface TemporaryFolder {
  readonly folder: string;
  remove(): void;
}

/** Of a benchmark that breaks, or is ended. */
const left = new Set<string>();
process.once("exit", () => {
  for (const folder of left) rmSync(folder, { recursive: true, force: true });
});

export function temporaryFolder(name: string): TemporaryFolder {
  const folder = mkdtempSync(path.join(tmpdir(), `rubato-${name}-`));
  left.add(folder);
  const remove = () => {
    rmSync(folder, { recursive: true, force: true });
    left.delete(folder);
  };
  return { folder, remove };
}
