/** All of PARD's evaluation that is run here. */
import type { Experiment } from "../experiment.js";
import { bottleneck } from "./bottleneck.js";
import { dynamic } from "./dynamic.js";
import { estimates } from "./estimates.js";
import { fig8 } from "./fig8.js";
import { fig11 } from "./fig11.js";
import { fig12 } from "./fig12.js";
import { fig13 } from "./fig13.js";
import { fig14 } from "./fig14.js";
import { past } from "./past.js";
import { profiles } from "./profiles.js";
import { fig2, fig9, fig10 } from "./windows.js";

export const PARD_EXPERIMENTS: readonly Experiment[] = [
  fig2,
  fig8,
  fig9,
  fig10,
  fig11,
  fig12,
  fig13,
  fig14,
  dynamic,
  bottleneck,
  profiles,
  past,
  estimates,
];
