/** Holds a value against a schema and says what is wrong in the reader's words: field, bound, value, nearest key. */
import { z } from "zod";
import { type FieldPath, formatValue, nearest } from "./config-error.js";
import { IssueList, type Source, sourceOf } from "./source.js";

type ZodIssue = z.core.$ZodIssue;
export type JsonSchema = z.core.JSONSchema.BaseSchema;

/** Keys of the published format that this version does not implement: refused, never silently ignored. */
export const RESERVED_KEYS: ReadonlySet<string> = new Set(["by_app", "load_ms", "pipeline", "priority"]);

/** @throws ConfigError listing every violation. Returns the value with defaults filled in. */
export function validate<S extends z.ZodType>(schema: S, source: Source): z.output<S> {
  const issues = new IssueList(source);
  const value = validateAt(schema, source.value, [], issues);
  issues.throwIfAny();
  return value as z.output<S>;
}

/** The same for a value at `base` inside a source; violations go to `issues`, and null comes back. */
export function validateAt<S extends z.ZodType>(
  schema: S,
  value: unknown,
  base: FieldPath,
  issues: IssueList,
): z.output<S> | null {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const translator = new Translator(schema, value, base, issues);
  for (const issue of result.error.issues) translator.translate(issue, []);
  return null;
}

/** Validates a value that has no file (options of the command line). @throws ConfigError naming `origin`. */
export function validateValue<S extends z.ZodType>(schema: S, value: unknown, origin: string): z.output<S> {
  return validate(schema, sourceOf(value, origin));
}

class Translator {
  readonly #schema: z.ZodType;
  readonly #root: unknown;
  readonly #base: FieldPath;
  readonly #issues: IssueList;
  #json: JsonSchema | null = null;

  constructor(schema: z.ZodType, root: unknown, base: FieldPath, issues: IssueList) {
    this.#schema = schema;
    this.#root = root;
    this.#base = base;
    this.#issues = issues;
  }

