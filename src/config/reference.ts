/**
 * The configuration reference, made from the schemas: docs/configuration.md and docs/schemas/*.json; and
 * docs/config-pbtxt.md, from the table of Triton's fields.
 *
 * `node scripts/gen-docs.mjs` writes what this returns; a test fails when the committed files differ.
 */
import { z } from "zod";
import { POLICY_NAMES } from "../policies/registry.js";
import { policyOptionSchemas } from "./policy-options.js";
import { planFileSchema } from "./scenario/plan-file.js";
import { scenarioSchema } from "./scenario/scenario-schema.js";
import { modelFileSchema } from "./server/model-file.js";
import { pipelineFileSchema } from "./server/pipelines/pipeline-file.js";
import { serverConfigSchema } from "./server/server-schema.js";
import { renderTritonFields } from "./server/triton-fields.js";
import { type JsonSchema, RESERVED_KEYS } from "./validate.js";

interface PublishedSchema {
  /** Name of the file under docs/schemas, without `.schema.json`. */
  readonly id: string;
  readonly title: string;
  /** Paragraphs before the tables. */
  readonly intro: string;
  readonly schema: z.ZodType;
}

/** Every file format with a schema, in the order of the reference. A new format is a new row. */
const PUBLISHED: readonly PublishedSchema[] = [
  {
    id: "scenario",
    title: "Scenario",
    intro:
      "Read by `rubato simulate`, `rubato goodput`, `rubato plan` and `rubato check`; ready ones are in `scenarios/`. Requests that " +
      "arrive in [warmup_s, duration_s) are counted, then the run drains. Rates come from exactly one place: a total " +
      "(`arrivals.rate_rps`, `arrivals.steps` or a trace) split by `models[].share`, else by `popularity`; or " +
      "`models[].rate_rps`; or the requests of a replay.\n\n" +
      "Data files are named by relative paths without `..`. They are looked for beside the scenario, then in the data " +
      "folder: `--data-dir`, else the environment variable `RUBATO_DATA`, else none.\n\n" +
      `Keys kept for later versions and refused by this one: ${[...RESERVED_KEYS].map((key) => `\`${key}\``).join(", ")}.`,
    schema: scenarioSchema,
  },
  ...POLICY_NAMES.map((policy) => ({
    id: `policy-options-${policy}`,
    title: `Policy options: ${policy}`,
    intro: `\`policy_options\` of a scenario and of a model with \`policy: ${policy}\`; \`--option KEY=VALUE\` on the command line.`,
    schema: policyOptionSchemas[policy]!,
  })),
  {
    id: "server",
    title: "Server configuration",
    intro:
      "`rubato serve --config FILE`, usually `rubato.config.yaml`. Nothing in it is required, nor is the file. Flags of " +
      "the command override it.",
    schema: serverConfigSchema,
  },
  {
    id: "model",
    title: "Model",
    intro:
      "`rubato.yaml` in a model's folder. Nothing in it is required; `slo_ms` is the promise. What the model file and " +
      "`config.pbtxt` say is not asked for again. [serving.md](serving.md) explains inputs and outputs by example.",
    schema: modelFileSchema,
  },
  {
    id: "pipeline",
    title: "Pipeline",
    intro:
      "`pipeline.yaml` (or `pipeline.json`) in a folder of the model repository, beside the files of its steps. " +
      "[pipelines.md](pipelines.md) explains it by example.",
    schema: pipelineFileSchema,
  },
  {
    id: "plan",
    title: "Plan",
    intro:
      "Read by `rubato plan --current FILE`: the output of an earlier `rubato plan --json`, of which the keys below are " +
      "read, or a file of your own. Models that the scenario no longer has are passed over; models that the file does " +
      "not name are nowhere yet.",
    schema: planFileSchema,
  },
];

const HEAD = `<!-- Made by scripts/gen-docs.mjs from the schemas in src/config. Change those, then run it. -->

# Configuration reference

Files are YAML, or JSON when their name ends in \`.json\`. Unknown keys are errors, and every error names the file, the
line, the field, the bound and the value. \`rubato check FILE\` validates without running anything. JSON Schemas for
editors are in [schemas/](schemas/).
`;

