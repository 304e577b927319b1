/** Runs of OTAS's evaluation: a machine, a trace, a system. */
import { type GetResult, pick, type Size, seedsUpTo } from "../experiment.js";
import type { ElasticPoint, ElasticResult } from "../point.js";
import type { RateSource } from "./rates.js";
import { sourcesOf } from "./rates.js";
import { scenarioOf } from "./scenario.js";
import type { OtasSystem, Setting } from "./systems.js";
import { MACHINES, type Machine } from "./vision-transformer.js";

/** Of Figure 11's axis. */
export const STEPS = 50;

export interface Run {
  readonly seconds: number;
  readonly seeds: readonly number[];
}

/** The paper's 30 minutes are `full`. */
export const runOf = (size: Size): Run => ({
  seconds: pick(size, { tiny: 4, small: 60, default: 300, full: 1800 }),
  seeds: seedsUpTo(pick(size, { tiny: 1, small: 2, default: 5, full: 5 })),
});

export interface Case {
  readonly machine: Machine;
  readonly source: RateSource;
}

export const caseName = ({ machine, source }: Case): string => `${source.name}, ${machine.name}`;

export const casesOf = (dataDir: string | undefined): Case[] =>
  MACHINES.flatMap((machine) => sourcesOf(dataDir).map((source) => ({ machine, source })));

export const describeRun = ({ seconds, seeds }: Run, cases: readonly Case[]): string => {
  const files = [...new Set(cases.flatMap(({ source }) => source.file ?? []))];
  return [`seeds 1 to ${seeds.length}, ${seconds} s each`, ...files.map((file) => `maf from ${file}`)].join(", ");
};

interface PlannedSetting {
  readonly at: Case;
  readonly system: OtasSystem;
  readonly setting: Setting;
  readonly point: ElasticPoint;
}

export const planned = (cases: readonly Case[], systems: readonly OtasSystem[], run: Run): PlannedSetting[] =>
  cases.flatMap((at) => {
    const scenario = scenarioOf(`${at.source.name}`, at.source.rates(run.seconds), at.machine);
    return systems.flatMap((system) =>
      system.settings.map((setting) => ({
        at,
        system,
        setting,
        point: { kind: "elastic" as const, scenario, choice: setting.choice, seeds: run.seeds, steps: STEPS },
      })),
    );
  });

/** A system by its best setting in a case. */
export interface Measured {
  readonly at: Case;
  readonly system: OtasSystem;
  readonly setting: Setting;
  readonly result: ElasticResult;
}

/** By case, then by system. */
export function measured(runs: readonly PlannedSetting[], get: GetResult): Measured[] {
  const best = new Map<string, Measured>();
  for (const { at, system, setting, point } of runs) {
    const key = `${caseName(at)}/${system.name}`;
    const result = get(point);
    const before = best.get(key);
    if (before === undefined || before.result.earned.mean < result.earned.mean)
      best.set(key, { at, system, setting, result });
  }
  return [...best.values()];
}

export const resultOf = (runs: readonly Measured[], at: Case, { name }: OtasSystem): Measured =>
  runs.find((run) => caseName(run.at) === caseName(at) && run.system.name === name)!;

/** The one that earns most. */
export const bestOf = (runs: readonly Measured[], at: Case, systems: readonly OtasSystem[]): Measured =>
  systems
    .map((system) => resultOf(runs, at, system))
    .reduce((best, run) => (run.result.earned.mean > best.result.earned.mean ? run : best));
