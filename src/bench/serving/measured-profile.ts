/** A model's profile, measured once by a server of its own, so that all that is compared plans with the same numbers. */
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { interpolateTable, type ModelProfile } from "../../serve/models/model-profile.js";
import { type ModelSource, writePolicyModels } from "./policy-models.js";
import { serveProcess } from "./served-process.js";

/** Nobody is to be refused while it is measured. */
const SLO_MS = 60_000;

/** The accelerators that it is measured on, and those that it is used on, must be alike. */
export const CPU_WORKERS = { kind: "onnx", count: 2, threads: 1 } as const;

/** @param workers of the group that it is for. @returns the file. */
export async function measureProfile(
  folder: string,
  source: ModelSource,
  budgetS: number,
  workers: object = CPU_WORKERS,
): Promise<string> {
  const models = path.join(folder, "profiled");
  mkdirSync(models);
  const model = { name: "model", group: "cpu", policy: "eager", policyOptions: {} };
  writePolicyModels(models, source, [model], SLO_MS, null);
  const groups = { cpu: workers };
  const server = await serveProcess(folder, { models, groups, profile: { budget_s: budgetS } });
  await server.stop();
  return path.join(models, "model", "1", "profile.json");
}

export interface MeasuredTimes {
  /** A request alone. */
  readonly aloneMs: number;
  /** Of l(b) = alpha b + beta, one accelerator at work. */
  readonly betaOverAlpha: number;
}

/** @param extent of the longest request along the variable axis; null: there is none. */
export function timesOf(file: string, extent: number | null): MeasuredTimes {
  const profile = JSON.parse(readFileSync(file, "utf8")) as ModelProfile;
  // Requests are padded to the next extent that was profiled.
  const extents = profile.points.flatMap((point) => point.extent ?? []).sort((a, b) => a - b);
  const padded = extent === null ? null : (extents.find((each) => each >= extent) ?? extent);
  const { alphaUs, betaUs } = (profile.fits.find((fit) => fit.extent === padded) ?? profile.fits.at(-1)!).alone;
  return {
    aloneMs: interpolateTable(profile, padded, "alone")[1]! / 1000,
    betaOverAlpha: Math.max(0, betaUs) / Math.max(1, alphaUs),
  };
}
