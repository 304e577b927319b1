/** Tables, figures and findings of utility. */
import type { SeedStatistics } from "../../measure/report.js";
import type { Finding, Table } from "../experiment.js";
import type { Figure } from "../figure.js";
import { ceilingPart } from "./query-types.js";
import { bestOf, type Case, caseName, type Measured, resultOf } from "./runs.js";
import type { OtasSystem } from "./systems.js";

const right = (title: string) => ({ title, align: "right" as const });

const withDeviation = ({ mean, sd }: SeedStatistics): string => `${Math.round(mean)} ± ${Math.round(sd)}`;
const percent = (part: number): string => `${(100 * part).toFixed(2)} %`;

export const utilityTable = (title: string, cases: readonly Case[], runs: readonly Measured[]): Table => ({
  title: `${title}: utility earned, mean and standard deviation over seeds; the ceiling has every query in time at its best gamma`,
  columns: [
    { title: "workload" },
    { title: "system" },
    { title: "setting" },
    right("utility"),
    right("of the ceiling"),
    right("accuracy"),
  ],
  rows: cases.flatMap((at) =>
    runs
      .filter((run) => caseName(run.at) === caseName(at))
      .map(({ system, setting, result }) => [
        caseName(at),
        system.name,
        setting.label,
        withDeviation(result.earned),
        percent(result.earned.mean / (ceilingPart() * result.offered.mean)),
        percent(result.accuracy.mean),
      ]),
  ),
});

export const utilityFigure = (
  id: string,
  title: string,
  cases: readonly Case[],
  systems: readonly OtasSystem[],
  runs: readonly Measured[],
): Figure => ({
  kind: "bars",
  id,
  title,
  caption: "Utility earned, of the ceiling: every query in time at the gamma that is best for it.",
  groups: cases.map(caseName),
  y: { title: "utility, of the ceiling", percent: true },
  series: systems.map(({ name }) => ({ name })),
  rows: cases.flatMap((at) =>
    systems.map((system) => {
      const { earned, offered } = resultOf(runs, at, system).result;
      return { group: caseName(at), series: system.name, y: earned.mean / (ceilingPart() * offered.mean) };
    }),
  ),
});

/** By how much one system earns more than the best of others, by case. @param least it is to be as much. */
export const gainFindings = (
  promise: string,
  least: number,
  cases: readonly Case[],
  runs: readonly Measured[],
  system: OtasSystem,
  others: readonly OtasSystem[],
): Finding[] =>
  cases.map((at) => {
    const best = bestOf(runs, at, others);
    const gain = resultOf(runs, at, system).result.earned.mean / best.result.earned.mean - 1;
    const { label } = best.setting;
    return {
      promise: `${caseName(at)}: ${promise}`,
      found: `${gain >= 0 ? "+" : ""}${percent(gain)} over ${best.system.name}${label === "" ? "" : ` (${label})`}`,
      holds: gain >= least,
    };
  });

/** Past the paper: so much more than OTAS, or half of what lies between it and the ceiling. */
const MORE = 0.05;

export const pastFindings = (
  cases: readonly Case[],
  runs: readonly Measured[],
  ours: OtasSystem,
  theirs: OtasSystem,
): Finding[] =>
  cases.map((at) => {
    const { earned, offered } = resultOf(runs, at, theirs).result;
    const gain = resultOf(runs, at, ours).result.earned.mean / earned.mean - 1;
    const least = Math.min(MORE, ((ceilingPart() * offered.mean) / earned.mean - 1) / 2);
    return {
      promise: `${caseName(at)}: ${ours.name} earns ${percent(least)} more than ${theirs.name}, the least of ${100 * MORE} % and half of what is missing to the ceiling`,
      found: `+${percent(gain)}`,
      holds: gain >= least,
    };
  });

/** What the paper has, by trace: by how much OTAS earns more (§V; of MAF it says "up to"), and how queries end there. */
const PAPER_GAIN: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  synthetic: { PetS: "18.2 %", INFaaS: "72.5 %" },
  maf: { PetS: "", INFaaS: "up to 90.1 %" },
};

export const gainTable = (
  cases: readonly Case[],
  runs: readonly Measured[],
  system: OtasSystem,
  others: readonly OtasSystem[],
): Table => ({
  title: `How much more utility ${system.name} earns`,
  columns: [{ title: "workload" }, { title: "than" }, right("ours"), right("paper")],
  rows: cases.flatMap((at) =>
    others.map((other) => {
      const gain = resultOf(runs, at, system).result.earned.mean / resultOf(runs, at, other).result.earned.mean - 1;
      return [caseName(at), other.name, percent(gain), PAPER_GAIN[at.source.name]?.[other.name] ?? ""];
    }),
  ),
});

export const TYPES = [
  ["right", "1: right in time"],
  ["wrong", "2: wrong in time"],
  ["late", "3: late"],
  ["evicted", "4: evicted"],
] as const;

/** Figure 13 has no numbers but these. */
const PAPER_TYPES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  synthetic: { OTAS: "right 85.54" },
  maf: { OTAS: "right 75.58", ToMe: "wrong 16.85", VPT: "right 64.14" },
};

export const typesTable = (cases: readonly Case[], runs: readonly Measured[]): Table => ({
  title: "How queries ended (§V), per cent of all",
  columns: [
    { title: "workload" },
    { title: "system" },
    { title: "setting" },
    ...TYPES.map(([, title]) => right(title)),
    { title: "paper" },
  ],
  rows: cases.flatMap((at) =>
    runs
      .filter((run) => caseName(run.at) === caseName(at))
      .map(({ system, setting, result }) => [
        caseName(at),
        system.name,
        setting.label,
        ...TYPES.map(([type]) => (100 * result[type].mean).toFixed(2)),
        PAPER_TYPES[at.source.name]?.[system.name] ?? "",
      ]),
  ),
});

/** Which part of the batches each gamma has (Figure 12). */
export const gammaTable = (cases: readonly Case[], runs: readonly Measured[], system: OtasSystem): Table => {
  const names = [...new Set(cases.flatMap((at) => Object.keys(resultOf(runs, at, system).result.batches_by)))].sort(
    (a, b) => Number(a) - Number(b),
  );
  return {
    title: `Which gamma ${system.name} chooses, per cent of the batches`,
    columns: [{ title: "workload" }, ...names.map(right)],
    rows: cases.map((at) => {
      const { batches_by: by } = resultOf(runs, at, system).result;
      return [caseName(at), ...names.map((name) => (100 * (by[name] ?? 0)).toFixed(1))];
    }),
  };
};
