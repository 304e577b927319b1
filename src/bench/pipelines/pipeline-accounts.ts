/** What a server's metrics say of one pipeline: how its requests ended and where, and what accelerators did for them. */

export interface PipelineAccounts {
  /** Requests by how they ended. */
  readonly ended: Readonly<Record<string, number>>;
  /** Of those that were dropped: by the module where that was decided; "": at the entrance. */
  readonly drops: Readonly<Record<string, number>>;
  /** Seconds of accelerators by how the request ended. */
  readonly seconds: Readonly<Record<string, number>>;
}

const LINE = /^(rubato_pipeline_requests_total|rubato_pipeline_accelerator_seconds_total)\{([^}]*)\} (\S+)$/gm;

/** @param text as /metrics shows it, since the server started. */
export function accountsOf(text: string, pipeline: string): PipelineAccounts {
  const ended: Record<string, number> = {};
  const drops: Record<string, number> = {};
  const seconds: Record<string, number> = {};
  const add = (to: Record<string, number>, key: string, value: number): void => {
    to[key] = (to[key] ?? 0) + value;
  };
  for (const [, family, written, value] of text.matchAll(LINE)) {
    const labels = Object.fromEntries([...written!.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, label]) => [key, label]));
    if (labels.pipeline !== pipeline) continue;
    const outcome = labels.outcome!;
    if (family === "rubato_pipeline_accelerator_seconds_total") add(seconds, outcome, Number(value));
    else {
      add(ended, outcome, Number(value));
      if (outcome === "dropped") add(drops, labels.module!, Number(value));
    }
  }
  return { ended, drops, seconds };
}

/** What came between two looks. */
export function accountsBetween(before: PipelineAccounts, after: PipelineAccounts): PipelineAccounts {
  return combined([after, before], ([now, then]) => now! - then!);
}

export const accountsTogether = (all: readonly PipelineAccounts[]): PipelineAccounts =>
  combined(all, (values) => values.reduce((sum, value) => sum + value, 0));

function combined(all: readonly PipelineAccounts[], combine: (values: readonly number[]) => number): PipelineAccounts {
  const of = (field: keyof PipelineAccounts): Record<string, number> => {
    const keys = new Set(all.flatMap((each) => Object.keys(each[field])));
    const rows = [...keys].map((key) => [key, combine(all.map((each) => each[field][key] ?? 0))] as const);
    return Object.fromEntries(rows.filter(([, value]) => value !== 0));
  };
  return { ended: of("ended"), drops: of("drops"), seconds: of("seconds") };
}

const sumOf = (values: Readonly<Record<string, number>>): number =>
  Object.values(values).reduce((sum, value) => sum + value, 0);

/** Part of the drops that were decided at the entrance or in these modules; NaN: nothing was dropped. */
export function droppedIn({ drops }: PipelineAccounts, modules: readonly string[]): number {
  const before = Object.entries(drops).filter(([module]) => module === "" || modules.includes(module));
  return sumOf(Object.fromEntries(before)) / sumOf(drops);
}

/** Part of the accelerators' time that requests had which did not finish in time; NaN: they had none. */
export const wasted = ({ seconds }: PipelineAccounts): number =>
  (sumOf(seconds) - (seconds.finished ?? 0)) / sumOf(seconds);
