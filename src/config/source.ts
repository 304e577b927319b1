/** A YAML or JSON text as plain values, with the line of every field, so that an error can point at it. */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { isMap, isPair, LineCounter, type Node, parseDocument } from "yaml";
import { ConfigError, type ConfigIssue, type FieldPath, formatPath } from "./config-error.js";
import { boundsProblem, DEEP, DEPTH_MAX, type TextBounds } from "./text-bounds.js";

/** A configuration is written by people; anything larger is the wrong file. */
export const CONFIG_BYTES_MAX = 8 * 1024 * 1024;
/** Aliases may be expanded this many times in all: enough for shared profiles, too few for an alias bomb. */
const ALIASES_MAX = 1000;

export interface Source {
  /** As the user named it; shown in errors. */
  readonly file: string;
  readonly value: unknown;
  /** Line of the field, or of the nearest parent that is in the text; null if the text has no lines to point at. */
  lineOf(path: FieldPath): number | null;
  /** Line of a key itself (an unknown key has no field). */
  lineOfKey(path: FieldPath, key: string): number | null;
}

/** @throws ConfigError if the file cannot be read, is too large, or is not the YAML or JSON its name promises. */
export function readSource(file: string): Source {
  return parseSource(readText(file, CONFIG_BYTES_MAX), file);
}

/** Reads a UTF-8 file of at most `bytesMax` bytes. @throws ConfigError */
export function readText(file: string, bytesMax: number): string {
  let bytes: Buffer;
  try {
    const stat = statSync(file);
    if (stat.isDirectory()) throw refusal(file, "must be a file; is a folder");
    if (stat.size > bytesMax) throw refusal(file, `must be at most ${bytesMax} bytes; has ${stat.size}`);
    bytes = readAtMost(file, bytesMax + 1);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const code = (error as NodeJS.ErrnoException).code ?? "unknown error";
    throw refusal(file, code === "ENOENT" ? "no such file" : `cannot be read (${code})`);
  }
  if (bytes.length > bytesMax) throw refusal(file, `must be at most ${bytesMax} bytes; has more`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw refusal(file, "must be UTF-8 text");
  }
}

/** A device or a pipe has no size, and may have no end. */
function readAtMost(file: string, bytesMax: number): Buffer {
  const chunks: Buffer[] = [];
  const descriptor = openSync(file, "r");
  try {
    for (let left = bytesMax; left > 0; ) {
      const chunk = Buffer.allocUnsafe(Math.min(left, 65_536));
      const count = readSync(descriptor, chunk, 0, chunk.length, null);
      if (count === 0) break;
      chunks.push(chunk.subarray(0, count));
      left -= count;
    }
  } finally {
    closeSync(descriptor);
  }
  return Buffer.concat(chunks);
}

/** Parses YAML, or JSON when the name ends in `.json`. @throws ConfigError with the line of the syntax error. */
export function parseSource(text: string, file: string, bounds: TextBounds | null = null): Source {
  const problem = boundsProblem(text, bounds);
  if (problem !== null) throw refusal(file, problem);
  if (file.endsWith(".json")) refuseYamlInJson(text, file);
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true, strict: true });
  // After the first error of syntax the parser guesses, and so would its reader.
  const errors = document.errors.filter(({ code }, index) => index === 0 || code === "DUPLICATE_KEY");
  const issues: ConfigIssue[] = errors.map((error) => ({
    line: lines.linePos(error.pos[0]).line,
    field: "",
    message: error.message,
  }));
  if (issues.length > 0) throw new ConfigError(file, issues);

  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: ALIASES_MAX });
  } catch (error) {
    throw refusal(file, (error as Error).message);
  }

  const lineAt = (offset: number | undefined) => (offset === undefined ? null : lines.linePos(offset).line);
  const lineOf = (path: FieldPath): number | null => {
    for (let length = path.length; length > 0; length--) {
      const node = document.getIn(path.slice(0, length), true) as Node | undefined;
      if (node?.range) return lineAt(node.range[0]);
    }
    return null;
  };
  const lineOfKey = (path: FieldPath, key: string): number | null => {
    const parent = path.length === 0 ? document.contents : document.getIn(path, true);
    if (isMap(parent)) {
      for (const pair of parent.items) {
        const node = isPair(pair) ? (pair.key as Node & { value?: unknown }) : null;
        if (node && String(node.value) === key) return lineAt(node.range?.[0]);
      }
    }
    return lineOf(path);
  };
  const source = { file, value, lineOf, lineOfKey };
  refuseForbidden(source);
  return source;
}

/** A source without text: values that came from a program or from the command line. */
export function sourceOf(value: unknown, file: string): Source {
  return { file, value, lineOf: () => null, lineOfKey: () => null };
}

/** Collects the problems of one source and throws them together. */
export class IssueList {
  readonly source: Source;
  readonly issues: ConfigIssue[] = [];
  constructor(source: Source) {
    this.source = source;
  }
  add(path: FieldPath, message: string): void {
    this.issues.push({ line: this.source.lineOf(path), field: formatPath(path), message });
  }
  addKey(path: FieldPath, key: string, message: string): void {
    this.issues.push({ line: this.source.lineOfKey(path, key), field: formatPath([...path, key]), message });
  }
  throwIfAny(): void {
    if (this.issues.length === 0) return;
    const inOrder = [...this.issues].sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
    throw new ConfigError(this.source.file, inOrder);
  }
}

function refusal(file: string, message: string): ConfigError {
  return new ConfigError(file, [{ line: null, field: "", message }]);
}

function refuseYamlInJson(text: string, file: string): void {
  try {
    JSON.parse(text);
  } catch (error) {
    const message = (error as Error).message;
    const position = /position (\d+)/.exec(message);
    const line = position ? text.slice(0, Number(position[1])).split("\n").length : null;
    throw new ConfigError(file, [{ line, field: "", message: `must be JSON: ${message}` }]);
  }
}

/** Depth that aliases hide, and a key that readers of plain objects would not see. */
function refuseForbidden(source: Source): void {
  const issues = new IssueList(source);
  const walk = (inner: object, path: FieldPath): void => {
    if (path.length >= DEPTH_MAX) throw refusal(source.file, DEEP);
    if (Object.hasOwn(inner, "__proto__")) issues.addKey(path, "__proto__", "unknown key: no name may be __proto__");
    for (const key of Object.keys(inner)) {
      const child = (inner as Readonly<Record<string, unknown>>)[key];
      if (child !== null && typeof child === "object") walk(child, [...path, Array.isArray(inner) ? Number(key) : key]);
    }
  };
  if (source.value !== null && typeof source.value === "object") walk(source.value, []);
  issues.throwIfAny();
}
