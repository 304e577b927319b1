/**
 * Policies on the same arrivals, at once or in turn. What a pair shares, its seed and its moments on the machine, is no difference
 * between its policies; the order is drawn anew, at each arrival or for each pair, so that nobody always runs behind the same one.
 */
import { shuffle } from "../../measure/shuffle.js";
import { stream } from "../../sim/random.js";

/** Who runs: the default, what it is held against, and eager once more, which shows what a pair cannot tell. */
export interface Contender {
  readonly name: string;
  /** Of the SLO, of a timeout policy; null: another policy. */
  readonly timeoutFraction: number | null;
}

/** Of the SLO: what a timeout may wait, of which the best is taken. */
export const TIMEOUT_FRACTIONS = [0.1, 0.25, 0.5] as const;

const plain = (name: string): Contender => ({ name, timeoutFraction: null });
export const DEFAULT = plain("default");
export const EAGER = plain("eager");
export const CONTROL = plain("eager-again");

export const timeoutsOf = (fractions: readonly number[]): Contender[] =>
  fractions.map((timeoutFraction) => ({ name: `timeout-${timeoutFraction}`, timeoutFraction }));

/** What a run counted. */
export interface RunCounts {
  readonly arrived: number;
  readonly in_time: number;
  /** Answered, but after the deadline by the client's clock. */
  readonly late: number;
  /** p99 of actual less intended send time. */
  readonly lag_ms: number | null;
  /** Why it says nothing; null: it does. */
  readonly void_reason: string | null;
}

export interface PairedRun extends RunCounts {
  readonly pair: number;
  readonly contender: string;
}

export interface PairPlan {
  readonly pairs: number;
  /** Further pairs in place of void ones, at most. */
  readonly sparePairs: number;
  /** Pairs in which all timeouts run; in the others the best of them does. */
  readonly sweepPairs: number;
  /** Pairs that follow each other in one run, at most. */
  readonly pairsPerRun: number;
  readonly timeouts: readonly number[];
  readonly hasControl: boolean;
  /** Times that a void run of one contender is made again, at most. */
  readonly repeatsMax: number;
}

/** Counts by pair, of the contenders in their order, on the arrivals of the pair; the same pairs, the same arrivals. */
export type Runs = (
  contenders: readonly Contender[],
  pairs: readonly number[],
) => Promise<readonly (readonly RunCounts[])[]>;

/** @param run fewer counts of a pair than contenders where it was given up. @param others that run in every pair, too. */
export async function runPairs(plan: PairPlan, run: Runs, others: readonly Contender[] = []): Promise<PairedRun[]> {
  const runs: PairedRun[] = [];
  const timeouts = timeoutsOf(plan.timeouts);
  const common = [DEFAULT, EAGER, ...others, ...(plan.hasControl ? [CONTROL] : [])];
  const last = plan.pairs + plan.sparePairs;
  let valid = 0;
  for (let next = 0; valid < plan.pairs && next < last; ) {
    const isSwept = valid < plan.sweepPairs;
    const wanted = (isSwept ? plan.sweepPairs : plan.pairs) - valid;
    const first = next;
    next = Math.min(last, first + Math.min(wanted, plan.pairsPerRun));
    const turn = [...common, ...(isSwept ? timeouts : [bestOf(timeouts, runs)])];
    shuffle(turn, turn.length, stream(first, "bench/default/order"));
    const made = await run(
      turn,
      Array.from({ length: next - first }, (_, index) => first + index),
    );
    for (const [index, counts] of made.entries()) {
      const own = counts.map((each, at) => ({ pair: first + index, contender: turn[at]!.name, ...each }));
      runs.push(...own);
      if (isComparable(own)) valid++;
    }
  }
  return runs;
}

/** One contender after the other, pair by pair; what says nothing is made again by itself. */
export function inTurn({ repeatsMax }: Pick<PairPlan, "repeatsMax">, run: Runs): Runs {
  return async (contenders, pairs) => {
    const all: RunCounts[][] = [];
    for (const pair of pairs) {
      const made: RunCounts[] = [];
      all.push(made);
      for (const contender of contenders) {
        const again = async () => (await run([contender], [pair]))[0]![0]!;
        let counts = await again();
        for (let time = 0; counts.void_reason !== null && time < repeatsMax; time++) counts = await again();
        made.push(counts);
        // Whatever the others would do, this pair is not compared.
        if (counts.void_reason !== null) break;
      }
    }
    return all;
  };
}

/**
 * One after the other in an order drawn for the pair; a void run is made again, and if that is void, too, the pair is given up.
 * @param order name of the stream that the order is drawn from.
 */
export async function runInDrawnOrder<
  C extends { readonly name: string },
  T extends { readonly void_reason: string | null },
>(
  contenders: readonly C[],
  { pair, order, repeatsMax }: { readonly pair: number; readonly order: string; readonly repeatsMax: number },
  run: (contender: C) => Promise<T>,
): Promise<({ readonly pair: number; readonly contender: string } & T)[]> {
  const turn = [...contenders];
  shuffle(turn, turn.length, stream(pair, order));
  const made: ({ readonly pair: number; readonly contender: string } & T)[] = [];
  for (const contender of turn) {
    let counts = await run(contender);
    for (let time = 0; counts.void_reason !== null && time < repeatsMax; time++) counts = await run(contender);
    made.push({ pair, contender: contender.name, ...counts });
    if (counts.void_reason !== null) break;
  }
  return made;
}

/** Runs of one pair can be compared if each says something, and the same requests arrived in all. */
export const isComparable = (runs: readonly PairedRun[]): boolean =>
  runs.every(({ void_reason, arrived }) => void_reason === null && arrived === runs[0]!.arrived);

/** Who has most in time over the pairs that all of them ran in; the first of equals. */
export function bestOf<T extends { readonly name: string }>(contenders: readonly T[], runs: readonly PairedRun[]): T {
  const names = contenders.map(({ name }) => name);
  const total = new Map(names.map((name) => [name, 0]));
  for (const pair of new Set(runs.map((run) => run.pair))) {
    const own = runs.filter((run) => run.pair === pair);
    if (!isComparable(own) || names.some((name) => !own.some(({ contender }) => contender === name))) continue;
    for (const { contender, in_time } of own)
      if (total.has(contender)) total.set(contender, total.get(contender)! + in_time);
  }
  return contenders.reduce((best, each) => (total.get(each.name)! > total.get(best.name)! ? each : best));
}
