/**
 * Time in the core: whole microseconds counted from the start of the run.
 *
 * Two brands that do not mix: a moment (`TimeUs`) and a length (`DurationUs`). 2^53 µs is 285 years.
 * People write milliseconds (configuration, HTTP, charts); `usFromMs` is the one conversion, and it
 * rounds work up and deadlines down so that an error costs a little batching, never an SLO.
 */
declare const moment: unique symbol;
declare const length: unique symbol;
/** A moment: microseconds since the start of the run. */
export type TimeUs = number & { readonly [moment]: true };
/** A length of time in microseconds. */
export type DurationUs = number & { readonly [length]: true };

export const NEVER = Number.POSITIVE_INFINITY as TimeUs;

export const timeUs = (us: number): TimeUs => us as TimeUs;
export const durationUs = (us: number): DurationUs => us as DurationUs;

export const after = (at: TimeUs, length: DurationUs): TimeUs => (at + length) as TimeUs;
export const before = (at: TimeUs, length: DurationUs): TimeUs => (at - length) as TimeUs;
/** From `from` to `to`; negative when `to` is earlier. */
export const between = (from: TimeUs, to: TimeUs): DurationUs => (to - from) as DurationUs;
export const later = (a: TimeUs, b: TimeUs): TimeUs => (a > b ? a : b);
export const earlier = (a: TimeUs, b: TimeUs): TimeUs => (a < b ? a : b);

/** Milliseconds of work: rounded up to a microsecond (1e-6 forgives the binary noise of decimal milliseconds). */
export const workUsFromMs = (ms: number): DurationUs => Math.ceil(ms * 1000 - 1e-6) as DurationUs;
/** Milliseconds of a promise (SLO, timeout): rounded down to a microsecond. */
export const sloUsFromMs = (ms: number): DurationUs => Math.floor(ms * 1000 + 1e-6) as DurationUs;
export const msFromUs = (us: number): number => us / 1000;
