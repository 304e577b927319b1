/** What an experiment is: points to run, and what to show of their results. */
import type { Figure } from "./figure.js";
import type { Point, PointResult, ResultOf } from "./point.js";

/** How much is run. `tiny` is for tests: it shows that everything works and no number of it means anything. */
export type Size = "tiny" | "small" | "default" | "full";
export const SIZES = ["small", "default", "full"] as const;

/** Papers, by the first part of their experiments' names. */
export const PAPERS: Readonly<Record<string, string>> = {
  symphony: "Symphony",
  orloj: "ORLOJ",
  pard: "PARD",
  otas: "OTAS",
};

export interface Experiment {
  /** As given to the command, e.g. "symphony/table2". */
  readonly name: string;
  readonly title: string;
  /** What is run, in a sentence or two; where the paper is silent, what was chosen. */
  readonly about: string;
  /** @param dataDir folder of traces that stand for those that are generated otherwise. @throws ConfigError what is wrong with one. */
  plan(size: Size, dataDir?: string): ExperimentPlan;
}

export interface ExperimentPlan {
  readonly points: readonly Point[];
  /** How much was run, in words. */
  readonly scope: string;
  /** @param get the result of a point of `points` (the same object or an equal one). */
  present(get: GetResult): Presentation;
}

export type GetResult = <P extends Point>(point: P) => ResultOf<P>;

export interface Presentation {
  readonly tables: readonly Table[];
  readonly figures: readonly Figure[];
  readonly findings: readonly Finding[];
  readonly notes: readonly string[];
}

export interface Table {
  readonly title: string;
  readonly columns: readonly { readonly title: string; readonly align?: "left" | "right" }[];
  readonly rows: readonly (readonly string[])[];
}

/** A promise with the number that was found. */
export interface Finding {
  readonly promise: string;
  readonly found: string;
  readonly holds: boolean;
}

/** By size; a size that is not given takes the next smaller one. */
export function pick<T>(
  size: Size,
  values: { readonly tiny: T; readonly small: T; readonly default: T; readonly full?: T },
): T {
  return size === "full" ? (values.full ?? values.default) : values[size];
}

/** Seeds 1, 2, ..., count. */
export const seedsUpTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

export type { PointResult };
