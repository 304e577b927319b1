/** Profiles on disk: beside the model where its folder can be written, else in the user's own cache folder (profile-folder). */
import { randomUUID } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import type { ModelSpec } from "../../config/model.js";
import {
  gammasOf,
  implausibility,
  type ModelProfile,
  PROFILE_SCHEMA,
  type ProfileEnvironment,
} from "./model-profile.js";
import { isOwn } from "./profile-folder.js";
import { profiledExtents, profiledGammas } from "./profiler.js";

/** A larger file is not a profile. */
const PROFILE_BYTES_MAX = 16 * 1024 * 1024;

export interface StoredProfile {
  readonly profile: ModelProfile;
  readonly file: string;
  /** Why it should be measured again, or null: what differs, stored and present value. */
  readonly staleness: string | null;
}

const FILE = "profile.json";
const beside = (spec: ModelSpec): string => path.join(spec.folder, spec.version, FILE);
const cached = (spec: ModelSpec, cacheDir: string): string =>
  path.join(cacheDir, encodeURIComponent(spec.name), spec.version, FILE);

/**
 * Writes the profile whole or not at all.
 *
 * @returns The file written, or null when neither place can be written: then it lives for this run only.
 */
export function saveProfile(spec: ModelSpec, profile: ModelProfile, cacheDir: string | null): string | null {
  const places = cacheDir === null ? [beside(spec)] : [beside(spec), cached(spec, cacheDir)];
  return places.find((file) => write(file, profile)) ?? null;
}

function write(file: string, profile: ModelProfile): boolean {
  // A name that nobody can guess, made by us or not at all: a link laid in its place is not followed. Renaming replaces links.
  const draft = `${file}.${randomUUID()}`;
  try {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o755 });
    writeFileSync(draft, `${JSON.stringify(profile, null, 1)}\n`, { flag: "wx", mode: 0o644 });
    renameSync(draft, file);
    return true;
  } catch {
    discard(draft);
    return false;
  }
}

function discard(draft: string): void {
  try {
    rmSync(draft, { force: true });
  } catch {
    // Its folder is not one, or is gone: then there is no draft either.
  }
}

/** The stored profile, or null when there is none that can be read. */
export function loadProfile(
  spec: ModelSpec,
  environment: ProfileEnvironment,
  cacheDir: string | null,
): StoredProfile | null {
  const places = cacheDir === null ? [beside(spec)] : [beside(spec), cached(spec, cacheDir)];
  for (const file of places) {
    const profile = read(file);
    if (profile !== null) return { profile, file, staleness: stalenessOf(profile, spec, environment) };
  }
  return null;
}

/** As it is there, if it is a file of ours, of root's or of the owner of its folder, that not everyone can write; no link is followed. */
function read(file: string): ModelProfile | null {
  let handle: number | null = null;
  try {
    handle = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const stats = fstatSync(handle);
    const owners = [process.getuid?.(), 0, lstatSync(path.dirname(file)).uid];
    if (!stats.isFile() || stats.size > PROFILE_BYTES_MAX || !isOwn(stats, owners) || (stats.mode & 0o002) !== 0)
      return null;
    const value: unknown = JSON.parse(readFileSync(handle, "utf8"));
    return isProfile(value) ? value : null;
  } catch {
    return null;
  } finally {
    if (handle !== null) closeSync(handle);
  }
}

const BATCH_MAX = 4096;
/** Nobody waits a day for a batch. */
const TIME_US_MAX = 86_400e6;

/** Everything that is computed with is checked: a file that was cut, or edited, is measured anew. */
function isProfile(value: unknown): value is ModelProfile {
  if (!isRecord(value) || value.schema !== PROFILE_SCHEMA || !isWithin(value.batchMax, 1, BATCH_MAX)) return false;
  const { points, environment } = value;
  return Array.isArray(points) && points.length > 0 && points.every(isPoint) && isRecord(environment);
}

function isPoint(point: unknown): boolean {
  if (!isRecord(point) || !isWithin(point.batchSize, 1, BATCH_MAX)) return false;
  if (point.extent !== null && !isWithin(point.extent, 1, 2 ** 31)) return false;
  if (point.gamma !== undefined && !isWithin(point.gamma, -(2 ** 31), 2 ** 31)) return false;
  return [point.alone, point.busy].every((times) => isRecord(times) && isTime(times.p50Us));
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
const isWithin = (value: unknown, min: number, max: number): boolean =>
  typeof value === "number" && Number.isInteger(value) && value >= min && value <= max;
const isTime = (value: unknown): boolean => typeof value === "number" && value >= 0 && value <= TIME_US_MAX;

function stalenessOf(profile: ModelProfile, spec: ModelSpec, environment: ProfileEnvironment): string | null {
  const differs = (what: string, stored: unknown, present: unknown): string | null =>
    stored === present ? null : `${what} was ${stored} and is ${present}`;
  const batchMax = Math.max(1, spec.batchSizeMax);
  const then = profile.environment;
  return (
    implausibility(profile) ??
    differs("version", profile.version, spec.version) ??
    differs(
      "extents",
      [...new Set(profile.points.map((point) => point.extent))].join(),
      profiledExtents(spec).join(),
    ) ??
    differs("gammas", gammasOf(profile.points).join(), profiledGammas(spec).join()) ??
    (profile.batchMax < batchMax ? `batch_max was ${profile.batchMax} and is ${batchMax}` : null) ??
    differs("CPU", then.cpuModel, environment.cpuModel) ??
    differs("threads", then.threads, environment.threads) ??
    differs("accelerators", then.accelerators, environment.accelerators) ??
    differs("runtime", then.runtime, environment.runtime) ??
    differs("model file size", then.modelBytes, environment.modelBytes)
  );
}
