/**
 * What does it cost to know the most urgent request by ORLOJ's scores? The paper's Figure 12 (§5.5): time of an insertion and of a
 * query over the number of requests that wait, against log^2 n.
 *
 * For: comparing the priority queue of lines with lines by deadline and with looking at all. Not for: what a scheduler does
 * with the answer. All must find the same score at the same moments, so the digest is one for a number of requests, whatever
 * keeps them.
 */
import { Distribution } from "../../core/times/distribution.js";
import { Longest } from "../../core/times/longest.js";
import { median } from "../../measure/statistics.js";
import { Score } from "../../policies/distribution/score.js";
import type { Figure, LineRow } from "../../reproduce/figure.js";
import { writeFigure } from "../../reproduce/write-figure.js";
import { stream, type Uniform } from "../../sim/random.js";
import type { BenchResult } from "../bench-result.js";
import type { BenchOptions } from "../benches.js";
import { digestOf } from "../digest.js";
import { DeadlineOrder, LineOrder, ScanOrder, type ScoredRequests, type UrgencyOrder } from "./urgency-orders.js";

const PENDING = [10, 100, 1000, 10_000, 100_000];
/** Growth is taken between these. */
const GROWTH_FROM = 1000;
const GROWTH_TO = 100_000;
/** Operations timed together; fewer where fewer wait. */
const LOT = 100;
const LOTS = 300;
/** b = 1e-4 per ms (§4.4). */
const DELAY_RATE = 1e-7;
/** Three apps (Figure 8c), batches of 8: mean time alone, and SLO of each, µs. */
const MEANS_US = [10_000, 20_000, 40_000];
const SLOS_US = [400_000, 500_000, 600_000];
const BATCH = 8;
const BINS = 32;
/** Of a scan: 10 ms at most are spent on its queries in a lot. */
const SCANNED = 100_000;

interface Contender {
  readonly name: string;
  readonly text: string;
  /** Deadlines in any order, not one SLO for each kind. */
  readonly anyDeadline: boolean;
  readonly isScan?: boolean;
  create(requests: ScoredRequests): UrgencyOrder;
}

const CONTENDERS: readonly Contender[] = [
  { name: "lines", text: "priority queue of lines", anyDeadline: false, create: (requests) => new LineOrder(requests) },
  {
    name: "deadlines",
    text: "lines by deadline",
    anyDeadline: false,
    create: (requests) => new DeadlineOrder(requests),
  },
  {
    name: "deadlines-any",
    text: "lines by deadline, any SLO",
    anyDeadline: true,
    create: (requests) => new DeadlineOrder(requests),
  },
  {
    name: "scan",
    text: "looking at all",
    anyDeadline: false,
    isScan: true,
    create: (requests) => new ScanOrder(requests),
  },
];

/** Medians over lots, µs an operation. */
interface Costs {
  readonly insertUs: number;
  readonly removeUs: number;
  readonly queryUs: number;
  /** Of a request whose line changed as time passed. */
  readonly moveUs: number;
  readonly movesPerInsertion: number;
  /** Of the most urgent request, in each lot. */
  readonly highest: readonly number[];
}

