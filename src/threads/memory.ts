import { invariant } from "../core/invariant.js";
import { createRing, type RingMemory } from "../wire/ring.js";
import { createBells } from "./bell.js";
import * as is from "./messages.js";
import { createMailboxes, type MailboxMemory } from "./offer-mailbox.js";
import { questionRoom } from "./rank-news.js";
import type { RunOptions } from "./run-record.js";

/** Number of the rank's thread, where queue threads have 0, 1, ... */
export const RANK = -1;

export interface ThreadMemory {
  readonly fromFront: RingMemory;
  readonly toFront: RingMemory;
  readonly toRank: RingMemory;
  readonly fromRank: RingMemory;
}

/** Everything that the actors of one scheduler share. */
export interface SchedulerMemory {
  readonly controls: RingMemory;
  readonly threads: readonly ThreadMemory[];
  readonly mailboxes: MailboxMemory;
  /** By thread, then the rank's, then the front's. */
  readonly bells: SharedArrayBuffer;
}

export interface RingSizes {
  /** Records between front and one queue thread, each way; a power of two. */
  readonly front: number;
  /** Records from one queue thread to the rank; a power of two. */
  readonly rank: number;
}

export const RING_SIZES: RingSizes = { front: 65_536, rank: 8192 };

const THREADS_MAX = 64;
const CONTROLS = 4096;

/** Bells of the actors of a scheduler with as many queue threads, or of several that run in the same threads. */
export const createActorBells = (threadsMax: number): SharedArrayBuffer => createBells(threadsMax + 2);

/** @param bells shared with schedulers whose actors run in the same threads; default: its own. */
export function createMemory(
  options: RunOptions,
  sizes: RingSizes = RING_SIZES,
  bells: SharedArrayBuffer = createActorBells(options.threadsMax),
): SchedulerMemory {
  const { threadsMax, queuesMax, acceleratorsMax } = options;
  invariant(
    threadsMax >= 1 && threadsMax <= THREADS_MAX,
    `threadsMax must be in [1, ${THREADS_MAX}]; was ${threadsMax}`,
  );
  const questions = 2 ** Math.ceil(Math.log2(questionRoom(queuesMax, acceleratorsMax)));
  return {
    controls: createRing(CONTROLS, is.IN_WIDTH),
    threads: Array.from({ length: threadsMax }, () => ({
      fromFront: createRing(sizes.front, is.IN_WIDTH),
      toFront: createRing(sizes.front, is.OUT_WIDTH),
      toRank: createRing(sizes.rank, is.RANK_WIDTH),
      fromRank: createRing(questions, is.RANK_WIDTH),
    })),
    mailboxes: createMailboxes(queuesMax),
    bells,
  };
}

/** The bell of the thread that the rank runs in. */
export const rankBell = ({ rankWithin, threadsMax }: RunOptions): number => (rankWithin === true ? 0 : threadsMax);
export const frontBell = (options: RunOptions): number => options.threadsMax + 1;
