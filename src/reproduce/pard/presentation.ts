/** Tables and figures of drop and invalid rates. */
import type { Finding, Table } from "../experiment.js";
import { formatPercent, type Measured, workloadOf } from "./runs.js";
import type { PipelineSystem } from "./systems.js";

export const right = (title: string) => ({ title, align: "right" as const });
export const LOST = { title: "drop rate", percent: true } as const;
export const IN_VAIN = { title: "invalid rate", percent: true } as const;

/** Runs of one case beside each other. */
export function casesOf(runs: readonly Measured[]): Measured[][] {
  const cases = new Map<Measured["at"], Measured[]>();
  for (const run of runs) cases.set(run.at, [...(cases.get(run.at) ?? []), run]);
  return [...cases.values()];
}

export const runOfSystem = (runs: readonly Measured[], { name }: PipelineSystem): Measured =>
  runs.find(({ system }) => system.name === name)!;

/** "1.23 ± 0.04 (0.56)": drop rate and, in brackets, invalid rate in per cent. */
export const formatRates = ({ drop_rate: drop, invalid_rate: invalid }: Measured["result"]): string =>
  `${formatPercent(drop)} (${(100 * invalid.mean).toFixed(2)})`;

export const ratesTable = (title: string, runs: readonly Measured[], systems: readonly PipelineSystem[]): Table => ({
  title: `${title}: drop rate and, in brackets, invalid rate in per cent, mean and standard deviation over seeds`,
  columns: [{ title: "workload" }, { title: "workers by" }, right("load"), ...systems.map(({ name }) => right(name))],
  rows: casesOf(runs).map((each) => [
    workloadOf(each[0]!.at),
    each[0]!.at.rule,
    each[0]!.at.load.toFixed(1),
    ...systems.map((system) => formatRates(runOfSystem(each, system).result)),
  ]),
});

/** Where requests are lost. */
export const placesTable = (title: string, runs: readonly Measured[]): Table => {
  const width = Math.max(...runs.map(({ result }) => result.lost_in.length));
  return {
    title: `${title}: of the lost requests, per cent by module`,
    columns: [
      { title: "workload" },
      { title: "system" },
      right("drop rate"),
      ...Array.from({ length: width }, (_, module) => right(`M${module + 1}`)),
    ],
    rows: runs.map(({ at, system, result }) => [
      workloadOf(at),
      system.name,
      formatPercent(result.drop_rate),
      ...Array.from({ length: width }, (_, module) =>
        module < result.lost_in.length ? (100 * result.lost_in[module]!.share).toFixed(0) : "",
      ),
    ]),
  };
};

/** Of the lost requests, the part in the first modules of the pipeline. */
export const lostInFirst = ({ result }: Measured, modules: number): number =>
  result.lost_in.slice(0, modules).reduce((sum, { share }) => sum + share, 0);

export const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;

/** How many of some cases keep a promise, and which do not. */
export function held(promise: string, cases: readonly { readonly name: string; readonly holds: boolean }[]): Finding {
  const missed = cases.filter(({ holds }) => !holds);
  const names = missed.length === 0 ? "" : `; not ${missed.map(({ name }) => name).join(", ")}`;
  return { promise, found: `${cases.length - missed.length} of ${cases.length}${names}`, holds: missed.length === 0 };
}
