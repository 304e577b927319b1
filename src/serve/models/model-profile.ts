/** Measured run times of one model on one kind of accelerator, and the table that the scheduler reads from them. */

import type { ModelSpec } from "../../config/model.js";
import { emulatedExecUs } from "../../config/scenario/emulated-exec.js";
import { fitLine, type LinearFit } from "./linear-fit.js";

export const PROFILE_SCHEMA = 1;

export interface Quantiles {
  readonly p50Us: number;
  readonly p90Us: number;
  readonly p99Us: number;
  readonly runs: number;
}

export interface ProfilePoint {
  /** Along the variable axis; null where there is none. */
  readonly extent: number | null;
  /** Tokens added or merged, of an elastic model; absent for others. */
  readonly gamma?: number;
  readonly batchSize: number;
  /** One accelerator at work. */
  readonly alone: Quantiles;
  /** All accelerators of the group at work on the same. */
  readonly busy: Quantiles;
}

export interface ProfileFit {
  readonly extent: number | null;
  readonly gamma?: number;
  readonly alone: LinearFit;
  readonly busy: LinearFit;
}

/** What a profile depends on; one measured elsewhere is stale. */
export interface ProfileEnvironment {
  readonly cpuModel: string;
  readonly threads: number;
  readonly accelerators: number;
  /** "onnxruntime 1.30.0", or "emulated". */
  readonly runtime: string;
  /** Bytes of the model file; 0 for emulated. */
  readonly modelBytes: number;
}

export interface ModelProfile {
  readonly schema: typeof PROFILE_SCHEMA;
  readonly model: string;
  readonly version: string;
  /** Largest batch the table goes to, at least 1. */
  readonly batchMax: number;
  readonly environment: ProfileEnvironment;
  readonly points: readonly ProfilePoint[];
  readonly fits: readonly ProfileFit[];
  /** False: the time budget ended before the largest batch; the table continues the last slope. */
  readonly complete: boolean;
}

export type Load = "alone" | "busy";

export function fitProfile(points: readonly ProfilePoint[]): ProfileFit[] {
  return gammasOf(points).flatMap((gamma) => {
    const ofGamma = points.filter((point) => point.gamma === gamma);
    return extentsOf(ofGamma).map((extent) => {
      const own = ofGamma.filter((point) => point.extent === extent);
      const line = (load: Load): LinearFit =>
        fitLine(own.map((p) => ({ x: p.batchSize, y: Math.max(1, p[load].p50Us) })));
      return { extent, ...(gamma === undefined ? {} : { gamma }), alone: line("alone"), busy: line("busy") };
    });
  });
}

/** Of an elastic model, ascending; [undefined] of another. */
export const gammasOf = (points: readonly ProfilePoint[]): readonly (number | undefined)[] =>
  [...new Set(points.map(({ gamma }) => gamma))].sort((a, b) => (a ?? 0) - (b ?? 0));

/** The profile of one gamma of an elastic model; where nothing is known of it, as of models that are not elastic, the profile itself. */
export function profileAt(profile: ModelProfile, gamma: number | undefined): ModelProfile {
  const points = profile.points.filter((point) => point.gamma === gamma);
  return points.length === 0 || points.length === profile.points.length ? profile : { ...profile, points };
}

const extentsOf = (points: readonly ProfilePoint[]): (number | null)[] =>
  [...new Set(points.map((point) => point.extent))].sort((a, b) => (a ?? 0) - (b ?? 0));

/**
 * execUs[b] for b = 1..batchMax ([0] is 0), non-decreasing: linear between measured sizes, the last slope beyond them;
 * linear between measured extents, in proportion beyond the largest.
 *
 * @param load Which measurement: by default with all workers busy, which is when a deadline is at risk.
 */
export function interpolateTable(profile: ModelProfile, extent: number | null, load: Load = "busy"): Float64Array {
  const extents = extentsOf(profile.points);
  const largest = extents.at(-1) ?? null;
  if (extent === null || largest === null || extents.includes(extent))
    return tableAt(profile, extents.includes(extent) ? extent : largest, load);
  const above = extents.find((candidate) => candidate !== null && candidate > extent);
  const below = extents.findLast((candidate) => candidate !== null && candidate < extent);
  if (above === undefined) return tableAt(profile, largest, load).map((us) => (us * extent) / largest);
  const upper = tableAt(profile, above, load);
  if (below === undefined || below === null || above === null) return upper;
  const lower = tableAt(profile, below, load);
  const share = (extent - below) / (above - below);
  return upper.map((us, b) => lower[b]! + share * Math.max(0, us - lower[b]!));
}

