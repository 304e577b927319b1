/** `rubato check`: validates without running anything. */
import { existsSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { Command } from "commander";
import { ConfigError, type ConfigIssue } from "../../config/config-error.js";
import { dataDirOf } from "../../config/scenario/traces.js";
import { SERVER_CONFIG_NAME, type ServerConfig } from "../../config/server/server.js";
import { readSource } from "../../config/source.js";
import { PIPELINE_NAMES } from "../../serve/repository/pipeline-reader.js";
import { isModel, looksLikeRepository, modelNames } from "../../serve/repository/repository.js";
import { type CheckSettings, fileKindOf, PIPELINE_KIND, plural, SERVER_KIND, unknownKind } from "../file-kinds.js";
import { type Output, writeJson } from "../output.js";
import { checkModels, checkPipeline, type ModelWords, type PipelineWords } from "../repository-check.js";
import { CONFIG_OPTION, serverConfigOf } from "../server-config.js";
import { renderTable } from "../table.js";

const FILES_MAX = 10_000;
const SUFFIXES = [".yaml", ".yml", ".json"];

interface Checked {
  readonly file: string;
  /** Null: unreadable or of no known kind. */
  readonly kind: string | null;
  readonly ok: boolean;
  /** What the file describes; null if it is wrong. */
  readonly summary: string | null;
  readonly problems: readonly (ConfigIssue & { readonly file: string })[];
  /** Of a repository: what was understood of each model, and what is asked for and not done. */
  readonly models?: readonly ModelWords[];
  readonly pipelines?: readonly PipelineWords[];
  readonly warnings?: readonly string[];
}

export function checkCommand(output: Output): Command {
  return new Command("check")
    .summary("validate a scenario, a configuration or a repository")
    .description(
      "Validates a scenario, a server configuration, a model's rubato.yaml or a pipeline, recognised by its content; a model " +
        "repository; or every such file of a folder. Traces and replays that a scenario names are read, too, and models " +
        "are held against the server's configuration, as loading does. Says what each describes, or every problem with " +
        "file, field, bound and value.",
    )
    .argument("<file_or_dir>", "what to validate")
    .option("--data-dir <dir>", "folder of traces (default: $RUBATO_DATA)")
    .option(...CONFIG_OPTION)
    .option("--json", "print one JSON document")
    .addHelpText(
      "after",
      `
Exits 0 if all is well, 2 if anything is wrong.

Examples:
  rubato check scenarios/overload.yaml
  rubato check scenarios
  rubato check models
  rubato check --json rubato.config.yaml`,
    )
    .action((target: string, options: { dataDir?: string; config?: string; json?: boolean }) => {
      const settings = { dataDir: dataDirOf(options.dataDir, process.env) };
      const { checked, skipped } = checkTarget(target, settings, () => serverConfigOf(options));
      if (skipped.length > 0)
        output.note(`skipped ${skipped.length} of no known kind: ${skipped.slice(0, 5).join(", ")}`);
      const wrong = checked.filter(({ ok }) => !ok);
      if (options.json) writeJson(output, { ok: wrong.length === 0, files: checked, skipped });
      else {
        const rows = checked.filter(({ ok }) => ok).map(({ file, kind, summary }) => ["ok", file, kind!, summary!]);
        const columns = [{ title: "" }, { title: "file" }, { title: "kind" }, { title: "what" }];
        if (rows.length > 0) output.result(renderTable(columns, rows));
        for (const { models = [], pipelines = [], warnings = [] } of checked) {
          if (models.length > 0) output.result(renderWords(MODEL_TITLES, models));
          if (pipelines.length > 0) output.result(renderWords(PIPELINE_TITLES, pipelines));
          for (const warning of warnings) output.note(`warning: ${warning}`);
        }
      }
      const problems = wrong.flatMap((each) => each.problems);
      if (problems.length > 0) throw new CheckFailed(problems);
    });
}

/** Wrong files of a check; each problem names its own file. */
class CheckFailed extends ConfigError {
  constructor(problems: readonly (ConfigIssue & { readonly file: string })[]) {
    super("", problems);
    this.message = problems.map((problem) => new ConfigError(problem.file, [problem]).message).join("\n");
  }
}

export interface CheckResult {
  readonly checked: readonly Checked[];
  /** Files of a folder that are of no known kind. */
  readonly skipped: readonly string[];
}

/**
 * @param server what would serve the models of a repository; asked for when there is one.
 * @throws ConfigError if there is nothing to check.
 */
export function checkTarget(target: string, settings: CheckSettings, server: () => ServerConfig): CheckResult {
  const stat = statSync(target, { throwIfNoEntry: false });
  if (stat?.isDirectory() !== true) {
    if (target.endsWith(".pbtxt") && stat !== undefined) {
      const folder = path.dirname(path.dirname(path.resolve(target)));
      const message = `is part of a model: check the repository that holds it, ${folder}`;
      throw new ConfigError(target, [{ line: null, field: "", message }]);
    }
    if (target.endsWith(".onnx")) return { checked: [checkFolder(target, server)], skipped: [] };
    const checked = checkFile(target, settings) ?? failed(target, null, unknownKind(readSource(target)));
    return { checked: [inRepository(checked, server), ...modelsOf(checked)], skipped: [] };
  }
  if (isModel(target) || looksLikeRepository(target)) return { checked: [checkFolder(target, server)], skipped: [] };
  const { files, repositories } = contentsOf(target);
  const own = path.join(target, SERVER_CONFIG_NAME);
  const beside = files.includes(own) ? () => serverConfigOf({ config: own }) : server;
  const checked = repositories.map((folder) => checkFolder(folder, beside));
  const skipped: string[] = [];
  for (const file of files) {
    const result = checkFile(file, settings);
    if (result === null) skipped.push(file);
    else checked.push(result);
  }
  // Nothing at all: what serving it would say.
  if (checked.length === 0 && files.length === 0) return { checked: [checkFolder(target, server)], skipped };
  if (checked.length === 0) {
    const message = `must hold a scenario or a configuration (${SUFFIXES.join(", ")}); has none`;
    throw new ConfigError(target, [{ line: null, field: "", message }]);
  }
  return { checked, skipped };
}

/** The repository that a server's configuration names, if it is there. */
function modelsOf({ file, kind, ok }: Checked): readonly Checked[] {
  if (kind !== SERVER_KIND || !ok) return [];
  const config = serverConfigOf({ config: file });
  return existsSync(config.modelsDir) ? [checkFolder(config.modelsDir, () => config)] : [];
}

/** A pipeline's file alone says nothing of models and steps: it is held against the repository that it lies in. */
function inRepository(checked: Checked, server: () => ServerConfig): Checked {
  const { file, kind, ok, summary } = checked;
  if (kind !== PIPELINE_KIND || !ok) return checked;
  const own = path.dirname(path.resolve(file));
  const repository = path.dirname(own);
  const name = path.basename(own);
  try {
    if (
      path.basename(file) !== PIPELINE_NAMES.find((each) => each === path.basename(file)) ||
      modelNames(repository).length === 0
    ) {
      const unseen = `models and steps were not looked at, as no model lies beside ${own}; in a repository, rubato check REPOSITORY does`;
      return { ...checked, summary: `${summary}; ${unseen}` };
    }
    const { pipelines, warnings, problems } = checkPipeline(repository, name, server());
    if (problems.length === 0)
      return { ...checked, summary: `${summary}; models and steps as in ${repository}`, pipelines, warnings };
    return { ...checked, ok: false, summary: null, problems: problems.map((each) => ({ file, ...each })) };
  } catch (error) {
    return failed(file, kind, error);
  }
}

function checkFolder(folder: string, server: () => ServerConfig): Checked {
  try {
    const { models, pipelines, warnings, problems } = checkModels(folder, server());
    const groups = [...new Set(models.map(({ group }) => group))].sort();
    const ok = problems.length === 0;
    const summary = ok
      ? [
          plural(new Set(models.map(({ model }) => model)).size, "model"),
          ...(pipelines.length === 0 ? [] : [plural(pipelines.length, "pipeline")]),
          `groups ${groups.join(", ")}`,
        ].join(", ")
      : null;
    const located = problems.map((problem) => ({ file: folder, ...problem }));
    return { file: folder, kind: "repository", ok, summary, problems: located, models, pipelines, warnings };
  } catch (error) {
    return failed(folder, "repository", error);
  }
}

const MODEL_TITLES = ["model", "version", "batches", "variable axes", "deadline", "policy", "group"];
const PIPELINE_TITLES = ["pipeline", "modules", "inputs", "outputs", "deadline", "budget"];

const renderWords = (titles: readonly string[], words: readonly object[]): string =>
  renderTable(
    titles.map((title) => ({ title })),
    words.map((each) => Object.values(each)),
  );

/** Null if the file is of no known kind. */
function checkFile(file: string, settings: CheckSettings): Checked | null {
  let kind: string | null = null;
  try {
    const source = readSource(file);
    const found = fileKindOf(source);
    if (found === null) return null;
    kind = found.name;
    return { file, kind, ok: true, summary: found.check(source, settings), problems: [] };
  } catch (error) {
    return failed(file, kind, error);
  }
}

function failed(file: string, kind: string | null, error: unknown): Checked {
  if (!(error instanceof ConfigError)) throw error;
  const problems = error.issues.map(({ line, field, message }) => ({ file: error.file, line, field, message }));
  return { file, kind, ok: false, summary: null, problems };
}

/** Files that may be configurations, and the repositories between them, which are looked at as a whole. */
function contentsOf(folder: string): { files: readonly string[]; repositories: readonly string[] } {
  const files: string[] = [];
  const repositories: string[] = [];
  const walk = (inside: string): void => {
    for (const entry of readdirSync(inside, { withFileTypes: true })) {
      if (entry.name.startsWith(".") || entry.name === "node_modules") continue;
      const full = path.join(inside, entry.name);
      if (entry.isDirectory() && looksLikeRepository(full)) repositories.push(full);
      else if (entry.isDirectory()) walk(full);
      else if (entry.isFile() && SUFFIXES.includes(path.extname(entry.name))) files.push(full);
      if (files.length > FILES_MAX) {
        throw new ConfigError(folder, [{ line: null, field: "", message: `must hold at most ${FILES_MAX} files` }]);
      }
    }
  };
  walk(folder);
  return { files: files.sort(), repositories: repositories.sort() };
}
