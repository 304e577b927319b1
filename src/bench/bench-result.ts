/** What every benchmark says, and how much of it is asked for. */
export interface BenchResult {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** Setting and side figures, for people. */
  readonly detail: string;
  /** The same value means the same answer. */
  readonly digest: string;
  /** Further figures, by name, for machines; units are in the names. */
  readonly figures?: Readonly<Record<string, number>>;
}

export interface BenchSize {
  /** Work relative to the full size; CI runs it tiny. Default 1. */
  readonly size?: number;
}
