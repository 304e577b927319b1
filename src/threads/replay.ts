/**
 * Runs a recorded run of a threaded scheduler again, in one thread: the same actors, the same inputs, turns of the same
 * times that take the same records. Each actor is a function of these, and what it takes from another was written by the
 * same rule, so the commands must be the same; a difference is a message that an actor used and the record does not hold.
 */
import { invariant } from "../core/invariant.js";
import type { NetworkDelays, SeparablePolicy } from "../core/policy.js";
import type { OfferReader, OfferWriter, RecordReader, RecordWriter } from "./channel.js";
import * as is from "./messages.js";
import { QueueActor } from "./queues/queue-actor.js";
import { type PortRecord, type PortSink, QueuePort } from "./queues/queue-port.js";
import { fromThread, RankActor } from "./rank-actor.js";
import { ReplayPace } from "./turn-log.js";

export interface RunOptions {
  readonly network: NetworkDelays;
  readonly acceleratorsMax: number;
  readonly queuesMax: number;
  readonly requestsMax: number;
  readonly tagsMax: number;
  readonly retriesMax: number;
  readonly learn: boolean;
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

export interface ReplayOutcome {
  readonly turns: number;
  readonly commands: number;
  /** First number of a thread's commands that differs from the recorded one; null when all agree. */
  readonly difference: {
    readonly thread: number;
    readonly index: number;
    readonly recorded: readonly number[];
    readonly replayed: readonly number[];
  } | null;
}

/** @throws InvariantViolation when the record contradicts itself: a turn takes what nobody wrote. */
export function replayRun(record: RunRecord, createPolicy: () => SeparablePolicy): ReplayOutcome {
  const { options } = record;
  const boxes = new ReplayBoxes(options.queuesMax);
  const toRank = record.threads.map(() => new ReplayRing(is.RANK_WIDTH));
  const fromRank = record.threads.map(() => new ReplayRing(is.RANK_WIDTH));
  const controls = new ReplayRing(is.IN_WIDTH);
  controls.load(record.rank.inputs);
  const rankPace = new ReplayPace(record.rank.turns);
  boxes.pace = rankPace;
  const rank = new RankActor(
    { ...options, policy: createPolicy() },
    { fromFront: controls, fromQueues: toRank, toQueues: fromRank, mailboxes: boxes },
    rankPace,
  );
  const threads = record.threads.map((runs, thread) => ({ runs, thread, next: 0, live: null as LiveThread | null }));
  const outcome = { turns: 0, commands: 0 };
  const startNext = (each: (typeof threads)[number]): void => {
    const run = each.runs[each.next];
    if (run === undefined) return;
    each.next++;
    const toFront = new ReplayRing(is.OUT_WIDTH);
    const fromFront = new ReplayRing(is.IN_WIDTH);
    fromFront.load(run.inputs);
    const pace = new ReplayPace(run.turns);
    const actor = new QueueActor(
      { ...options, policy: createPolicy(), isolates: record.format === RECORD_FORMAT },
      {
        fromFront,
        fromRank: fromRank[each.thread]!,
        toFront,
        toRank: toRank[each.thread]!,
        mailboxes: boxes,
        waitForRoom: () => invariant(false, "a ring of a replay is never full"),
      },
      pace,
    );
    const replayed: PortRecord = { inputs: [], commands: [] };
    const port = new QueuePort(each.thread, new ReplayRing(is.IN_WIDTH), toFront, 65_536, NO_SINK, replayed);
    each.live = { run, actor, pace, fromFront, port, replayed, compared: 0 };
  };
  for (const each of threads) startNext(each);
  for (;;) {
    let best: (typeof threads)[number] | null = null;
    let bestAt = Number.POSITIVE_INFINITY;
    for (const each of threads) {
      const { live } = each;
      if (live === null || live.pace.nextAt >= bestAt) continue;
      const available = (source: number): number => (source === 0 ? live.fromFront : fromRank[each.thread]!).available;
      if (!live.pace.isReady(available, () => 0)) continue;
      best = each;
      bestAt = live.pace.nextAt;
    }
    const availableToRank = (source: number): number =>
      (source === fromThread(-1) ? controls : toRank[source - fromThread(0)]!).available;
    if (rankPace.nextAt < bestAt && rankPace.isReady(availableToRank, (key) => boxes.newest(key))) {
      rank.turn(rankPace.nextAt, () => {});
      outcome.turns++;
      continue;
    }
    if (best === null) break;
    const live = best.live!;
    live.actor.turn(bestAt);
    live.port.poll();
    outcome.turns++;
    const { commands } = live.replayed;
    for (; live.compared < commands.length; live.compared++) {
      outcome.commands++;
      if (commands[live.compared] === live.run.commands[live.compared]) continue;
      const index = live.compared;
      const around = (numbers: readonly number[]): number[] => numbers.slice(Math.max(0, index - 10), index + 10);
      const difference = {
        thread: best.thread,
        index,
        recorded: around(live.run.commands),
        replayed: around(commands),
      };
      return { ...outcome, difference };
    }
    if (live.actor.isStopped) {
      best.live = null;
      startNext(best);
    }
  }
  for (const { live, thread } of threads) {
    if (live === null) continue;
    invariant(live.pace.isAtEnd, `thread ${thread} waits for records that nobody wrote, at ${live.pace.nextAt}`);
    const { commands } = live.run;
    if (live.compared < commands.length) {
      const recorded = commands.slice(live.compared, live.compared + 10);
      return { ...outcome, difference: { thread, index: live.compared, recorded, replayed: [] } };
    }
  }
  invariant(rankPace.isAtEnd, `the rank waits for records that nobody wrote, at ${rankPace.nextAt}`);
  return { ...outcome, difference: null };
}

interface LiveThread {
  readonly run: ThreadRecord;
  readonly actor: QueueActor;
  readonly pace: ReplayPace;
  readonly fromFront: ReplayRing;
  readonly port: QueuePort;
  readonly replayed: PortRecord;
  compared: number;
}

const NO_SINK: PortSink = {
  // Threads are replayed each by itself: what another dispatched before is not waited for.
  isTurn: () => true,
  dispatch: () => {},
  end: () => {},
  batchEnded: () => {},
  handed: () => {},
  closed: () => {},
  stopped: () => {},
};

/** A ring without end: a replay may run one actor far ahead of another. */
export class ReplayRing implements RecordReader, RecordWriter {
  cells: Float64Array;
  readonly free = Number.POSITIVE_INFINITY;
  private readonly width: number;
  private head = 0;
  private tail = 0;
  private shown = 0;

