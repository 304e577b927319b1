/** Tables and figures of drop and invalid rates. */
import type { Finding, Table } from "../experiment.js";
import { formatPercent, type Measured, workloadOf } from "./runs.js";
import { CLIPPER, NEXUS, PARD, type PipelineSystem } from "./systems.js";

/** "PARD lowest in all workloads": so much apart are equal. */
export const EQUAL = 0.002;
/** Where nobody loses more than this, ratios are not compared. */
const LEAST = 0.01;
/** 87 % of PARD's drops are in the first two modules, 51 to 97 % of Nexus's in the latter half (§5.3): at least so much of them. */
export const EARLY = 0.8;
export const LATE = 0.5;
/** "1.6x to 17x [...] and 1.5x to 62x" (abstract). */
const TIMES = { drop: 1.6, invalid: 1.5 } as const;

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

export const lostInLatterHalf = (run: Measured): number =>
  1 - lostInFirst(run, Math.ceil(run.result.lost_in.length / 2));

export const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;

/** How many of some cases keep a promise, and which do not. */
export function held(promise: string, cases: readonly { readonly name: string; readonly holds: boolean }[]): Finding {
  const missed = cases.filter(({ holds }) => !holds);
  const names = missed.length === 0 ? "" : `; not ${missed.map(({ name }) => name).join(", ")}`;
  return { promise, found: `${cases.length - missed.length} of ${cases.length}${names}`, holds: missed.length === 0 };
}

/** What the paper says of its four systems: PARD drops least, and how many times less than Nexus and Clipper++. @param each runs by case. */
export function comparisons(
  each: readonly (readonly Measured[])[],
  nameOf: (run: Measured) => string,
): { readonly least: Finding; readonly times: readonly Finding[] } {
  const judged = each.filter((runs) => runs.some(({ result }) => result.drop_rate.mean >= LEAST));
  const timesBelow = (key: "drop_rate" | "invalid_rate", times: number) =>
    judged.map((runs) => {
      const ours = runOfSystem(runs, PARD).result[key].mean;
      const least = Math.min(...[NEXUS, CLIPPER].map((other) => runOfSystem(runs, other).result[key].mean));
      return { name: nameOf(runs[0]!), holds: least >= times * ours, runs, least };
    });
  const drops = timesBelow("drop_rate", TIMES.drop);
  const beyond = (key: "bound" | "keep_up_bound"): string[] =>
    drops
      .filter(
        ({ runs, least, holds }) => !holds && least < TIMES.drop * (runOfSystem(runs, PARD).result[key]?.mean ?? 0),
      )
      .map(({ name }) => name);
  const below = held(
    `where any system drops ${100 * LEAST} % and more, PARD's drop rate is ${TIMES.drop} times below that of Nexus and Clipper++`,
    drops,
  );
  const [any, keepingUp] = [beyond("bound"), beyond("keep_up_bound")];
  const found =
    keepingUp.length === 0
      ? below.found
      : `${below.found}; of these ${keepingUp.length} beyond any scheduler whose batches keep up, ${any.length} beyond any: ${any.join(", ")}`;
  return {
    least: held(
      `PARD drops least in every case (${100 * EQUAL} points apart are equal)`,
      each.map((runs) => {
        const ours = runOfSystem(runs, PARD).result.drop_rate.mean;
        const least = Math.min(...runs.map(({ result }) => result.drop_rate.mean));
        return { name: nameOf(runs[0]!), holds: ours <= least + EQUAL };
      }),
    ),
    times: [
      { ...below, found },
      held(`and its invalid rate ${TIMES.invalid} times`, timesBelow("invalid_rate", TIMES.invalid)),
    ],
  };
}
