/**
 * Runs a recorded run of a threaded scheduler again, in one thread: the same actors, the same inputs, turns of the same
 * times that take the same records. Each actor is a function of these, and what it takes from another was written by the
 * same rule, so the commands must be the same; a difference is a message that an actor used and the record does not hold.
 */
import { invariant } from "../../core/invariant.js";
import type { SeparablePolicy } from "../../core/policy.js";
import * as is from "../messages.js";
import { QueueActor } from "../queues/queue-actor.js";
import { type PortRecord, type PortSink, QueuePort } from "../queues/queue-port.js";
import { fromThread, RankActor, threadOf } from "../rank-actor.js";
import { RECORD_FORMAT, type RunRecord, type ThreadRecord } from "../run-record.js";
import { ReplayPace } from "../turn-log.js";
import { ReplayOffers } from "./replay-offers.js";
import { ReplayRing } from "./replay-ring.js";

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
  const toRank = record.threads.map(() => new ReplayRing(is.RANK_WIDTH));
  const fromRank = record.threads.map(() => new ReplayRing(is.RANK_WIDTH));
  const controls = new ReplayRing(is.IN_WIDTH);
  controls.load(record.rank.inputs);
  const rankPace = new ReplayPace(record.rank.turns);
  const offers = new ReplayOffers(options.queuesMax, rankPace);
  const rank = new RankActor(
    { ...options, policy: createPolicy() },
    { fromFront: controls, fromQueues: toRank, toQueues: fromRank, mailboxes: offers.reader },
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
        mailboxes: offers.writer(each.thread),
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
      if (!live.pace.isReady(available)) continue;
      best = each;
      bestAt = live.pace.nextAt;
    }
    const availableToRank = (source: number): number =>
      (source === fromThread(-1) ? controls : toRank[threadOf(source)]!).available;
    const arePosted = (source: number, count: number, seen: readonly number[]): boolean =>
      offers.arePosted(threadOf(source), toRank[threadOf(source)]!, count, seen);
    if (rankPace.nextAt < bestAt && rankPace.isReady(availableToRank, arePosted)) {
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
