/** `rubato check`: validates without running anything. */
import { readdirSync, statSync } from "node:fs";
import path from "node:path";
import { Command } from "commander";
import { ConfigError, type ConfigIssue } from "../../config/config-error.js";
import { readSource } from "../../config/source.js";
import { dataDirOf } from "../../config/traces.js";
import { type CheckSettings, FOLDER_KINDS, fileKindOf, unknownKind } from "../file-kinds.js";
import { type Output, writeJson } from "../output.js";
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
}

export function checkCommand(output: Output): Command {
  return new Command("check")
    .summary("validate a scenario, a configuration or a repository")
    .description(
      "Validates a scenario, a server configuration or a model's rubato.yaml, recognised by its content; a model " +
        "repository; or every such file of a folder. Traces and replays that a scenario names are read, too. Says what " +
        "each describes, or every problem with file, field, bound and value.",
    )
    .argument("<file_or_dir>", "what to validate")
    .option("--data-dir <dir>", "folder of traces (default: $RUBATO_DATA)")
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
    .action(async (target: string, options: { dataDir?: string; json?: boolean }) => {
      const settings = { dataDir: dataDirOf(options.dataDir, process.env) };
      const { checked, skipped } = await checkTarget(target, settings);
      if (skipped.length > 0)
        output.note(`skipped ${skipped.length} of no known kind: ${skipped.slice(0, 5).join(", ")}`);
      const wrong = checked.filter(({ ok }) => !ok);
      if (options.json) writeJson(output, { ok: wrong.length === 0, files: checked, skipped });
      else {
        const rows = checked.filter(({ ok }) => ok).map(({ file, kind, summary }) => ["ok", file, kind!, summary!]);
        const columns = [{ title: "" }, { title: "file" }, { title: "kind" }, { title: "what" }];
        if (rows.length > 0) output.result(renderTable(columns, rows));
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

/** @throws ConfigError if there is nothing to check. */
export async function checkTarget(target: string, settings: CheckSettings): Promise<CheckResult> {
  const stat = statSync(target, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isDirectory()) {
    const checked = checkFile(target, settings) ?? failed(target, null, unknownKind(readSource(target)));
    return { checked: [checked], skipped: [] };
  }
  for (const kind of FOLDER_KINDS) {
    if (!kind.recognises(target)) continue;
    return { checked: [await attempt(target, kind.name, () => kind.check(target, settings))], skipped: [] };
  }
  const checked: Checked[] = [];
  const skipped: string[] = [];
  for (const file of filesUnder(target)) {
    const result = checkFile(file, settings);
    if (result === null) skipped.push(file);
    else checked.push(result);
  }
  if (checked.length === 0) {
    const message = `must hold a scenario or a configuration (${SUFFIXES.join(", ")}); has none`;
    throw new ConfigError(target, [{ line: null, field: "", message }]);
  }
  return { checked, skipped };
}

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

async function attempt(file: string, kind: string, check: () => Promise<string>): Promise<Checked> {
  try {
    return { file, kind, ok: true, summary: await check(), problems: [] };
  } catch (error) {
    return failed(file, kind, error);
  }
}

function failed(file: string, kind: string | null, error: unknown): Checked {
  if (!(error instanceof ConfigError)) throw error;
  const problems = error.issues.map(({ line, field, message }) => ({ file: error.file, line, field, message }));
  return { file, kind, ok: false, summary: null, problems };
}

function filesUnder(folder: string): string[] {
  const files: string[] = [];
  const walk = (inside: string): void => {
    for (const entry of readdirSync(inside, { withFileTypes: true })) {
      if (entry.name.startsWith(".") || entry.name === "node_modules") continue;
      const full = path.join(inside, entry.name);
      if (entry.isDirectory()) walk(full);
      else if (entry.isFile() && SUFFIXES.includes(path.extname(entry.name))) files.push(full);
      if (files.length > FILES_MAX) {
        throw new ConfigError(folder, [{ line: null, field: "", message: `must hold at most ${FILES_MAX} files` }]);
      }
    }
  };
  walk(folder);
  return files.sort();
}
