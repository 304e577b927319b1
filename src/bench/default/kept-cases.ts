/** Finished cases on disk, a file each, so that hours of runs go on where they were ended. What other code measured is measured anew. */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { codeDigest } from "../../config/code-digest.js";
import { ConfigError } from "../../config/config-error.js";
import type { PairedRun, PairPlan } from "./paired-runs.js";

/** Cases measured in another way than now are measured anew. */
const FORMAT = 3;

/** What fixes a case, beside the machine. */
export interface CasePlan extends PairPlan {
  readonly setting: string;
  readonly load: number;
  readonly policy: string;
  /** Counted requests of a run, about. */
  readonly requests: number;
  /** Counted seconds of a run, at least. */
  readonly shortestS: number;
  /** At most, however few requests arrive. */
  readonly longestS: number;
}

export interface MeasuredCase {
  readonly capacity_rps: number;
  readonly offered_rps: number;
  readonly slo_ms: Readonly<Record<string, number>>;
  readonly beta_over_alpha: number;
  /** No schedule has more of what arrives in time; null: not known. */
  readonly most_in_time: number | null;
  readonly warmup_s: number;
  readonly counted_s: number;
  readonly runs: readonly PairedRun[];
  /** All of it. */
  readonly wall_s: number;
}

export const digestOf = (plan: CasePlan): string =>
  createHash("sha256")
    .update(JSON.stringify([FORMAT, Object.entries(plan).sort(([a], [b]) => (a < b ? -1 : 1))]))
    .digest("hex")
    .slice(0, 12);

interface Kept<Measured> {
  readonly format: number;
  readonly code: string;
  readonly plan: CasePlan;
  readonly measured: Measured;
}

export class KeptCases<Measured extends MeasuredCase = MeasuredCase> {
  private readonly folder: string | null;
  private readonly code: string;

  /** @param folder null: nothing is kept. @param code that measures. @throws ConfigError if it cannot be written. */
  constructor(folder: string | null, code = folder === null ? "" : codeDigest()) {
    this.folder = folder;
    this.code = code;
    if (folder === null) return;
    const probe = path.join(folder, ".writable");
    try {
      mkdirSync(folder, { recursive: true });
      writeFileSync(probe, "");
      rmSync(probe);
    } catch (error) {
      const message = `must be a folder that can be written; was ${folder} (${(error as Error).message})`;
      throw new ConfigError("command line", [{ line: null, field: "--out", message }]);
    }
  }

  /** null: not there, cut off, of another plan or by other code. */
  get(plan: CasePlan): Measured | null {
    if (this.folder === null) return null;
    try {
      const kept = JSON.parse(readFileSync(this.fileOf(plan, this.folder), "utf8")) as Partial<Kept<Measured>>;
      return kept.code === this.code ? (kept.measured ?? null) : null;
    } catch {
      return null;
    }
  }

  /** Whole or not at all. */
  put(plan: CasePlan, measured: Measured): void {
    if (this.folder === null) return;
    const file = this.fileOf(plan, this.folder);
    const kept: Kept<Measured> = { format: FORMAT, code: this.code, plan, measured };
    writeFileSync(`${file}.new`, `${JSON.stringify(kept, null, 1)}\n`);
    renameSync(`${file}.new`, file);
  }

  private fileOf(plan: CasePlan, folder: string): string {
    const name = `${plan.setting} at ${plan.load}`.replace(/[^a-z0-9.]+/gi, "-");
    return path.join(folder, `${name}-${digestOf(plan)}.json`);
  }
}
