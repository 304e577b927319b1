/**
 * Finished points on disk, so that a run that was ended goes on where it was: one line of JSON per point, appended when
 * it is done. A line that was cut off by the end of the process is passed over, and so is a line of another format.
 */
import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { codeDigest } from "../config/code-digest.js";
import { ConfigError } from "../config/config-error.js";
import { type Point, type PointResult, RESULT_FORMAT } from "./point.js";

/** All figures at full size take a few per cent of this. */
const STORE_BYTES_MAX = 1024 * 1024 * 1024;

export interface StoredResult {
  readonly digest: string;
  readonly format: number;
  /** Digest of the code that ran the point; absent: of before it was kept. */
  readonly code?: string;
  readonly point: Point;
  readonly result: PointResult;
  /** Seconds that the point took. */
  readonly wall_s: number;
}

export class ResultStore {
  readonly file: string;
  private readonly code: string;
  private readonly results = new Map<string, StoredResult>();
  /** The file ends in the middle of a line. */
  private isTorn = false;

  /**
   * Opens the folder's results, making the folder if it is not there.
   *
   * @param code digest of what runs points now.
   * @throws ConfigError if the file is too large, or the folder or the file cannot be written: that is not found out
   * after the first point only, which may take minutes.
   */
  constructor(folder: string, code: string = codeDigest()) {
    this.code = code;
    this.file = path.join(folder, "points.jsonl");
    try {
      mkdirSync(folder, { recursive: true });
      closeSync(openSync(this.file, "a"));
    } catch (error) {
      const message = `must be a folder that can be written; was ${folder} (${(error as Error).message})`;
      throw new ConfigError("command line", [{ line: null, field: "--out", message }]);
    }
    const { size } = statSync(this.file);
    if (size > STORE_BYTES_MAX) {
      const message = `must be at most ${STORE_BYTES_MAX} bytes; has ${size}: use another folder`;
      throw new ConfigError(this.file, [{ line: null, field: "", message }]);
    }
    const text = readFileSync(this.file, "utf8");
    this.isTorn = text.length > 0 && !text.endsWith("\n");
    for (const line of text.split("\n")) {
      const stored = parse(line);
      if (stored !== null) this.results.set(stored.digest, stored);
    }
  }

  get size(): number {
    return this.results.size;
  }

  /** How many of these are there that other code ran: whether it would come to the same, nobody knows. */
  countOfOtherCode(digests: Iterable<string>): number {
    let count = 0;
    for (const digest of digests) {
      const stored = this.results.get(digest);
      if (stored !== undefined && stored.code !== this.code) count++;
    }
    return count;
  }

  get(digest: string): StoredResult | undefined {
    return this.results.get(digest);
  }

  /** Written before it returns. */
  add(result: Omit<StoredResult, "code">): void {
    const stored = { ...result, code: this.code };
    this.results.set(stored.digest, stored);
    appendFileSync(this.file, `${this.isTorn ? "\n" : ""}${JSON.stringify(stored)}\n`);
    this.isTorn = false;
  }

  /** Forgets results. The file is replaced as a whole. */
  forget(digests: ReadonlySet<string>): void {
    let forgotten = 0;
    for (const digest of digests) if (this.results.delete(digest)) forgotten++;
    if (forgotten === 0) return;
    const beside = `${this.file}.new`;
    writeFileSync(beside, [...this.results.values()].map((result) => `${JSON.stringify(result)}\n`).join(""));
    renameSync(beside, this.file);
    this.isTorn = false;
  }
}

function parse(line: string): StoredResult | null {
  if (line === "") return null;
  try {
    const value = JSON.parse(line) as Partial<StoredResult>;
    if (value.format !== RESULT_FORMAT || typeof value.digest !== "string") return null;
    return isFilled(value.result) && isFilled(value.point) ? (value as StoredResult) : null;
  } catch {
    return null;
  }
}

const isFilled = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.keys(value).length > 0;
