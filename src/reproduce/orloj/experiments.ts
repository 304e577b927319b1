/** All of ORLOJ's evaluation that is run here. Figure 12 is a benchmark (`rubato bench`). */
import type { Experiment } from "../experiment.js";
import { constants } from "./constants.js";
import { fig6 } from "./fig6.js";
import { fig13 } from "./fig13.js";
import { fig14 } from "./fig14.js";
import { load } from "./load.js";
import { reach } from "./reach/reach.js";
import { sweep } from "./sweep.js";
import { TABLES } from "./tables.js";
import { VIEWS } from "./views.js";

export const ORLOJ_EXPERIMENTS: readonly Experiment[] = [
  ...TABLES,
  fig6,
  ...VIEWS,
  fig13,
  fig14,
  load,
  sweep,
  constants,
  reach,
];
