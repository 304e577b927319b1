/** What the accelerators of one group have before them. Pure: times in, times out. */
export interface PlannedRun {
  /** When its execution was planned to begin. */
  readonly execAt: number;
  readonly predictedUs: number;
}

/** @param guessUs how much of `leftUs` is a guess: a run that is overdue takes as long again as it is overdue. */
export interface Left {
  readonly leftUs: number;
  readonly guessUs: number;
}

/** Time until an accelerator is done with what it holds. @param runs the one that executes first. */
export function left(runs: Iterable<PlannedRun>, now: number): Left {
  let endAt = now;
  let guessUs = 0;
  let isFirst = true;
  for (const { execAt, predictedUs } of runs) {
    if (isFirst) {
      const plannedAt = execAt + predictedUs;
      guessUs = Math.max(0, now - plannedAt);
      endAt = Math.max(plannedAt, now + guessUs);
    } else endAt = Math.max(endAt, execAt) + predictedUs;
    isFirst = false;
  }
  return { leftUs: endAt - now, guessUs };
}

/**
 * When an accelerator is free for what comes next: those that are free first take the waiting work, each until the next
 * one is free too.
 *
 * @param lefts of each accelerator that takes batches. @param workUs time that all that waits takes on one.
 */
export function waitOf(lefts: readonly Left[], workUs: number): { readonly waitUs: number; readonly guessUs: number } {
  const ascending = [...lefts].sort((a, b) => a.leftUs - b.leftUs);
  let sumUs = workUs;
  let waitUs = workUs;
  let guessUs = 0;
  for (let index = 0; index < ascending.length; index++) {
    const { leftUs, guessUs: itsGuessUs } = ascending[index]!;
    if (index > 0 && leftUs >= waitUs) break;
    sumUs += leftUs;
    waitUs = sumUs / (index + 1);
    guessUs += itsGuessUs;
  }
  return { waitUs, guessUs: Math.min(waitUs, guessUs) };
}
