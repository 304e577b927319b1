/** Of requests in a module, delays before execution included. */
export interface ModuleTimes {
  /** One alone. */
  leastUs(module: number): number;
  /** A batch of the planned size; absent: as one alone. */
  plannedUs?(module: number): number;
  /** A batch of the planned size and its wait for an accelerator while all run such batches in turn; absent: as one alone. @param sloUs that is planned for where the model says nothing. */
  staggeredUs?(module: number, sloUs: number): number;
  /**
   * So many that come at once, until the last is done; absent: as one alone.
   * @param beside so many of another request are there for each accelerator but one. @param eachUs accelerator time of each, as measured; NaN: by the profile.
   */
  togetherUs?(module: number, count: number, beside: number, eachUs: number): number;
  /**
   * One alone, by its own lengths; 0: it has none, or what they are cannot be known when it comes. Absent: 0.
   * @param frame of the part. @param foresees also what becomes known only as it runs.
   */
  lengthsUs?(module: number, frame: number, foresees: boolean): number;
  /** Its batches are of one: its queue waits for nobody, whatever time it is given. */
  isSingle?(module: number): boolean;
  /** Modules of one number run on the same accelerators. Absent: each has its own. */
  groupOf?(module: number): number;
  /** How many those are. Absent: one. */
  acceleratorsOf?(module: number): number;
}

/** So many that come at once, until the last is done, by the profile; at least as long as one of them. */
export function timeOfAllUs({ togetherUs }: ModuleTimes, module: number, count: number, ownUs: number): number {
  if (count === 1 || togetherUs === undefined) return ownUs;
  return Math.max(ownUs, togetherUs(module, count, 0, Number.NaN));
}
