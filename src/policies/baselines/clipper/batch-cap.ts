/** How large the next batch on one accelerator may be, as Clipper learns it from the batches that ended there. */
export interface BatchCap {
  /** Largest batch for a head that has so long left, µs; at least 1. */
  next(budgetUs: number): number;
  /** Whether that is a size to be tried out: then the batch is filled up to it with copies, so that it measures it. */
  explores(budgetUs: number): boolean;
  /** A batch ended. @param size that was executed, copies included. @param latencyUs from its dispatch on. */
  ended(size: number, latencyUs: number): void;
}

/** What the operator says, whatever is measured. */
export class FixedCap implements BatchCap {
  private readonly size: number;

  constructor(size: number) {
    this.size = size;
  }

  next(): number {
    return this.size;
  }

  explores(): boolean {
    return false;
  }

  ended(): void {}
}
