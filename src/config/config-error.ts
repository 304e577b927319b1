/**
 * What is wrong with a file or an argument, said so that its author can mend it: file, line, field, bound, value.
 *
 * One class for everything a person wrote (scenarios, configurations, traces, options); the command line ends with
 * exit code 2 on it. It is thrown before anything runs, and lists every problem found, not only the first.
 */
export type FieldPath = readonly (string | number)[];

export interface ConfigIssue {
  /** 1-based line of `file`; null where there is none (command line, a missing file). */
  readonly line: number | null;
  /** As people write it: `models[0].profile.alpha_ms`; "" = the whole document. */
  readonly field: string;
  /** What it must be, and what it was. */
  readonly message: string;
}

/** More than this many problems in one file say nothing new. */
const ISSUES_SHOWN_MAX = 20;

export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly exitCode = 2;
  readonly file: string;
  readonly issues: readonly ConfigIssue[];

  constructor(file: string, issues: readonly ConfigIssue[]) {
    const shown = issues.slice(0, ISSUES_SHOWN_MAX).map((issue) => formatIssue(file, issue));
    const hidden = issues.length - shown.length;
    if (hidden > 0) shown.push(`${file}: and ${hidden} more`);
    super(shown.join("\n"));
    this.file = file;
    this.issues = issues;
  }
}

export function formatIssue(file: string, issue: ConfigIssue): string {
  const where = issue.line === null ? file : `${file}:${issue.line}`;
  return issue.field === "" ? `${where}: ${issue.message}` : `${where}: ${issue.field}: ${issue.message}`;
}

/** `["models", 0, "slo_ms"]` -> `models[0].slo_ms`. Keys that are no plain words are quoted. */
export function formatPath(path: FieldPath): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (/^[\w-]+$/.test(step)) text += text === "" ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text;
}

/** A value as an error shows it: JSON, cut to a length that keeps the line readable. */
export function formatValue(value: unknown): string {
  if (value === undefined) return "missing";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (Array.isArray(value) && value.length > 8) return `a list of ${value.length}`;
  const text = JSON.stringify(value) ?? typeof value;
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}

/**
 * The nearest of `known` to a misspelt word: at most a third of its letters differ, or a part is missing or too much
 * at the end (`alpha` for `alpha_ms`). Null when none is near.
 */
export function nearest(word: string, known: Iterable<string>): string | null {
  let best: string | null = null;
  let bestEdits = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    const edits = editDistance(word.toLowerCase(), candidate.toLowerCase());
    // Nothing in common is no resemblance, however short the words.
    if (edits < bestEdits && edits < Math.max(word.length, candidate.length)) {
      best = candidate;
      bestEdits = edits;
    }
  }
  if (best !== null || word.length < 3) return best;
  for (const candidate of known) if (candidate.startsWith(word) || word.startsWith(`${candidate}_`)) return candidate;
  return null;
}

/** Levenshtein distance, where swapping two neighbours is one edit (optimal string alignment). */
function editDistance(a: string, b: string): number {
  if (Math.max(a.length, b.length) > 64) return Number.POSITIVE_INFINITY;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let edits = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        edits = Math.min(edits, beforeLast[j - 2]! + 1);
      }
      row.push(edits);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}
