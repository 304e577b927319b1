type WaitAsync = (
  words: Int32Array,
  index: number,
  value: number,
) => { async: false; value: string } | { async: true; value: Promise<string> };
/** In Node since 16, in TypeScript's library only from ES2024. */
const atomicsWaitAsync = (Atomics as unknown as { waitAsync: WaitAsync }).waitAsync;

/**
 * Atomics.wait without blocking: resolves when the word is notified.
 * @returns null when it is not `value` (any more). It does not keep the process alive.
 */
export function waitAsync(words: Int32Array, index: number, value: number): Promise<unknown> | null {
  const waiter = atomicsWaitAsync(words, index, value);
  return waiter.async ? waiter.value : null;
}