function tableAt(profile: ModelProfile, extent: number | null, load: Load): Float64Array {
  const points = profile.points
    .filter((point) => point.extent === extent)
    .sort((a, b) => a.batchSize - b.batchSize)
    .map((point) => ({ x: point.batchSize, y: point[load].p50Us }));
  const table = new Float64Array(profile.batchMax + 1);
  for (let b = 1; b <= profile.batchMax; b++) table[b] = Math.max(table[b - 1]!, valueAt(points, b));
  return table;
}

/** Below the first measured size (a model of fixed batch) a run costs what that size costs. */
function valueAt(points: readonly { x: number; y: number }[], x: number): number {
  const at = points.findIndex((point) => point.x >= x);
  if (at === 0) return points[0]!.y;
  const after = at < 0 ? points.at(-1) : points[at];
  const before = at < 0 ? points.at(-2) : points[at - 1];
  if (after === undefined) return 0;
  if (before === undefined) return (after.y / after.x) * x;
  const slope = Math.max(0, (after.y - before.y) / (after.x - before.x));
  return at < 0
    ? after.y + slope * (x - after.x)
    : before.y + ((after.y - before.y) * (x - before.x)) / (after.x - before.x);
}

/** Noise makes a larger batch look faster than a smaller one, but not by more than this. */
const SHRINKS_MAX = 2;
/** A batch may take this many times as long as its size says, compared with the next smaller one: memory that no longer fits. */
const GROWS_MAX = 4;
/** All accelerators at once: slower than one alone by their number (one core for all) and this; faster never, but for noise. */
const BUSY_MAX = 4;
/** Below this times are the clock's. */
const TIME_US_MIN = 50;

/** Why the points cannot all be times of one model; null: they can. What was edited, cut or planted is measured anew. */
export function implausibility(profile: ModelProfile): string | null {
  const accelerators = Math.max(1, profile.environment.accelerators);
  const usOf = ({ p50Us }: Quantiles): number => Math.max(TIME_US_MIN, p50Us);
  const shown = ({ batchSize, extent, gamma }: ProfilePoint): string =>
    `a batch of ${batchSize}${extent === null ? "" : ` of extent ${extent}`}${gamma === undefined ? "" : ` at gamma ${gamma}`}`;
  for (const point of profile.points) {
    const times = usOf(point.busy) / usOf(point.alone);
    if (times > BUSY_MAX * accelerators || times * SHRINKS_MAX < 1)
      return `${shown(point)} takes ${times.toFixed(2)} times as long on ${accelerators} accelerators as on one`;
  }
  for (const { extent, gamma } of fitProfile(profile.points)) {
    const own = profile.points
      .filter((point) => point.extent === extent && point.gamma === gamma)
      .sort((a, b) => a.batchSize - b.batchSize);
    for (const [i, point] of own.entries()) {
      const before = own[i - 1];
      if (before === undefined) continue;
      const times = usOf(point.alone) / usOf(before.alone);
      if (times * SHRINKS_MAX < 1 || times > GROWS_MAX * (point.batchSize / before.batchSize))
        return `${shown(point)} takes ${times.toFixed(2)} times as long as one of ${before.batchSize}`;
    }
  }
  return null;
}

/** An emulated model needs no measurement: its specification is its profile, on an accelerator of scale 1. */
export function profileOfEmulated(spec: ModelSpec): ModelProfile {
  const batchMax = Math.max(1, spec.batchSizeMax);
  const points: ProfilePoint[] = [];
  for (let batchSize = 1; batchSize <= batchMax; batchSize++) {
    const us = emulatedExecUs(spec.emulated!, spec.batchSizeFixed ?? batchSize);
    const quantiles = { p50Us: us, p90Us: us, p99Us: us, runs: 0 };
    points.push({ extent: null, batchSize, alone: quantiles, busy: quantiles });
  }
  const environment = { cpuModel: "", threads: 0, accelerators: 0, runtime: "emulated", modelBytes: 0 };
  return {
    schema: PROFILE_SCHEMA,
    model: spec.name,
    version: spec.version,
    batchMax,
    environment,
    points,
    fits: fitProfile(points),
    complete: true,
  };
}
