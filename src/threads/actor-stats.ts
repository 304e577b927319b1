/** What the actors' threads measure of themselves, in shared memory: each writes its own row, anyone reads. */
const COLUMNS = 8;
const TURNS = 0;
const DUE_TURNS = 1;
const LAG_SUM_US = 2;
const LAG_MAX_US = 3;
const STALLS = 4;

/** Work that is due and waits longer than this is a stall, µs. */
const STALL_US = 50_000;

/** Sums over threads. `due` turns are the rank's: nothing of queue threads waits on time. Lags are how late they came, µs. */
export interface ActorTotals {
  readonly turns: number;
  readonly dueTurns: number;
  readonly lagSumUs: number;
  readonly lagMaxUs: number;
  readonly stalls: number;
}

export function createActorStats(threads: number): SharedArrayBuffer {
  return new SharedArrayBuffer(threads * COLUMNS * Float64Array.BYTES_PER_ELEMENT);
}

/** The end of the thread that writes. */
export class ActorStats {
  private readonly cells: Float64Array;

  constructor(stats: SharedArrayBuffer, row: number) {
    this.cells = new Float64Array(stats, row * COLUMNS * Float64Array.BYTES_PER_ELEMENT, COLUMNS);
  }

  /** @param lagUs how long what was due has waited; -1: the turn had nothing due. */
  turned(lagUs: number): void {
    const { cells } = this;
    cells[TURNS] = cells[TURNS]! + 1;
    if (lagUs < 0) return;
    cells[DUE_TURNS] = cells[DUE_TURNS]! + 1;
    cells[LAG_SUM_US] = cells[LAG_SUM_US]! + lagUs;
    if (lagUs > cells[LAG_MAX_US]!) cells[LAG_MAX_US] = lagUs;
    if (lagUs > STALL_US) cells[STALLS] = cells[STALLS]! + 1;
  }
}

export function actorTotals(stats: SharedArrayBuffer): ActorTotals {
  const cells = new Float64Array(stats);
  const totals = { turns: 0, dueTurns: 0, lagSumUs: 0, lagMaxUs: 0, stalls: 0 };
  for (let row = 0; row < cells.length; row += COLUMNS) {
    totals.turns += cells[row + TURNS]!;
    totals.dueTurns += cells[row + DUE_TURNS]!;
    totals.lagSumUs += cells[row + LAG_SUM_US]!;
    totals.lagMaxUs = Math.max(totals.lagMaxUs, cells[row + LAG_MAX_US]!);
    totals.stalls += cells[row + STALLS]!;
  }
  return totals;
}
