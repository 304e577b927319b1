/**
 * Readers of recorded load: rates by second, and single requests.
 *
 * Both are CSV: `#` lines are comments, the first other line names the columns. They are only read and bounded here;
 * drawing arrivals from rates is the simulator's and the load generator's work.
 */
import { existsSync, realpathSync } from "node:fs";
import path from "node:path";
import { ConfigError, formatValue } from "../config-error.js";
import { readText } from "../source.js";
import type { TokenRows } from "./llm/expand-llm.js";
import { TOKENS_MAX } from "./llm/llm-schema.js";

export const TRACE_BYTES_MAX = 256 * 1024 * 1024;
export const TRACE_ROWS_MAX = 2_000_000;
export const REPLAY_ROWS_MAX = 10_000_000;
const RATE_RPS_MAX = 1e9;
const TIME_US_MAX = 2 ** 52;
const RATE_COLUMNS = ["requests_per_second", "rate_rps"] as const;

/** A mean rate per step: `rateRps[i]` holds from `atS[i]` to `atS[i + 1]`, the last until `endS`. Starts at 0. */
export interface RateTrace {
  readonly file: string;
  readonly atS: Float64Array;
  readonly rateRps: Float64Array;
  /** The last step is as long as the one before it (1 s if there is only one). */
  readonly endS: number;
}

/** Single requests in the order of arrival; `model[i]` and `app[i]` index the name lists. */
export interface Replay {
  readonly file: string;
  readonly atUs: Float64Array;
  readonly model: Int32Array;
  readonly modelNames: readonly string[];
  /** Null if the file has no `app` column. */
  readonly app: Int32Array | null;
  readonly appNames: readonly string[];
}

/**
 * Finds a data file named in a scenario: beside the scenario first, then in the data folder (`--data-dir`, else
 * `RUBATO_DATA`). A scenario names data by relative paths without `..`, so that it cannot reach out of its project.
 *
 * @throws ConfigError saying where it looked.
 */
export function resolveDataFile(name: string, scenarioFile: string, dataDir: string | null): string {
  const refuse = (message: string) => new ConfigError(scenarioFile, [{ line: null, field: "", message }]);
  const steps = name.split(/[\\/]/);
  if (path.isAbsolute(name) || /^[A-Za-z]:/.test(name) || steps.includes("..") || name.includes("\0")) {
    throw refuse(`data file must be a relative path without '..'; was ${formatValue(name)}`);
  }
  const folders = [path.dirname(scenarioFile), ...(dataDir === null ? [] : [dataDir])];
  for (const folder of folders) {
    const file = path.join(folder, name);
    if (!existsSync(file)) continue;
    const inside = path.relative(realpathSync(folder), realpathSync(file));
    if (inside.startsWith("..") || path.isAbsolute(inside)) {
      throw refuse(`data file ${formatValue(name)} is a link that leaves ${folder}`);
    }
    return file;
  }
  const hint = dataDir === null ? "; --data-dir or RUBATO_DATA can name a folder of traces" : "";
  throw refuse(`data file ${formatValue(name)} is not in ${folders.join(" or ")}${hint}`);
}

/** The data folder: the option if given, else the environment's `RUBATO_DATA`, else none. */
export function dataDirOf(option: string | undefined, environment: NodeJS.ProcessEnv): string | null {
  const folder = option ?? environment.RUBATO_DATA;
  return folder === undefined || folder === "" ? null : folder;
}

/** Reads columns `second` and `requests_per_second` (or `rate_rps`). @throws ConfigError with line, bound, value. */
export function readRateTrace(file: string): RateTrace {
  return parseRateTrace(readText(file, TRACE_BYTES_MAX), file);
}

export function parseRateTrace(text: string, file: string): RateTrace {
  const rows = new CsvRows(text, file);
  const header = rows.header();
  const secondColumn = rows.column(header, ["second"]);
  const rateColumn = rows.column(header, RATE_COLUMNS);
  const atS: number[] = [];
  const rateRps: number[] = [];
  let cells = rows.next(header.length);
  while (cells !== null) {
    if (atS.length >= TRACE_ROWS_MAX) throw rows.error("", `must have at most ${TRACE_ROWS_MAX} rows`);
    const second = rows.number(cells[secondColumn]!, "second", 0, TIME_US_MAX / 1e6);
    const rate = rows.number(cells[rateColumn]!, header[rateColumn]!, 0, RATE_RPS_MAX);
    const previous = atS.at(-1);
    if (previous !== undefined && second <= previous) {
      throw rows.error("second", `must be greater than the row before (${previous}); was ${second}`);
    }
    atS.push(second);
    rateRps.push(rate);
    cells = rows.next(header.length);
  }
  if (atS.length === 0) throw rows.error("", "must have at least one row of rates");
  if (rateRps.every((rate) => rate === 0))
    throw rows.error(header[rateColumn]!, "must be above 0 in some row; was 0 in all");
  const start = atS[0]!;
  const lastStepS = atS.length > 1 ? atS.at(-1)! - atS.at(-2)! : 1;
  return {
    file,
    atS: Float64Array.from(atS, (second) => second - start),
    rateRps: Float64Array.from(rateRps),
    endS: atS.at(-1)! - start + lastStepS,
  };
}

/** Reads columns `at_us`, `model` and, if present, `app`. @throws ConfigError with line, bound, value. */
export function readReplay(file: string): Replay {
  return parseReplay(readText(file, TRACE_BYTES_MAX), file);
}

