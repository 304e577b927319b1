/** What PARD takes from others before anything is dropped (§5.1): a batch size for each module from its profile, and workers by rate. */
import { mean } from "../../measure/statistics.js";
import { type Application, waysOf } from "./applications.js";

export interface Provision {
  /** By module: planned batch, its time, and the part of the SLO that it is planned for. */
  readonly modules: readonly {
    readonly batch: number;
    readonly execMs: number;
    readonly sloMs: number;
    readonly workers: number;
    /** Requests of the pipeline per second that these do in planned batches. */
    readonly rps: number;
  }[];
  /** Of the module that does least, which is the pipeline's. */
  readonly capacityRps: number;
}

const BATCH_MAX = 64;
/** A request waits for one batch and runs in the next: the time of two of the planned size must fit (Nexus, Symphony §2). */
const WAITS = 2;

/** Where one module is to be short of workers: how many times as many as they need the others have. */
const EASED = 1.2;

/**
 * Batch sizes with the fewest workers for each request per second, such that two batches of every module on the longest way fit the SLO. Grown one
 * at a time, where a millisecond saves most. Workers: the whole number that each module's part of `workersMax` is, at the highest rate that they do.
 *
 * @param tight position of a module that all others have more workers than.
 */
export function provision(app: Application, workersMax: number, tight?: number): Provision {
  const sizes = app.modules.map(() => 1);
  for (;;) {
    let best = -1;
    let most = 0;
    for (const [index, size] of sizes.entries()) {
      if (size === BATCH_MAX) continue;
      const grown = sizes.with(index, size + 1);
      if (WAITS * longestMs(app, grown) > app.sloMs) continue;
      const saved = perRequestMs(app, index, size) - perRequestMs(app, index, size + 1);
      const gain = saved / app.modules[index]!.alphaMs;
      if (gain > most) [best, most] = [index, gain];
    }
    if (best < 0) break;
    sizes[best]!++;
  }
  const workers = workersFor(app, sizes, workersMax).map((count, index) =>
    tight === undefined || index === tight ? count : Math.ceil(EASED * count),
  );
  const slack = app.sloMs / longestMs(app, sizes);
  const modules = app.modules.map((_, index) => {
    const [batch, count] = [sizes[index]!, workers[index]!];
    const execMs = timeMs(app, index, batch);
    const sloMs = Number((slack * execMs).toFixed(3));
    return { batch, execMs, sloMs, workers: count, rps: moduleRps(app, index, batch, count) };
  });
  return { modules, capacityRps: Math.min(...modules.map(({ rps }) => rps)) };
}

/** Starts with one for each; the next worker goes where capacity is least. */
function workersFor(app: Application, sizes: readonly number[], workersMax: number): number[] {
  const workers = app.modules.map(() => 1);
  for (let count = workers.length; count < workersMax; count++) {
    let least = 0;
    for (const index of workers.keys())
      if (moduleRps(app, index, sizes[index]!, workers[index]!) < moduleRps(app, least, sizes[least]!, workers[least]!))
        least = index;
    workers[least]!++;
  }
  return workers;
}

/** Requests of the pipeline per second that a module lets through. */
function moduleRps(app: Application, index: number, size: number, workers: number): number {
  return (1000 * workers) / perRequestMs(app, index, size) / runsOf(app, index);
}

/** How often a request of the pipeline runs in the module. */
function runsOf(app: Application, index: number): number {
  const { modules, parts } = app;
  const leadsTo = (from: number): boolean => from === index || modules[from]!.subs.some(leadsTo);
  const ways = index === 0 ? undefined : waysOf(app);
  const share = ways?.reduce((sum, part, way) => (leadsTo(modules[0]!.subs[way]!) ? sum + part : sum), 0) ?? 1;
  return parts !== undefined && index >= parts.from && index < parts.join ? share * mean(parts.counts) : share;
}

function timeMs(app: Application, index: number, size: number): number {
  const { alphaMs, betaMs } = app.modules[index]!;
  return alphaMs * size + betaMs;
}

const perRequestMs = (app: Application, index: number, size: number): number => timeMs(app, index, size) / size;

function longestMs(app: Application, sizes: readonly number[]): number {
  const fromHere = new Map<number, number>();
  const longest = (index: number): number => {
    const known = fromHere.get(index);
    if (known !== undefined) return known;
    const after = Math.max(0, ...app.modules[index]!.subs.map(longest));
    fromHere.set(index, timeMs(app, index, sizes[index]!) + after);
    return fromHere.get(index)!;
  };
  return longest(0);
}