/** @param size Relative to 300 lots of 100 operations at each number of requests. */
export async function benchDistribution({
  size,
  figuresDir,
  onProgress,
}: Pick<BenchOptions, "size" | "figuresDir" | "onProgress">): Promise<BenchResult[]> {
  const lots = Math.max(3, Math.round(LOTS * size));
  const pendings = size >= 0.1 ? PENDING : PENDING.slice(0, 3);
  const scores = scoresOf(stream(1, "distribution/times"));
  const results: BenchResult[] = [];
  const rows: LineRow[] = [];
  for (const contender of CONTENDERS) {
    // Compiles.
    measure(contender, scores, 1000, Math.min(lots, 50));
    for (const pending of pendings) {
      const costs = measure(contender, scores, pending, lots);
      onProgress(`${contender.text}, ${pending} wait: ${costs.insertUs.toFixed(2)} us an insertion\n`);
      results.push(resultOf(contender, pending, costs));
      for (const [panel, y] of Object.entries({
        insertion: costs.insertUs,
        deletion: costs.removeUs,
        query: costs.queryUs,
      }))
        rows.push({ x: pending, y, series: contender.text, panel });
      // Lets the process draw and be stopped between cases.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  const insertion = (pending: number): number | undefined =>
    results.find(({ name }) => name === `distribution-lines-${pending}`)?.value;
  const last = insertion(GROWTH_TO);
  if (last !== undefined) results.push(growthResult(insertion(GROWTH_FROM)!, last));
  for (const x of pendings)
    rows.push({
      x,
      y: insertion(GROWTH_FROM)! * (Math.log2(x) / Math.log2(GROWTH_FROM)) ** 2,
      series: LOG_SQUARED,
      panel: "insertion",
    });
  await writeFigure(figuresDir, figureOf(rows));
  return results;
}

const LOG_SQUARED = "log² n";

/** L of each app: a batch of 8 of its requests, whose times alone are log-normal around two modes. */
function scoresOf(random: Uniform): Score[] {
  return MEANS_US.map((meanUs) => {
    const sample = Float64Array.from({ length: 1000 }, () => {
      const normal = Math.sqrt(-2 * Math.log1p(-random())) * Math.cos(2 * Math.PI * random());
      return meanUs * (random() < 0.5 ? 0.5 : 1.5) * Math.exp(0.1 * normal);
    }).sort();
    const longest = new Longest([{ times: Distribution.ofSample(sample), count: BATCH }]).distribution();
    return new Score(longest.scaled(0.2 * BATCH, 2000).coarsened(BINS), DELAY_RATE);
  });
}

function measure(contender: Contender, scores: readonly Score[], pending: number, lots: number): Costs {
  const random = stream(pending, "distribution/requests");
  const whole = (below: number): number => Math.floor(random() * below);
  const lot = Math.min(LOT, pending);
  const capacity = pending + lot;
  const requests: ScoredRequests = {
    scores,
    kinds: new Uint8Array(capacity),
    deadlines: new Float64Array(capacity),
  };
  // As many arrive within an SLO as wait.
  const gapUs = SLOS_US[1]! / pending;
  let now = 1e9;
  const arrive = (handle: number, at: number): void => {
    const kind = whole(SLOS_US.length);
    requests.kinds[handle] = kind;
    requests.deadlines[handle] = at + (contender.anyDeadline ? Math.ceil(random() * SLOS_US[kind]!) : SLOS_US[kind]!);
  };
  const order = contender.create(requests);
  for (let handle = 0; handle < pending; handle++) {
    arrive(handle, Math.floor(now - (pending - 1 - handle) * gapUs));
    order.insert(handle, now);
  }
  const present = Array.from({ length: pending }, (_, handle) => handle);
  const free = Array.from({ length: lot }, (_, index) => pending + index);
  const queries = contender.isScan === true ? Math.max(1, Math.min(lot, Math.floor(SCANNED / pending))) : lot;
  const queryStepUs = Math.max(1, Math.floor((gapUs * lot) / (queries + 1)));
  const times = { insert: [] as number[], remove: [] as number[], query: [] as number[], move: [] as number[] };
  const highest: number[] = [];
  let moves = 0;
  let found = 0;
  for (let round = 0; round < lots; round++) {
    now += Math.max(queryStepUs * (queries + 1), Math.floor(gapUs * lot));
    let startUs = clockUs();
    const moved = order.moveOn(now);
    if (moved > 0) times.move.push((clockUs() - startUs) / moved);
    moves += moved;

    const added = free.slice();
    // They came since the last lot.
    for (const [index, handle] of added.entries()) arrive(handle, Math.floor(now - (lot - 1 - index) * gapUs));
    startUs = clockUs();
    for (const handle of added) order.insert(handle, now);
    times.insert.push((clockUs() - startUs) / lot);

    const best = order.best(now);
    highest.push(best < 0 ? 0 : scores[requests.kinds[best]!]!.valueAt(requests.deadlines[best]! - now));

    startUs = clockUs();
    for (let query = 1; query <= queries; query++) found += order.best(now + query * queryStepUs);
    times.query.push((clockUs() - startUs) / queries);

    present.push(...added);
    for (let index = 0; index < lot; index++) {
      const place = whole(present.length);
      free[index] = present[place]!;
      present[place] = present[present.length - 1]!;
      present.pop();
    }
    startUs = clockUs();
    for (const handle of free) order.remove(handle);
    times.remove.push((clockUs() - startUs) / lot);
  }
  if (!Number.isFinite(found)) throw new Error("a query must give a handle");
  return {
    insertUs: median(times.insert),
    removeUs: median(times.remove),
    queryUs: median(times.query),
    moveUs: times.move.length === 0 ? 0 : median(times.move),
    movesPerInsertion: moves / (lots * lot),
    highest,
  };
}

function resultOf({ name, text }: Contender, pending: number, costs: Costs): BenchResult {
  const { insertUs, removeUs, queryUs, moveUs, movesPerInsertion, highest } = costs;
  const moved =
    movesPerInsertion > 0
      ? `; as time passes ${movesPerInsertion.toFixed(1)} changes a request, ${moveUs.toFixed(2)} us each`
      : "";
  return {
    name: `distribution-${name}-${pending}`,
    value: insertUs,
    unit: "us an insertion",
    detail: `${text}, ${pending} wait: deletion ${removeUs.toFixed(2)} us, query ${queryUs.toFixed(2)} us${moved}`,
    digest: digestOf(highest.map((value) => value.toPrecision(6))),
    figures: {
      insert_us: insertUs,
      remove_us: removeUs,
      query_us: queryUs,
      move_us: moveUs,
      moves_per_insertion: movesPerInsertion,
    },
  };
}

function growthResult(from: number, to: number): BenchResult {
  const bound = (Math.log2(GROWTH_TO) / Math.log2(GROWTH_FROM)) ** 2;
  return {
    name: "distribution-growth",
    value: to / from,
    unit: "times an insertion",
    detail: `priority queue of lines, ${GROWTH_TO} that wait against ${GROWTH_FROM}; log^2 n grows ${bound.toFixed(2)} times`,
    digest: "none",
    figures: { growth: to / from, log_squared: bound },
  };
}

function figureOf(rows: readonly LineRow[]): Figure {
  return {
    id: "kind-queue",
    title: "What it costs to know the most urgent request",
    caption:
      "Medians over lots of up to 100 operations; three apps, scores of batches of 8 in 32 bins, b = 1e-4 per ms. Queries at advancing moments. log² n goes through the priority queue's insertion at 1,000.",
    kind: "lines",
    panels: ["insertion", "deletion", "query"],
    x: { title: "requests that wait", scale: "log" },
    y: { title: "time", unit: "us", scale: "log" },
    series: [...CONTENDERS.map(({ text }) => ({ name: text })), { name: LOG_SQUARED, kind: "published" }],
    publishedAs: "line",
    rows,
  };
}

const clockUs = (): number => Number(process.hrtime.bigint()) / 1000;