/** Path under `docs/` -> text, of every generated file. */
export function renderReference(): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  const sections: string[] = [HEAD];
  for (const { id, title, intro, schema } of PUBLISHED) {
    const json = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
    files.set(
      `schemas/${id}.schema.json`,
      `${JSON.stringify({ title: `rubato ${title.toLowerCase()}`, ...json }, null, 2)}\n`,
    );
    sections.push(`## ${title}\n`);
    if (json.description) sections.push(`${json.description}\n`);
    sections.push(`${intro}\n`);
    sections.push(...renderObjects(json));
  }
  files.set("config-pbtxt.md", renderTritonFields());
  files.set("configuration.md", `${sections.join("\n").trimEnd()}\n`);
  return files;
}

interface NamedObject {
  readonly path: string;
  readonly schema: JsonSchema;
}

/** A table for the object and for every object inside it, in the order they are met. */
function renderObjects(root: JsonSchema): string[] {
  const out: string[] = [];
  const queue: NamedObject[] = [{ path: "", schema: root }];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const { path, schema } = next;
    if (path !== "") {
      out.push(`### \`${path}\`\n`);
      if (schema.description) out.push(`${schema.description}\n`);
    }
    out.push("| key | type | default | bound | meaning |\n|---|---|---|---|---|");
    const inner: NamedObject[] = [];
    for (const [key, property] of Object.entries(schema.properties ?? {})) {
      const child = property as JsonSchema;
      const required = schema.required?.includes(key) ?? false;
      const cells = [`\`${key}\``, typeOf(child), defaultOf(child, required), boundOf(child), child.description ?? ""];
      out.push(`| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`);
      inner.push(...objectsIn(child, path === "" ? key : `${path}.${key}`));
    }
    out.push("");
    queue.unshift(...inner);
  }
  return out;
}

function objectsIn(schema: JsonSchema, path: string): NamedObject[] {
  if (schema.anyOf) return schema.anyOf.flatMap((branch) => objectsIn(branch as JsonSchema, path));
  if (schema.type === "array") return objectsIn((schema.items ?? {}) as JsonSchema, `${path}[]`);
  if (schema.properties) return [{ path, schema }];
  if (typeof schema.additionalProperties === "object") {
    return objectsIn(schema.additionalProperties as JsonSchema, `${path}.NAME`);
  }
  return [];
}

function typeOf(schema: JsonSchema): string {
  if (schema.anyOf) return schema.anyOf.map((branch) => typeOf(branch as JsonSchema)).join(" or ");
  if (schema.const !== undefined) return `\`${schema.const}\``;
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(", ");
  switch (schema.type) {
    case "integer":
      return "whole number";
    case "string":
      return schema.format === "uri" ? "URL" : "text";
    case "boolean":
      return "true, false";
    case "array":
      return `list of ${typeOf((schema.items ?? {}) as JsonSchema)}`;
    case "object":
      return "mapping";
    default:
      return schema.type === undefined ? "any" : String(schema.type);
  }
}

function defaultOf(schema: JsonSchema, required: boolean): string {
  if (schema.default === undefined) return required ? "required" : "–";
  const text = JSON.stringify(schema.default);
  return text === "{}" && schema.properties ? "see below" : `\`${text}\``;
}

function boundOf(schema: JsonSchema): string {
  if (schema.anyOf) {
    const bounds = schema.anyOf.map((branch) => boundOf(branch as JsonSchema)).filter((bound) => bound !== "");
    return [...new Set(bounds)].join("; ");
  }
  const parts: string[] = [];
  if (schema.minimum !== undefined) parts.push(`≥ ${plain(schema.minimum)}`);
  if (schema.exclusiveMinimum !== undefined) parts.push(`> ${plain(schema.exclusiveMinimum)}`);
  if (schema.maximum !== undefined) parts.push(`≤ ${plain(schema.maximum)}`);
  if (schema.maxLength !== undefined) parts.push(`≤ ${schema.maxLength} characters`);
  if (schema.minItems !== undefined) parts.push(`≥ ${schema.minItems} entries`);
  if (schema.maxItems !== undefined) parts.push(`≤ ${plain(schema.maxItems)} entries`);
  if (schema.type === "array") {
    const inner = boundOf((schema.items ?? {}) as JsonSchema);
    if (inner !== "") parts.push(`each ${inner}`);
  }
  return parts.join(", ");
}

/** Digits in groups of three: 4,294,967,295. */
function plain(value: number | boolean): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}
