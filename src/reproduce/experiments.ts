/** Everything that `rubato reproduce` can run. */
import type { Experiment } from "./experiment.js";
import { fig1 } from "./symphony/fig1.js";
import { fig2 } from "./symphony/fig2.js";
import { fig6 } from "./symphony/fig6.js";
import { fig7 } from "./symphony/fig7.js";
import { fig9 } from "./symphony/fig9.js";
import { fig10 } from "./symphony/fig10.js";
import { fig12 } from "./symphony/fig12.js";
import { table2 } from "./symphony/table2.js";

export const EXPERIMENTS: readonly Experiment[] = [table2, fig1, fig2, fig6, fig7, fig9, fig10, fig12];

/** @returns the experiments that a name stands for: one, or all whose name begins with it and a slash. Empty: unknown. */
export function experimentsNamed(name: string): readonly Experiment[] {
  return EXPERIMENTS.filter((experiment) => experiment.name === name || experiment.name.startsWith(`${name}/`));
}
