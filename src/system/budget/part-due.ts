/** What the queue of a module is told of a part; see RequestTraits. */
export interface PartDue {
  /** When it must be done, on the clock of the deadline. */
  dueBy: number;
  headStartUs: number;
}
