/**
 * Which kind of input a file is, by its content, and how each kind is validated.
 *
 * The table is the one place to add a kind: a row says how it is recognised and what validating it tells.
 */
import { availableParallelism } from "node:os";
import path from "node:path";
import { ConfigError, type ConfigIssue } from "../config/config-error.js";
import type { ExpandedScenario } from "../config/scenario/expand-scenario.js";
import { groupsOf, loadScenarioFrom, scenarioSchema, totalRate } from "../config/scenario/scenario.js";
import { MODEL_FILE_BYTES_MAX, ModelFileError, modelFileSchema, parseModelFile } from "../config/server/model-file.js";
import { parsePipelineFile, pipelineFileSchema } from "../config/server/pipelines/pipeline-file.js";
import { type PlacementConfig, serverConfigFrom, serverConfigSchema } from "../config/server/server.js";
import { readText, type Source } from "../config/source.js";
import { rightName } from "../serve/repository/model-reader.js";
import { formatNumber } from "./table.js";

export interface CheckSettings {
  readonly dataDir: string | null;
}

/** A kind of file. `check` throws ConfigError or returns one line about what the file describes. */
export interface FileKind {
  readonly name: string;
  /** Top-level keys; the kind that knows most of a file's keys is the file's kind. */
  readonly keys: readonly string[];
  check(source: Source, settings: CheckSettings): string;
}

export const SERVER_KIND = "server configuration";
export const PIPELINE_KIND = "pipeline";

export const FILE_KINDS: readonly FileKind[] = [
  {
    name: "scenario",
    keys: Object.keys(scenarioSchema.shape),
    check: (source, { dataDir }) => describeScenario(loadScenarioFrom(source, { dataDir })),
  },
  {
    name: SERVER_KIND,
    keys: Object.keys(serverConfigSchema.shape),
    check: (source) => {
      const folder = path.resolve(path.dirname(source.file));
      const config = serverConfigFrom(source, folder, { cpus: availableParallelism(), folder: process.cwd() });
      const groups = config.groups.map(({ name, kind, count }) => `${name} (${count} ${kind})`).join(", ");
      const grpc = config.grpc === null ? "no gRPC" : `gRPC ${config.grpc.host}:${config.grpc.port}`;
      return `HTTP ${config.http.host}:${config.http.port}, ${grpc}, groups ${groups}${describePlacement(config.placement)}`;
    },
  },
  {
    name: "model configuration",
    keys: Object.keys(modelFileSchema.shape),
    check: ({ file }) => {
      const right = rightName(path.basename(file));
      if (right !== null)
        throw new ConfigError(file, [{ line: null, field: "", message: `must be named ${right}; it is not read` }]);
      const model = fileFrom(file, parseModelFile);
      const slo = model.slo_ms === undefined ? "no SLO" : `SLO ${formatNumber(model.slo_ms)} ms`;
      return `${slo}, ${model.group === undefined ? "default group" : `group ${model.group}`}`;
    },
  },
  {
    name: PIPELINE_KIND,
    keys: Object.keys(pipelineFileSchema.shape),
    check: ({ file }) => {
      const { slo_ms, modules, budget } = fileFrom(file, parsePipelineFile).file;
      const rule =
        budget === undefined ? "by the policies of its models" : typeof budget === "string" ? budget : budget.rule;
      return `SLO ${formatNumber(slo_ms)} ms, ${plural(modules.length, "module")}, budget ${rule}`;
    },
  },
];

/** The kind of a file by its top-level keys; null if no kind knows two of them, or half. */
export function fileKindOf(source: Source): FileKind | null {
  const keys = keysOf(source);
  let best: FileKind | null = null;
  let bestCount = 0;
  for (const kind of FILE_KINDS) {
    const count = keys.filter((key) => kind.keys.includes(key)).length;
    if (count > bestCount) {
      best = kind;
      bestCount = count;
    }
  }
  return bestCount >= 2 || bestCount * 2 >= keys.length ? best : null;
}

/** What to say of a file of no known kind. */
export function unknownKind(source: Source): ConfigError {
  const keys = keysOf(source);
  const kinds = FILE_KINDS.map((kind) => `a ${kind.name} (${kind.keys.slice(0, 6).join(", ")}, ...)`);
  const found =
    keys.length === 0 ? "no keys" : `keys ${keys.slice(0, 10).join(", ")}${keys.length > 10 ? ", ..." : ""}`;
  return new ConfigError(source.file, [
    { line: null, field: "", message: `must be ${kinds.join(" or ")}; has ${found}` },
  ]);
}

function keysOf({ value }: Source): string[] {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? Object.keys(value) : [];
}

/** Its reader has an error of its own, with the file's name in each problem. @throws ConfigError */
function fileFrom<T>(file: string, parse: (text: string, file: string) => T): T {
  try {
    return parse(readText(file, MODEL_FILE_BYTES_MAX), file);
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    throw new ConfigError(
      file,
      error.problems.map((problem) => issueOf(problem, file)),
    );
  }
}

function issueOf(problem: string, file: string): ConfigIssue {
  const rest = problem.startsWith(`${file}:`) ? /^(?::(\d+))?: (.*)$/s.exec(problem.slice(file.length)) : null;
  if (rest === null) return { line: null, field: "", message: problem };
  return { line: rest[1] === undefined ? null : Number(rest[1]), field: "", message: rest[2]! };
}

function describePlacement(placement: PlacementConfig | null): string {
  if (placement === null) return "";
  const { groups, epochUs, movesMax } = placement;
  return `, models placed on ${groups.join(", ")} every ${formatNumber(epochUs / 1e6)} s with at most ${plural(movesMax, "move")}`;
}

export function plural(count: number, noun: string): string {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function describeScenario(scenario: ExpandedScenario): string {
  const { accelerators, durationUs, groups = [], models, pipelines = [] } = scenario;
  const policies = new Set(groupsOf(scenario).map(({ policy }) => policy));
  return [
    plural(models.length, "model"),
    ...(pipelines.length === 0 ? [] : [plural(pipelines.length, "pipeline")]),
    `${plural(accelerators.length, "accelerator")}${groups.length > 1 ? ` in ${groups.length} groups` : ""}`,
    `${formatNumber(totalRate(scenario))} requests/s for ${formatNumber(durationUs / 1e6)} s`,
    ...policies,
  ].join(", ");
}
