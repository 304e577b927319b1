/** A model repository before it is served: what loading would say of each model, and what was understood. */
import { existsSync } from "node:fs";
import path from "node:path";
import { ConfigError, type ConfigIssue } from "../config/config-error.js";
import type { ModelSpec, TensorSpec } from "../config/model.js";
import type { PipelineSpec, ServedModule } from "../config/server/pipelines/served-pipeline.js";
import type { ServerConfig } from "../config/server/server.js";
import { hostLimits, sloProblem } from "../serve/models/host-limits.js";
import { checkRepository, type Repository, readRepository, servedBy } from "../serve/repository/repository.js";
import { ServingError } from "../wire/serving-error.js";
import { positionWarnings, stepProblems } from "./pipeline-check.js";
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

/** Of one pipeline of a repository, with the models that it runs. @throws as `checkModels`. */
export function checkPipeline(folder: string, name: string, server: ServerConfig | null): CheckedRepository {
  const { pipelines, errors } = repositoryOf(folder, server);
  return checked(folder, {
    models: [],
    pipelines: pipelines.filter(({ client }) => client.name === name),
    errors: errors.filter((error) => error.name === name),
    strays: [],
  });
}

export interface CheckedRepository {
  readonly models: readonly ModelWords[];
  readonly pipelines: readonly PipelineWords[];
  /** What is asked for and not done, a sentence each. */
  readonly warnings: readonly string[];
  readonly problems: readonly LocatedIssue[];
}

/** @property file that it is in, where that is known. */
export type LocatedIssue = ConfigIssue & { readonly file?: string };

/**
 * @param server whose groups and scheduler are to serve it; null: only the files are looked at.
 * @throws ConfigError: it is no repository.
 */
export function checkModels(folder: string, server: ServerConfig | null): CheckedRepository {
  return checked(folder, repositoryOf(folder, server));
}

function checked(folder: string, { models, pipelines, errors, strays }: Read): CheckedRepository {
  return {
    models: models.map(wordsOf),
    pipelines: pipelines.map(pipelineWordsOf),
    warnings: [
      ...strays,
      ...new Set(models.flatMap((spec) => [...(spec.warnings ?? []), ...tooTight(spec)])),
      ...pipelines.flatMap(positionWarnings),
    ],
    problems: [
      ...errors.flatMap(({ name, message }) => message.split("\n").map((line) => located(folder, name, line))),
      ...pipelines.flatMap(stepProblems),
    ],
  };
}

/** Where a line of the message begins with a file of the repository, that file, so that it can be gone to. */
function located(folder: string, name: string, text: string): LocatedIssue {
  const [, file, line, message] = /^(\S+\.(?:yaml|json|pbtxt))(?::(\d+))?: (.*)$/.exec(text) ?? [];
  if (file === undefined || message === undefined || !existsSync(path.join(folder, file)))
    return { line: null, field: name, message: text };
  return { file: path.join(folder, file), line: line === undefined ? null : Number(line), field: "", message };
}

type Read = Repository & { readonly strays: readonly string[] };

function repositoryOf(folder: string, server: ServerConfig | null): Read {
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

/** What a module does beside running a model: `step`, `fan-out`, `join`, `soft`, and where it branches to. */
function titleOf({ name, step, fansOut, joins, isSoft, branches, subs }: ServedModule, nameOf: NameOf): string {
  const marks = [
    ...(step === null ? [] : ["step"]),
    ...(fansOut === true ? ["fan-out"] : []),
    ...(joins === true ? ["join"] : []),
    ...(isSoft === true ? ["soft"] : []),
    ...(branches === true ? [`branch: ${subs.map(nameOf).join(" | ")}`] : []),
  ];
  return marks.length === 0 ? name : `${name} (${marks.join(", ")})`;
}

type NameOf = (id: number) => string;

function pipelineWordsOf({ client, modules, budget }: PipelineSpec): PipelineWords {
  const nameOf: NameOf = (id) => modules.find((module) => module.id === id)!.name;
  const tensors = (specs: readonly TensorSpec[]): string =>
    specs.map(({ name, datatype, shape }) => `${name} ${datatype} [${shape}]`).join(", ");
  return {
    pipeline: client.name,
    modules: modules
      .map((module) => {
        const title = titleOf(module, nameOf);
        return module.pres.length === 0 ? title : `${module.pres.map(nameOf).join(" + ")} -> ${title}`;
      })
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