export function parseReplay(text: string, file: string): Replay {
  const rows = new CsvRows(text, file);
  const header = rows.header();
  const atColumn = rows.column(header, ["at_us"]);
  const modelColumn = rows.column(header, ["model"]);
  const appColumn = header.indexOf("app");
  const models = new NameIndex();
  const apps = new NameIndex();
  const atUs: number[] = [];
  const model: number[] = [];
  const app: number[] = [];
  let cells = rows.next(header.length);
  while (cells !== null) {
    if (atUs.length >= REPLAY_ROWS_MAX) throw rows.error("", `must have at most ${REPLAY_ROWS_MAX} rows`);
    const at = rows.number(cells[atColumn]!, "at_us", 0, TIME_US_MAX);
    if (!Number.isInteger(at)) throw rows.error("at_us", `must be a whole number of microseconds; was ${at}`);
    const previous = atUs.at(-1);
    if (previous !== undefined && at < previous) {
      throw rows.error("at_us", `must not be less than the row before (${previous}); was ${at}`);
    }
    const name = cells[modelColumn]!;
    if (name === "") throw rows.error("model", "must name a model; was empty");
    atUs.push(at);
    model.push(models.of(name));
    if (appColumn >= 0) app.push(apps.of(cells[appColumn]!));
    cells = rows.next(header.length);
  }
  if (atUs.length === 0) throw rows.error("", "must have at least one request");
  return {
    file,
    atUs: Float64Array.from(atUs),
    model: Int32Array.from(model),
    modelNames: models.names,
    app: appColumn >= 0 ? Int32Array.from(app) : null,
    appNames: apps.names,
  };
}

/** Reads a column `ms` of execution times. @throws ConfigError with line, bound, value. */
export function readTimes(file: string): number[] {
  const rows = new CsvRows(readText(file, TRACE_BYTES_MAX), file);
  const header = rows.header();
  const column = rows.column(header, ["ms"]);
  const times: number[] = [];
  for (let cells = rows.next(header.length); cells !== null; cells = rows.next(header.length)) {
    if (times.length >= TRACE_ROWS_MAX) throw rows.error("", `must have at most ${TRACE_ROWS_MAX} rows`);
    times.push(rows.number(cells[column]!, "ms", 1e-3, 3_600_000));
  }
  if (times.length === 0) throw rows.error("", "must have at least one time");
  return times;
}

/** Reads columns `input_tokens` and `output_tokens`: a request a row. @throws ConfigError with line, bound, value. */
export function readTokens(file: string): TokenRows {
  const rows = new CsvRows(readText(file, TRACE_BYTES_MAX), file);
  const header = rows.header();
  const fields = ["input_tokens", "output_tokens"] as const;
  const columns = fields.map((field) => rows.column(header, [field]));
  const lengths: [number[], number[]] = [[], []];
  for (let cells = rows.next(header.length); cells !== null; cells = rows.next(header.length)) {
    if (lengths[0].length >= TRACE_ROWS_MAX) throw rows.error("", `must have at most ${TRACE_ROWS_MAX} rows`);
    for (const [index, column] of columns.entries())
      lengths[index]!.push(rows.number(cells[column]!, fields[index]!, 1, TOKENS_MAX));
  }
  if (lengths[0].length === 0) throw rows.error("", "must have at least one request");
  return { input: Float64Array.from(lengths[0]), output: Float64Array.from(lengths[1]) };
}

class NameIndex {
  readonly names: string[] = [];
  readonly #index = new Map<string, number>();
  of(name: string): number {
    let index = this.#index.get(name);
    if (index === undefined) {
      index = this.names.length;
      this.names.push(name);
      this.#index.set(name, index);
    }
    return index;
  }
}

/** Walks the rows of a CSV text without splitting it as a whole. Cells hold no commas or quotes. */
class CsvRows {
  readonly #text: string;
  readonly #file: string;
  #offset = 0;
  #line = 0;

  constructor(text: string, file: string) {
    this.#text = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
    this.#file = file;
  }

  header(): string[] {
    const cells = this.#nextCells();
    if (cells === null) throw this.error("", "must start with a line of column names; is empty");
    return cells;
  }

  column(header: readonly string[], names: readonly string[]): number {
    const index = header.findIndex((cell) => names.includes(cell));
    if (index < 0) throw this.error("", `must have a column ${names.join(" or ")}; has ${header.join(", ")}`);
    return index;
  }

  next(width: number): string[] | null {
    const cells = this.#nextCells();
    if (cells !== null && cells.length !== width) {
      throw this.error("", `must have ${width} columns; has ${cells.length}`);
    }
    return cells;
  }

  number(cell: string, field: string, min: number, max: number): number {
    const value = cell === "" ? Number.NaN : Number(cell);
    if (!(value >= min && value <= max)) {
      throw this.error(field, `must be a number in [${min}, ${max}]; was ${formatValue(cell)}`);
    }
    return value;
  }

  error(field: string, message: string): ConfigError {
    return new ConfigError(this.#file, [{ line: this.#line === 0 ? null : this.#line, field, message }]);
  }

  #nextCells(): string[] | null {
    while (this.#offset < this.#text.length) {
      let end = this.#text.indexOf("\n", this.#offset);
      if (end < 0) end = this.#text.length;
      const line = this.#text.slice(this.#offset, end).trim();
      this.#offset = end + 1;
      this.#line++;
      if (line !== "" && !line.startsWith("#")) return line.split(",").map((cell) => cell.trim());
    }
    return null;
  }
}
