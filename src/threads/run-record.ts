import type { Learning } from "../core/latency/learner.js";
import type { NetworkDelays } from "../core/policy.js";
import type { PortRecord } from "./queues/queue-port.js";

export interface RunOptions {
  readonly network: NetworkDelays;
  readonly acceleratorsMax: number;
  readonly queuesMax: number;
  readonly requestsMax: number;
  readonly tagsMax: number;
  readonly retriesMax: number;
  readonly learn: Learning;
  /** See RankActorOptions. */
  readonly oneAtATime: boolean;
  /** Queue threads that there can be at once. */
  readonly threadsMax: number;
  /**
   * The rank runs in queue thread 0: questions and answers cross no thread, and one wake-up serves both. For one queue thread
   * that does not need a core of its own. That thread starts once. Default: in its own thread.
   */
  readonly rankWithin?: boolean;
}

/** What one queue thread, or one that took its place, consumed and said. */
export interface ThreadRecord extends PortRecord {
  readonly turns: Float64Array;
}

/** Of records whose queues say how long they may wait for an accelerator. */
export const RECORD_FORMAT = 2;

export interface RunRecord {
  /** Absent: 1, of before they did. */
  readonly format?: number;
  readonly options: RunOptions;
  /** By thread number; a number that was used again holds its runs one after another. */
  readonly threads: readonly (readonly ThreadRecord[])[];
  readonly rank: { readonly inputs: readonly number[]; readonly turns: Float64Array };
}