  translate(issue: ZodIssue, prefix: FieldPath): void {
    const path = [...prefix, ...(issue.path as (string | number)[])];
    if (issue.code === "unrecognized_keys") {
      for (const key of issue.keys) this.#unknownKey(path, key);
      return;
    }
    if (issue.code === "invalid_union") {
      const branch = bestBranch(issue.errors);
      if (branch !== null) {
        for (const inner of branch) this.translate(inner, path);
        return;
      }
    }
    const value = valueAt(this.#root, path);
    const bound = this.#bound(issue, path);
    const at = [...this.#base, ...path];
    if (value === undefined) this.#issues.add(at, `is required: ${bound}`);
    else
      this.#issues.add(
        at,
        `${bound}; was ${formatValue(value)}${suggestion(issue, value) || this.#wordOf(issue, path, value)}`,
      );
  }

  #unknownKey(path: FieldPath, key: string): void {
    const known = keysAt(this.#jsonSchema(), path);
    let message: string;
    if (RESERVED_KEYS.has(key)) message = "not supported by this version of rubato";
    else {
      const near = nearest(key, known);
      message =
        near === null ? `unknown key; known are ${[...known].join(", ")}` : `unknown key; did you mean ${near}?`;
    }
    this.#issues.addKey([...this.#base, ...path], key, message);
  }

  #bound(issue: ZodIssue, path: FieldPath): string {
    switch (issue.code) {
      case "invalid_type":
        return `must be ${typeName(this.#isWhole(path) ? "integer" : issue.expected)}`;
      case "invalid_value":
        return issue.values.length === 1
          ? `must be ${formatValue(issue.values[0])}`
          : `must be one of ${issue.values.map(String).join(", ")}`;
      case "too_small": {
        const relation = issue.inclusive === false ? "greater than" : "at least";
        return `must be ${relation} ${issue.minimum}${countedUnit(issue.origin)}`;
      }
      case "too_big": {
        const relation = issue.inclusive === false ? "less than" : "at most";
        return `must be ${relation} ${issue.maximum}${countedUnit(issue.origin)}`;
      }
      case "invalid_union": {
        const names = new Set<string>();
        for (const name of unionTypes(schemaAt(this.#jsonSchema(), path))) names.add(name);
        return `must be ${[...names].join(" or ")}`;
      }
      case "invalid_key":
        return `has a bad key: ${issue.issues[0]?.message ?? issue.message}`;
      default:
        return issue.message;
    }
  }

  /** The nearest of the words that one of several ways to write it allows. */
  #wordOf(issue: ZodIssue, path: FieldPath, value: unknown): string {
    if (issue.code !== "invalid_union" || typeof value !== "string") return "";
    const words = schemaAt(this.#jsonSchema(), path).flatMap((schema) => (schema.enum ?? []).map(String));
    const near = nearest(value, words);
    return near === null ? "" : `; did you mean ${near}?`;
  }

  /** Zod calls a whole number a number until it sees a fraction. */
  #isWhole(path: FieldPath): boolean {
    const schemas = schemaAt(this.#jsonSchema(), path);
    return schemas.length > 0 && schemas.every((schema) => schema.type === "integer");
  }

  #jsonSchema(): JsonSchema {
    this.#json ??= z.toJSONSchema(this.#schema, { io: "input", unrepresentable: "any" });
    return this.#json;
  }
}

/**
 * The branch of a union that the author most likely meant: the one whose own type matches, with the fewest
 * violations. Null if no branch accepts even the type of the value.
 */
function bestBranch(branches: readonly (readonly ZodIssue[])[]): readonly ZodIssue[] | null {
  let best: readonly ZodIssue[] | null = null;
  let bestCount = Number.POSITIVE_INFINITY;
  for (const branch of branches) {
    if (branch.some((issue) => isWrongType(issue))) continue;
    let count = 0;
    for (const issue of branch) count += issue.code === "unrecognized_keys" ? unknownCount(issue.keys, branch) : 1;
    if (count < bestCount) {
      best = branch;
      bestCount = count;
    }
  }
  return best;
}

/** A misspelt key is missing under its right name as well: one mistake of the author, not two. */
function unknownCount(keys: readonly string[], branch: readonly ZodIssue[]): number {
  const missing = branch.filter(({ path }) => path.length === 1).map(({ path }) => String(path[0]));
  return keys.filter((key) => nearest(key, missing) === null).length;
}

function isWrongType(issue: ZodIssue): boolean {
  if (issue.path.length > 0) return false;
  if (issue.code === "invalid_union") return bestBranch(issue.errors) === null;
  return issue.code === "invalid_type" || issue.code === "invalid_value";
}

function suggestion(issue: ZodIssue, value: unknown): string {
  if (issue.code !== "invalid_value" || typeof value !== "string") return "";
  const near = nearest(value, issue.values.map(String));
  return near === null ? "" : `; did you mean ${near}?`;
}

function valueAt(root: unknown, path: FieldPath): unknown {
  let value = root;
  for (const step of path) {
    if (value === null || typeof value !== "object") return undefined;
    value = (value as Record<string | number, unknown>)[step];
  }
  return value;
}

/** The schemas that apply at a path; several where a union leaves it open. */
function schemaAt(schema: JsonSchema, path: FieldPath): JsonSchema[] {
  let here: JsonSchema[] = flatten(schema);
  for (const step of path) {
    const next: JsonSchema[] = [];
    for (const each of here) {
      const child =
        typeof step === "number" ? each.items : (propertyOf(each, step) ?? (each.additionalProperties as JsonSchema));
      if (child !== undefined && typeof child === "object" && !Array.isArray(child)) next.push(...flatten(child));
    }
    here = next;
  }
  return here;
}

const propertyOf = ({ properties = {} }: JsonSchema, name: string) =>
  Object.hasOwn(properties, name) ? properties[name] : undefined;

function flatten(schema: JsonSchema): JsonSchema[] {
  return schema.anyOf ? schema.anyOf.flatMap((each) => flatten(each as JsonSchema)) : [schema];
}

function keysAt(schema: JsonSchema, path: FieldPath): Set<string> {
  const keys = new Set<string>();
  for (const each of schemaAt(schema, path)) for (const key of Object.keys(each.properties ?? {})) keys.add(key);
  return keys;
}

function unionTypes(schemas: readonly JsonSchema[]): string[] {
  return schemas.map((schema) => {
    if (schema.const !== undefined) return formatValue(schema.const);
    if (schema.enum !== undefined) return schema.enum.map(String).join(" or ");
    const keys = Object.keys(schema.properties ?? {});
    const name = typeName(String(schema.type ?? "something else"));
    return keys.length > 0 ? `a mapping of ${keys.join(", ")}` : name;
  });
}

function typeName(expected: string): string {
  switch (expected) {
    case "number":
      return "a number";
    case "int":
    case "integer":
      return "a whole number";
    case "string":
      return "a text";
    case "boolean":
      return "true or false";
    case "array":
      return "a list";
    case "object":
    case "record":
      return "a mapping";
    case "null":
      return "null";
    default:
      return expected;
  }
}

function countedUnit(origin: string): string {
  if (origin === "array" || origin === "set") return " long";
  if (origin === "string") return " characters long";
  if (origin === "object" || origin === "record") return " keys";
  return "";
}
