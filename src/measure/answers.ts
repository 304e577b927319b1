/** Whether answers were right, and by how much work they were made: of requests of elastic models. */

/** The four types of OTAS §V, accuracy of what was answered in time. */
export interface Answers {
  /** In time. */
  readonly right: number;
  readonly wrong: number;
  /** Executed and late, right or wrong. */
  readonly late: number;
  /** Given up or failed before they were executed; the cancelled are in no type. */
  readonly evicted: number;
  /** right / (right + wrong); null when nothing was in time. */
  readonly accuracy: number | null;
}

/** Of one way of running the model. */
export interface VariantUse {
  /** Executed by it. */
  readonly requests: number;
  /** Batches that started in the counted interval; of a kind: those that had a member of it. */
  readonly batches: number;
}

/** Plain data. */
export interface AnswersSnapshot {
  readonly right: readonly number[];
  readonly requests: readonly number[];
  readonly batches: readonly number[];
}

/** Counts by row of the collector. */
export class AnswerCounts {
  private readonly names: readonly string[];
  private readonly right: Float64Array;
  /** By row and variant. */
  private readonly requests: Float64Array;
  private readonly batches: Float64Array;
  /** By row: the batch that was counted last. */
  private readonly lastBatch: Float64Array;

  /** @param names of the variants of all models. */
  constructor(rows: number, names: readonly string[]) {
    this.names = names;
    this.right = new Float64Array(rows);
    this.requests = new Float64Array(rows * names.length);
    this.batches = new Float64Array(rows * names.length);
    this.lastBatch = new Float64Array(rows);
  }

  /** A request was executed. @param isRight and in time. */
  answered(row: number, variant: number, isRight: boolean): void {
    this.requests[row * this.names.length + variant]! += 1;
    if (isRight) this.right[row]! += 1;
  }

  /** A member of the row was in this batch; counted once however many of its members were. @param batch > 0, another one for each batch. */
  batchOf(row: number, variant: number, batch: number): void {
    if (this.lastBatch[row] === batch) return;
    this.lastBatch[row] = batch;
    this.batches[row * this.names.length + variant]! += 1;
  }

  snapshot(): AnswersSnapshot {
    return { right: [...this.right], requests: [...this.requests], batches: [...this.batches] };
  }

  merge(other: AnswersSnapshot): void {
    for (const name of ["right", "requests", "batches"] as const)
      other[name].forEach((value, index) => {
        this[name][index]! += value;
      });
  }

  /** @param outcomes of the same rows. */
  report(
    rows: readonly number[],
    outcomes: { readonly finished: number; readonly late: number; readonly evicted: number },
  ): { answers: Answers; by_variant: Record<string, VariantUse> } {
    const right = rows.reduce((all, row) => all + this.right[row]!, 0);
    const { finished, late, evicted } = outcomes;
    const total = (counts: Float64Array, variant: number): number =>
      rows.reduce((all, row) => all + counts[row * this.names.length + variant]!, 0);
    const uses = this.names.map(
      (name, variant) =>
        [name, { requests: total(this.requests, variant), batches: total(this.batches, variant) }] as const,
    );
    return {
      answers: answersOf(right, finished - right, late, evicted),
      by_variant: Object.fromEntries(uses.filter(([, { requests, batches }]) => requests + batches > 0)),
    };
  }
}

const answersOf = (right: number, wrong: number, late: number, evicted: number): Answers => ({
  right,
  wrong,
  late,
  evicted,
  accuracy: right + wrong === 0 ? null : right / (right + wrong),
});

/** Of several runs together. */
export function joinAnswers(parts: readonly Answers[]): Answers {
  const total = (field: "right" | "wrong" | "late" | "evicted"): number =>
    parts.reduce((all, part) => all + part[field], 0);
  return answersOf(total("right"), total("wrong"), total("late"), total("evicted"));
}

/** The same. */
export function joinUses(parts: readonly Readonly<Record<string, VariantUse>>[]): Record<string, VariantUse> {
  const joined: Record<string, VariantUse> = {};
  for (const part of parts)
    for (const [name, { requests, batches }] of Object.entries(part)) {
      const before = joined[name] ?? { requests: 0, batches: 0 };
      joined[name] = { requests: before.requests + requests, batches: before.batches + batches };
    }
  return joined;
}
