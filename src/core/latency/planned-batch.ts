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
