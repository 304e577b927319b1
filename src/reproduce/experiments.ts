/** Everything that `rubato reproduce` can run. */
import type { Experiment } from "./experiment.js";
import { ORLOJ_EXPERIMENTS } from "./orloj/experiments.js";
import { OTAS_EXPERIMENTS } from "./otas/experiments.js";
import { PARD_EXPERIMENTS } from "./pard/experiments.js";
import { rag } from "./pard/rag/rag.js";
import { fig1 } from "./symphony/fig1.js";
import { fig2 } from "./symphony/fig2.js";
import { fig4, fig5 } from "./symphony/fig4.js";
import { fig6 } from "./symphony/fig6.js";
import { fig7 } from "./symphony/fig7/fig7.js";
import { fig7Readings } from "./symphony/fig7/fig7-readings.js";
import { fig9 } from "./symphony/fig9.js";
import { fig10 } from "./symphony/fig10.js";
import { fig11 } from "./symphony/fig11.js";
import { fig12 } from "./symphony/fig12.js";
import { fig13 } from "./symphony/fig13.js";
import { fig14 } from "./symphony/fig14.js";
import { fig15 } from "./symphony/fig15.js";
import { fig16 } from "./symphony/fig16.js";
import { table2 } from "./symphony/table2.js";

export const EXPERIMENTS: readonly Experiment[] = [
  table2,
  fig1,
  fig2,
  fig4,
  fig5,
  fig6,
  fig7,
  fig7Readings,
  fig9,
  fig10,
  fig11,
  fig12,
  fig13,
  fig14,
  fig15,
  fig16,
  ...ORLOJ_EXPERIMENTS,
  ...PARD_EXPERIMENTS,
  rag,
  ...OTAS_EXPERIMENTS,
];

/**
 * @returns the experiments that a name stands for: one by its whole name, all of a paper, or those of every paper that have it
 * after the slash. Empty: unknown.
 */
export function experimentsNamed(name: string): readonly Experiment[] {
  return EXPERIMENTS.filter(
    (experiment) =>
      experiment.name === name || experiment.name.startsWith(`${name}/`) || experiment.name.endsWith(`/${name}`),
  );
}
