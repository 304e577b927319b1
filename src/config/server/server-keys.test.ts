import { expect, test } from "vitest";
import { z } from "zod";
import { parseSource } from "../source.js";
import { serverConfigFrom } from "./server.js";
import { serverConfigSchema } from "./server-schema.js";

type Json = z.core.JSONSchema.BaseSchema;
const machine = { cpus: 8, folder: "/srv/project" };
const read = (value: unknown) =>
  serverConfigFrom(parseSource(JSON.stringify(value), "rubato.config.json"), "/srv/project", machine, {});

const TWO_GROUPS = { a: { kind: "emulated" }, b: { kind: "emulated" } };
/** What a key needs beside it, by its path or the first part of it. */
const BESIDE: Readonly<Record<string, object>> = {
  placement: { groups: TWO_GROUPS, placement: { groups: ["a", "b"] } },
  "placement.rate_rps_max": { groups: TWO_GROUPS, placement: { groups: ["a", "b"], load: "requests" } },
  tracing: { tracing: { otlp_endpoint: "http://127.0.0.1:4318" } },
  event_log: { event_log: { file: "e.log" } },
};
/** Of keys whose values are no plain type. */
const VALUES: Readonly<Record<string, unknown>> = {
  "http.port": 9000,
  cpu_threads: 3,
  "log.pretty": true,
  "tracing.otlp_endpoint": "https://traces.example:4318",
};

/** Keys of the schema that hold one value, with a value that is valid and not the default. */
function* leaves(schema: Json, at: readonly string[]): Generator<[string[], unknown]> {
  const of = schema.anyOf?.find((each) => (each as Json).type !== "null") as Json | undefined;
  const it = { ...schema, ...of };
  if (it.properties !== undefined) {
    for (const [key, child] of Object.entries(it.properties)) yield* leaves(child as Json, [...at, key]);
    return;
  }
  const value = VALUES[at.join(".")] ?? otherValue(it);
  if (value !== undefined) yield [[...at], value];
}

function otherValue({ type, default: given, minimum, exclusiveMinimum, maximum, enum: values }: Json): unknown {
  if (values !== undefined) return values.find((value) => value !== given);
  if (type === "boolean") return !(given ?? false);
  if (type === "string") return given === undefined ? "other" : `${given}x`;
  if (type !== "integer" && type !== "number") return undefined;
  if (type === "number" && typeof given === "number") return given === 0 ? 0.5 : given / 2;
  if (typeof given === "number") return given + 1 <= (maximum ?? Number.POSITIVE_INFINITY) ? given + 1 : given - 1;
  return Math.max(minimum ?? 0, Number(exclusiveMinimum ?? -1) + 1, 1);
}

const json = z.toJSONSchema(serverConfigSchema, { io: "input", unrepresentable: "any" }) as Json;
const KEYS = [...leaves(json, [])].map(([path, value]) => ({ key: path.join("."), path, value }));
test.each(KEYS)("server configuration: $key is read", ({ key: name, path, value }) => {
  const beside = BESIDE[name] ?? BESIDE[path[0]!] ?? {};
  const given = structuredClone(beside) as Record<string, unknown>;
  let at = given;
  for (const key of path.slice(0, -1)) {
    at[key] ??= {};
    at = at[key] as Record<string, unknown>;
  }
  at[path.at(-1)!] = value;
  expect(read(given)).not.toEqual(read(beside));
});

test("server configuration: every key of the schema but lists and mappings of names is tried above", () => {
  const parts = new Set(KEYS.map(({ path }) => path[0]!));
  const untried = Object.keys(serverConfigSchema.shape).filter((key) => !parts.has(key));
  expect(untried).toEqual(["groups"]);
});
