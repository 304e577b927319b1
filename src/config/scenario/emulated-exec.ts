/** Execution time of an emulated model. */

import { type DurationUs, workUsFromMs } from "../../core/time.js";
import type { EmulatedSpec } from "../model.js";

/** l(rows) as the specification gives it; beyond a table its last step is continued. */
export function emulatedExecUs(spec: EmulatedSpec, rows: number): DurationUs {
  const table = spec.tableMs;
  if (table === null || table.length === 0) return workUsFromMs(spec.alphaMs * rows + spec.betaMs);
  if (rows <= table.length) return workUsFromMs(table[rows - 1]!);
  const last = table[table.length - 1]!;
  const step = table.length > 1 ? last - table[table.length - 2]! : last;
  return workUsFromMs(last + step * (rows - table.length));
}
