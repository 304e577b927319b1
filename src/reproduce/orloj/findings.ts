/** What is promised of ORLOJ's tables, and what was found. */
import type { Finding } from "../experiment.js";
import { publishedRate } from "./published.js";
import { type BoundedRow, bestAt, finishedOf, LOADS, type MeasuredRow } from "./runs.js";
import { ALL, FAIR, ORLOJ_FAIR, PLUS, PUBLISHED, type ToldSystem } from "./systems.js";

/** Finish rates within this are a tie. */
const TIE = 0.03;
/** Rows whose order must be the paper's. */
const ORDER_PART = 0.9;
/** distribution+ beside the best with equal information: at most this below, and this above where many are lost. */
const BELOW_MAX = 0.01;
export const ABOVE_MIN = 0.05;
const LOST = 0.9;
/** Static models: distances, from this SLO on. */
const STATIC_WITHIN = 0.03;
const STATIC_SLO = 3;
/** Of sums of decimal fractions. */
const ROUNDING = 1e-9;

export interface OrderAgreement {
  /** All pairs that are ordered in the paper are ordered so, by more than a tie. */
  readonly isSame: boolean;
  /** Some pair is ordered the other way, by more than a tie. */
  readonly isContrary: boolean;
}

/** @param theirs and ours: finish rates of the same systems. */
export function compareOrder(theirs: readonly number[], ours: readonly number[]): OrderAgreement {
  let [isSame, isContrary] = [true, false];
  for (let a = 0; a < theirs.length; a++)
    for (let b = 0; b < theirs.length; b++) {
      if (theirs[a]! - theirs[b]! <= TIE + ROUNDING) continue;
      const by = ours[a]! - ours[b]!;
      if (by <= TIE + ROUNDING) isSame = false;
      if (by < -TIE - ROUNDING) isContrary = true;
    }
  return { isSame, isContrary };
}

/** Of the systems as published. @param load index of it. */
export const orderAt = (row: MeasuredRow, load: number): OrderAgreement =>
  compareOrder(
    PUBLISHED.map(({ name }) => publishedRate(row.workload.caseId, row.slo, name)!),
    PUBLISHED.map((system) => finishedOf(row, system, load).mean),
  );

/** As published: the order of the systems, by load. */
export function orderFindings(rows: readonly MeasuredRow[]): Finding[] {
  return LOADS.map((load, index) => {
    const each = rows.map((row) => orderAt(row, index));
    const same = each.filter(({ isSame }) => isSame).length;
    const contrary = each.filter(({ isContrary }) => isContrary).length;
    return {
      promise: `load ${load}, as published: the paper's order of ${PUBLISHED.map(({ name }) => name).join(", ")} in ${ORDER_PART * 100} % of rows (within ${TIE}: a tie)`,
      found: `${same} of ${each.length}; the contrary of some pair in ${contrary}`,
      holds: same >= ORDER_PART * each.length,
    };
  });
}

interface Distance {
  readonly row: MeasuredRow;
  readonly load: number;
  /** Of a system over the best of others. */
  readonly above: number;
  readonly best: number;
  readonly other: ToldSystem;
}

/** Of all rows at all loads. */
function distancesOf(rows: readonly MeasuredRow[], system: ToldSystem, others: readonly ToldSystem[]): Distance[] {
  return rows.flatMap((row) =>
    LOADS.map((_, load): Distance => {
      const best = bestAt(row, others, load);
      const { mean } = best.finished[load]!;
      return { row, load, above: finishedOf(row, system, load).mean - mean, best: mean, other: best.system };
    }),
  );
}

const leastOf = (distances: readonly Distance[]): Distance =>
  distances.reduce((least, each) => (each.above < least.above ? each : least));

const describe = ({ row, load, above, other }: Distance): string =>
  `${above >= 0 ? "+" : ""}${above.toFixed(3)} at ${row.workload.label}, SLO ${row.slo}, load ${LOADS[load]} (${other.name})`;

const isBounded = (row: MeasuredRow): row is BoundedRow => "bound" in row;

/** With equal information: what is past the paper is never worse, and better where many are lost. */
export function fairFindings(rows: readonly MeasuredRow[]): Finding[] {
  const all = distancesOf(rows, PLUS, FAIR);
  const below = all.filter(({ above }) => above < -BELOW_MAX - ROUNDING).length;
  const lost = all.filter(({ row, best }) => row.workload.isMultimodal && best < LOST);
  const short = lost.filter(({ above }) => above < ABOVE_MIN - ROUNDING);
  const beyond = (reference: "bound" | "known"): number =>
    short.filter(({ row, load, best }) => isBounded(row) && row[reference][load]!.mean < best + ABOVE_MIN).length;
  return [
    {
      promise: `${PLUS.name} nowhere more than ${BELOW_MAX} below the best of the others, given equal information`,
      found: `${below} of ${all.length} below; least ${describe(leastOf(all))}`,
      holds: below === 0,
    },
    ...(lost.length === 0
      ? []
      : [
          {
            promise: `${PLUS.name} at least ${ABOVE_MIN} above the best of the others where times have several modes and that is below ${LOST}`,
            found:
              `${lost.length - short.length} of ${lost.length}; least ${describe(leastOf(lost))}` +
              (isBounded(rows[0]!)
                ? `; of the others ${beyond("known")} are not reached with times known either, ${beyond("bound")} are beyond any scheduler by the bound`
                : ""),
            holds: short.length === 0,
          },
        ]),
  ];
}

/** Static models: distributions cost nothing where there are none. */
export function staticFindings(rows: readonly MeasuredRow[]): Finding[] {
  const others = ALL.filter((system) => system !== ORLOJ_FAIR);
  const distances = distancesOf(
    rows.filter(({ slo }) => slo >= STATIC_SLO),
    ORLOJ_FAIR,
    others,
  );
  const least = leastOf(distances);
  return [
    {
      promise: `${ORLOJ_FAIR.name} within ${STATIC_WITHIN} of the best at SLO ${STATIC_SLO} and more`,
      found: describe(least),
      holds: least.above >= -STATIC_WITHIN - ROUNDING,
    },
  ];
}
