/** What a batch truly takes, by its size and its longest member. */
export interface BatchTime {
  /** True time of a batch of k whose longest member takes l alone: c0Us + c1 * k * l. Absent: l * execUs[k] / execUs[1]. */
  readonly batchTime?: { readonly c0Us: number; readonly c1: number };
  readonly execUs: Float64Array;
}

/** @param longestUs that its longest member takes alone. @returns µs on an accelerator of scale 1. */
export function batchUs({ batchTime, execUs }: BatchTime, size: number, longestUs: number): number {
  const us =
    batchTime === undefined
      ? (longestUs * execUs[size]!) / execUs[1]!
      : batchTime.c0Us + batchTime.c1 * size * longestUs;
  return Math.ceil(us);
}
