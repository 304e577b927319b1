/**
 * Work as long as a request's bytes, in slices of a few milliseconds, so that the thread that does it can serve others
 * between them: a generator that yields after each, and returns what came of it.
 */
export type Sliced<T> = Generator<undefined, T, undefined>;

/** Bytes of one slice, where looking at a byte takes about a nanosecond. */
export const SLICE_BYTES = 4 * 1024 * 1024;

/** All of it now: on a thread that serves nobody else. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}
