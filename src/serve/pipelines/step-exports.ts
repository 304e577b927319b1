/** What a step's file would say for itself when it is loaded, as far as that can be known without running it. */
import { spawnSync } from "node:child_process";
import { readFileSync, realpathSync } from "node:fs";
import path from "node:path";
import { nearest } from "../../config/config-error.js";

const CHECK_MS_MAX = 10_000;
const DECLARED = /\bexport\s+(?:async\s+)?(?:function\s*\*?|class|const|let|var)\s*([\w$]+)/g;
const LISTED = /\bexport\s*\{([^}]*)\}/g;
/** Names of another file, and names that a parser would tell: taken apart, or several declared together. */
const ALL = /\bexport\s*\*/;
const SEVERAL = /\bexport\s+(?:const|let|var)\s*(?:[[{]|[^;\n]*,)/;

/** Where the file cannot be parsed. */
export interface SyntaxFault {
  readonly line: number | null;
  readonly message: string;
}

/** Node parses it and does not run it. @returns null: nothing is wrong. */
export function syntaxFault(file: string): SyntaxFault | null {
  const { status, stderr } = spawnSync(process.execPath, ["--check", file], {
    encoding: "utf8",
    timeout: CHECK_MS_MAX,
    env: { PATH: process.env.PATH },
  });
  if (status === 0 || status === null) return null;
  const message = /^\w*Error: .*$/m.exec(stderr)?.[0] ?? "it cannot be parsed";
  const line = /^.*:(\d+)$/m.exec(stderr)?.[1];
  return { line: line === undefined ? null : Number(line), message };
}

/** @returns why an ES module has no such export; null: it has, or that is not known before it runs. */
export function missingExport(file: string, name: string): string | null {
  const real = realpathSync(file);
  const text = readFileSync(real, "utf8");
  const isModule = path.extname(real) === ".mjs" || /^\s*(?:import|export)\b/m.test(text);
  if (!isModule || ALL.test(text)) return null;
  if (SEVERAL.test(text) && text.split(/[^\w$]+/).includes(name)) return null;
  const listed = [...text.matchAll(LISTED)].flatMap((match) => match[1]!.split(","));
  const names = [
    ...[...text.matchAll(DECLARED)].map((match) => match[1]!),
    ...listed.map(
      (each) =>
        each
          .trim()
          .split(/\s+as\s+/)
          .at(-1)!,
    ),
    ...(/\bexport\s+default\b/.test(text) ? ["default"] : []),
  ].filter((each) => each !== "");
  if (names.includes(name)) return null;
  const near = nearest(name, names);
  const hint = near === null ? "" : `; did you mean ${near}?`;
  return `has no export '${name}'; exports ${[...new Set(names)].join(", ") || "nothing"}${hint}`;
}
