/**
 * The batch that is planned for without knowing the load: the largest whose time is within half the SLO, since in the worst case a
 * request waits for one batch before its own (Nexus §6.1; PARD §5.1 takes its feasible batch sizes from there). At least 1.
 *
 * @param execUs by size, non-decreasing. @param sizeMax largest size. @param sloUs how long a request may be here.
 */
export function plannedBatch(execUs: ArrayLike<number>, sizeMax: number, sloUs: number, scale = 1): number {
  let size = 1;
  while (size < sizeMax && 2 * execUs[size + 1]! * scale <= sloUs) size++;
  return size;
}

/** Part of a batch's time that its requests wait at least, however many accelerators there are. */
const WAIT_MIN = 0.35;

/**
 * The time of the largest batch that accelerators sustain which run such batches in even turns, l(b) (1 + 1/n) <= SLO (Symphony §3.3, Eq. 1), with the mean of what it
 * waits for one of them: one comes free each l(b) / n. Of many one comes free at once, if turns were even: but requests come in the batches of the module before, and
 * those behind each other.
 */
export function staggeredUs(
  execUs: ArrayLike<number>,
  sizeMax: number,
  sloUs: number,
  accelerators: number,
  scale = 1,
): number {
  const turns = 1 / Math.max(1, accelerators);
  let size = 1;
  while (size < sizeMax && execUs[size + 1]! * scale * (1 + turns) <= sloUs) size++;
  return execUs[size]! * scale * (1 + Math.max(turns / 2, WAIT_MIN));
}
