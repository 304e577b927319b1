/** Everything that `rubato reproduce` can run. */
import type { Experiment } from "./experiment.js";
import { table2 } from "./symphony/table2.js";

export const EXPERIMENTS: readonly Experiment[] = [table2];

/** @returns the experiments that a name stands for: one, or all whose name begins with it and a slash. Empty: unknown. */
export function experimentsNamed(name: string): readonly Experiment[] {
  return EXPERIMENTS.filter((experiment) => experiment.name === name || experiment.name.startsWith(`${name}/`));
}
