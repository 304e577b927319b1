import type { RequestHandle } from "../../core/tables/request-table.js";

/** What is asked: a batch that would start then. */
export interface Occasion {
  /** Start of execution of a batch of one. */
  readonly startAt: number;
  /** That each further member delays it, µs. */
  readonly dataUs: number;
  /** Of the accelerator. */
  readonly scale: number;
  readonly sizeMax: number;
  /** How many there are, this one counted. */
  readonly accelerators: number;
}

/** Members of a batch, chained by requests.next and out of their lines. */
export interface Choice {
  readonly first: RequestHandle;
  readonly size: number;
}

/** Who goes together: of all that wait in line, for one accelerator now. */
export interface Chooser {
  /** @returns null: nobody goes. */
  choose(occasion: Occasion): Choice | null;
  /** A request of this kind that has less time than this left, µs on scale 1, is given up. */
  hopelessUs(kind: number): number;
}
