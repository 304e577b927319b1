/** What the queue of a module is told of a part; see RequestTraits. */
export interface PartDue {
  /** When it must be done, on the clock of the deadline. */
  dueBy: number;
  /** Until when its answer is of use; at least that. */
  deadline: number;
  headStartUs: number;
}