  constructor(width: number) {
    this.width = width;
    this.cells = new Float64Array(64 * width);
  }

  load(numbers: readonly number[]): void {
    this.cells = Float64Array.from(numbers);
    this.tail = numbers.length / this.width;
    this.shown = this.tail;
  }

  get available(): number {
    return this.shown - this.head;
  }

  offsetAt(index: number): number {
    return (this.head + index) * this.width;
  }

  release(count: number): void {
    this.head += count;
  }

  claim(): number {
    const offset = this.tail * this.width;
    if (offset === this.cells.length) {
      const grown = new Float64Array(this.cells.length * 2);
      grown.set(this.cells);
      this.cells = grown;
    }
    this.tail++;
    return offset;
  }

  show(): boolean {
    const isNew = this.shown < this.tail;
    this.shown = this.tail;
    return isNew;
  }
}

/** Mailboxes that keep every version: the recorded run says which one was read. */
export class ReplayBoxes implements OfferReader, OfferWriter {
  cells = new Float64Array(is.RANK_WIDTH * 1024);
  pace: ReplayPace | null = null;
  private used = 0;
  /** Per key: offsets of the versions of its present owner that were posted. */
  private readonly offsets: number[][];
  private readonly unread: boolean[];
  private blankAt = 0;
  /** An owner's first version may be posted before the rank has heard of the owner. */
  private readonly owners: number[];

  constructor(queuesMax: number) {
    this.offsets = Array.from({ length: queuesMax }, () => []);
    this.unread = new Array<boolean>(queuesMax).fill(false);
    this.owners = new Array<number>(queuesMax).fill(0);
  }

  /** Called by the new owner and by the rank: versions begin anew with the owner's. */
  reset(key: number): void {
    this.owners[key] = this.owners[key]! + 1;
    if (this.owners[key]! % 2 === 0) return;
    this.offsets[key] = [];
    this.unread[key] = false;
  }

  newest(key: number): number {
    const last = this.offsets[key]!.at(-1);
    return last === undefined ? 0 : this.cells[last + is.OFFER_VERSION]!;
  }

  blank(): number {
    const offset = this.used * is.RANK_WIDTH;
    if (offset === this.cells.length) {
      const grown = new Float64Array(this.cells.length * 2);
      grown.set(this.cells);
      this.cells = grown;
    }
    this.used++;
    this.blankAt = offset;
    return offset;
  }

  post(key: number): boolean {
    this.offsets[key]!.push(this.blankAt);
    return true;
  }

  read(key: number): number {
    const version = this.pace!.seenOf(key);
    const offset = this.offsets[key]!.find((each) => this.cells[each + is.OFFER_VERSION] === version);
    invariant(offset !== undefined, `turn log: version ${version} of queue ${key} was never posted`);
    return offset;
  }
}
