/** A model repository before it is served: what loading would say of each model, and what was understood. */
import path from "node:path";
import { ConfigError, type ConfigIssue } from "../config/config-error.js";
import type { ModelSpec, TensorSpec } from "../config/model.js";
import type { PipelineSpec } from "../config/server/pipelines/served-pipeline.js";
import type { ServerConfig } from "../config/server/server.js";
import { hostLimits, sloProblem } from "../serve/models/host-limits.js";
import { missingImports } from "../serve/pipelines/step-imports.js";
import { checkRepository, type Repository, readRepository, servedBy } from "../serve/repository/repository.js";
import { ServingError } from "../wire/serving-error.js";
import { formatNumber } from "./table.js";

/** One version of a model in words. */
export interface ModelWords {
  readonly model: string;
  readonly version: string;
  /** Largest batch and axis, or why not. */
  readonly batches: string;
  /** Axes whose extent may differ between requests, and what becomes of them. */
  readonly variable: string;
  readonly deadline: string;
  readonly policy: string;
  readonly group: string;
}

/** A pipeline in words. */
export interface PipelineWords {
  readonly pipeline: string;
  /** Its modules, each behind those that lead to it. */
  readonly modules: string;
  readonly inputs: string;
  readonly outputs: string;
  readonly deadline: string;
  readonly budget: string;
}

export interface CheckedRepository {
  readonly models: readonly ModelWords[];
  readonly pipelines: readonly PipelineWords[];
  /** What is asked for and not done, a sentence each. */
  readonly warnings: readonly string[];
  readonly problems: readonly ConfigIssue[];
}

/**
 * @param server whose groups and scheduler are to serve it; null: only the files are looked at.
 * @throws ConfigError: it is no repository.
 */
export function checkModels(folder: string, server: ServerConfig | null): CheckedRepository {
  const { models, pipelines, errors, strays } = repositoryOf(folder, server);
  return {
    models: models.map(wordsOf),
    pipelines: pipelines.map(pipelineWordsOf),
    warnings: [...strays, ...new Set(models.flatMap((spec) => [...(spec.warnings ?? []), ...tooTight(spec)]))],
    problems: [
      ...errors.flatMap(({ name, message }) =>
        message.split("\n").map((line) => ({ line: null, field: name, message: line })),
      ),
      ...pipelines.flatMap(importProblems),
    ],
  };
}

/** What its steps import and Node would not find when they are loaded: once for each file. */
function importProblems({ client: { name, folder }, modules }: PipelineSpec): ConfigIssue[] {
  const files = new Set(modules.flatMap(({ step }) => (step === null ? [] : step.file)));
  return [...files].flatMap((file) =>
    missingImports(path.join(folder, file)).map((specifier) => ({
      line: null,
      field: name,
      message: `step ${file} must import what is there; '${specifier}' is neither beside it nor in a node_modules from its folder upwards`,
    })),
  );
}

function repositoryOf(folder: string, server: ServerConfig | null): Repository & { strays: readonly string[] } {
  try {
    const strays = checkRepository(folder, server?.modelControl === "explicit");
    return { ...readRepository(folder, server === null ? {} : servedBy(hostLimits(server))), strays };
  } catch (error) {
    if (!(error instanceof ServingError) || error.code !== "invalid-argument") throw error;
    const message = error.message.startsWith(`${folder}: `) ? error.message.slice(folder.length + 2) : error.message;
    throw new ConfigError(folder, [{ line: null, field: "", message }]);
  }
}

/** An emulated model has its times in its file; others are measured when they are loaded. */
function tooTight(spec: ModelSpec): string[] {
  if (spec.emulated === null) return [];
  const { alphaMs, betaMs, tableMs } = spec.emulated;
  const problem = sloProblem(spec, 1000 * (tableMs?.[0] ?? alphaMs + betaMs));
  return problem === null ? [] : [`${spec.name}: ${problem}`];
}

function wordsOf(spec: ModelSpec): ModelWords {
  return {
    model: spec.name,
    version: spec.version,
    batches: batchesOf(spec),
    variable: spec.inputs.flatMap((input) => variableOf(spec, input)).join("; ") || "none",
    deadline: deadlineOf(spec),
    policy: spec.policy,
    group: spec.group,
  };
}

function pipelineWordsOf({ client, modules, budget }: PipelineSpec): PipelineWords {
  const nameOf = (id: number): string => modules.find((module) => module.id === id)!.name;
  const tensors = (specs: readonly TensorSpec[]): string =>
    specs.map(({ name, datatype, shape }) => `${name} ${datatype} [${shape}]`).join(", ");
  return {
    pipeline: client.name,
    modules: modules
      .map(({ name, pres }) => (pres.length === 0 ? name : `${pres.map(nameOf).join(" + ")} -> ${name}`))
      .join(", "),
    inputs: tensors(client.inputs),
    outputs: tensors(client.outputs),
    deadline: deadlineOf(client),
    budget: budget.rule,
  };
}

function batchesOf({ batchSizeMax, batchSizeFixed, unbatched, inputs }: ModelSpec): string {
  if (batchSizeMax === 0) return `no: ${unbatched ?? "batch_max is 0"}`;
  const axes = new Set(inputs.map(({ batchAxis }) => batchAxis));
  const [only] = axes;
  const where =
    axes.size === 1 ? `axis ${only}` : inputs.map(({ name, batchAxis }) => `${name} ${batchAxis ?? "none"}`).join(", ");
  return `${batchSizeFixed === null ? "up to" : "always"} ${batchSizeFixed ?? batchSizeMax}, ${where}`;
}

function variableOf({ batchSizeMax }: ModelSpec, { name, shape, batchAxis, variable }: TensorSpec): string[] {
  return shape.flatMap((extent, axis) => {
    if (extent !== -1 || (batchSizeMax > 0 && axis === batchAxis)) return [];
    if (variable?.axis !== axis || variable.mode === "equal") return [`${name} axis ${axis} equal`];
    return [`${name} axis ${axis} padded up to ${variable.buckets.at(-1)}`];
  });
}

function deadlineOf({ sloUs, defaultTimeoutUs, timeoutOverride }: ModelSpec): string {
  if (sloUs !== null) return `${formatNumber(sloUs / 1000)} ms (SLO)`;
  const rule =
    timeoutOverride === undefined ? "" : timeoutOverride === "never" ? ", for every request" : ", or a shorter timeout";
  return `${formatNumber(defaultTimeoutUs / 1000)} ms${rule}`;
}
