import { after, durationUs, type TimeUs } from "../core/time.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { PreciseTimer } from "../wire/clock/precise-timer.js";

export interface PaceOptions {
  /** The next moment to send at, µs from the start; increasing; Infinity = no more. */
  readonly next: () => number;
  /** Moment of the monotonic clock that is 0 of `next`. */
  readonly startAt: TimeUs;
  /** Sending stops at this many µs from the start, whatever is still due. */
  readonly giveUpUs: number;
  /** Wait for moments less than 2 ms away by turning the event loop: microseconds exact, but keeps a core busy. Else a thread sleeps until then. */
  readonly isSpinning: boolean;
  /** @param intendedUs the moment it was to be sent at. */
  readonly send: (intendedUs: number) => void;
  readonly signal?: AbortSignal;
}

/** Timers fire up to a millisecond late and count whole milliseconds: nearer moments are waited for otherwise. */
const SPIN_WITHIN_US = 2000;
/** Sent at most in one turn, so that answers are read while a backlog is worked off. */
const SENDS_PER_TURN = 256;

/**
 * Sends by the clock: whatever is due is sent, late or not, and nothing waits for an answer.
 *
 * @returns how many were still due when sending was given up.
 */
export function pace(options: PaceOptions): Promise<{ unsent: number }> {
  const { next, startAt, giveUpUs, isSpinning, send, signal } = options;
  return new Promise((resolve, reject) => {
    let dueUs = next();
    const turn = () => {
      try {
        const nowUs = monotonicNow() - startAt;
        if (signal?.aborted || nowUs > giveUpUs) return finish();
        for (let sent = 0; dueUs <= nowUs && sent < SENDS_PER_TURN; sent++) {
          send(dueUs);
          dueUs = next();
        }
        if (dueUs === Number.POSITIVE_INFINITY) return finish();
        wait(dueUs - (monotonicNow() - startAt));
      } catch (error) {
        timer?.close();
        reject(error);
      }
    };
    const timer = isSpinning ? null : new PreciseTimer(turn, true);
    const wait = (us: number) => {
      if (us > SPIN_WITHIN_US) setTimeout(turn, Math.min(Math.floor((us - 1000) / 1000), 1000));
      else if (us <= 0 || timer === null) setImmediate(turn);
      else timer.set(after(startAt, durationUs(dueUs)));
    };
    const finish = () => {
      timer?.close();
      let unsent = 0;
      // Aborted runs leave requests unsent on purpose.
      if (!signal?.aborted) for (; dueUs !== Number.POSITIVE_INFINITY; dueUs = next()) unsent++;
      resolve({ unsent });
    };
    turn();
  });
}
