/**
 * One actor in a worker thread, or the same of several schedulers, or queue actors with their ranks (RunOptions.rankWithin):
 * reads the clock, takes turns, sleeps until there is something to do. Under load it looks at its rings every `pollUs` and
 * takes what came meanwhile together.
 */
import { parentPort, workerData } from "node:worker_threads";
import { createSeparablePolicy } from "../policies/registry.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { ActorStats } from "./actor-stats.js";
import { Bell } from "./bell.js";
import { FREE_PACE, type RecordWriter } from "./channel.js";
import { type ActorReport, createQueueActor, createRankActor, type HostSetup } from "./hosts.js";
import { frontBell, RANK, rankBell } from "./memory.js";
import type { QueueActor } from "./queues/queue-actor.js";
import { SHOWN_FRONT, SHOWN_RANK } from "./queues/queue-outbox.js";
import type { RankActor } from "./rank-actor.js";
import { threadCpuUs } from "./thread-cpu.js";
import { RecordingPace } from "./turn-log.js";

export interface ActorThreadData {
  /** Number of the queue thread, or RANK. */
  readonly thread: number;
  /** Of each scheduler whose actor runs here; they share bells. */
  readonly setups: readonly HostSetup[];
  readonly policy: string;
  readonly policyOptions: Readonly<Record<string, unknown>>;
  readonly originUs: number;
  readonly pollUs: number;
  /** Where measurements go: a row per queue thread, then the rank's. */
  readonly stats: SharedArrayBuffer;
  /** One word: 1 when all threads are to end, whatever they hold. */
  readonly ending: SharedArrayBuffer;
}

/** What the thread says: when its actors are there, and what they leave when they have stopped, by scheduler. */
export type ActorThreadMessage =
  | "started"
  | { readonly queues: readonly ActorReport[]; readonly ranks: readonly ActorReport[] };

/** An actor that runs here, and what is reported of it. */
interface Running<Actor> {
  readonly actor: Actor;
  readonly pace: RecordingPace | null;
  turns: number;
}

const {
  thread,
  setups,
  policy: name,
  policyOptions,
  originUs,
  pollUs,
  stats: statsMemory,
  ending: endingMemory,
} = workerData as ActorThreadData;
const { options, memory } = setups[0]!;
const clock = (): number => monotonicNow() - originUs;
const queueStats = new ActorStats(statsMemory, Math.max(0, thread));
const rankStats = new ActorStats(statsMemory, options.threadsMax);
const front = new Bell(memory.bells, frontBell(options));
const rank = new Bell(memory.bells, rankBell(options));
const bells = memory.threads.map((_, each) => new Bell(memory.bells, each));
const bell = thread === RANK ? rank : bells[thread]!;

const NEVER_DUE = Number.POSITIVE_INFINITY;
/** Most times that queues and ranks in one thread follow each other before what came from outside is waited for again. */
const ROUNDS_MAX = 4;
/**
 * V8 may be compiling this thread's code in the background still. On Node 20 a thread that ends meanwhile has taken the
 * process with it ("Assertion failed: (data.first) != nullptr", in node's platform): so it rests for a moment first.
 */
const LAST_REST_MS = 25;

const ending = new Int32Array(endingMemory);
const isEnding = (): boolean => Atomics.load(ending, 0) === 1;

const startCpuUs = threadCpuUs();
const ranks: Running<RankActor>[] =
  thread === RANK || (thread === 0 && options.rankWithin === true)
    ? startAll((setup, pace) => createRankActor(setup, createSeparablePolicy(name, policyOptions), pace ?? FREE_PACE))
    : [];
const queues: Running<QueueActor>[] = thread === RANK ? [] : startAll(createQueues);
post("started");
run();
const cpuUs = startCpuUs === null ? null : threadCpuUs()! - startCpuUs;
post({
  queues: queues.map(({ pace, turns }) => ({ log: pace?.log ?? null, turns, grants: 0, cpuUs })),
  // Of two in one thread the system knows no more than the sum.
  ranks: ranks.map(({ actor, pace, turns }) => ({
    log: pace?.log ?? null,
    turns,
    grants: actor.grants,
    cpuUs: thread === RANK ? cpuUs : null,
  })),
});
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LAST_REST_MS);

function startAll<Actor>(create: (setup: HostSetup, pace: RecordingPace | null) => Actor): Running<Actor>[] {
  return setups.map((setup) => {
    const pace = setup.rowsMax > 0 ? new RecordingPace(setup.rowsMax) : null;
    return { actor: create(setup, pace), pace, turns: 0 };
  });
}

function createQueues(setup: HostSetup, pace: RecordingPace | null): QueueActor {
  const waitForRoom = (writer: RecordWriter): void => {
    front.ring();
    if (ranks.length > 0) turnRanks();
    else rank.ring();
    if (writer.free <= 0) bell.pause(0.05);
  };
  return createQueueActor(setup, thread, createSeparablePolicy(name, policyOptions), pace ?? FREE_PACE, waitForRoom);
}

function post(message: ActorThreadMessage): void {
  parentPort?.postMessage(message);
}

function run(): void {
  const isOver = (): boolean => isEnding() || (ranks.length > 0 ? ranks : queues).every(({ actor }) => actor.isStopped);
  const hasWork = (): boolean =>
    isEnding() || queues.some(queueHasWork) || ranks.some(({ actor }) => !actor.isStopped && actor.hasWork);
  while (!isOver()) {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      turnQueues();
      if (ranks.length === 0) break;
      turnRanks();
      if (!queues.some(queueHasWork)) break;
    }
    if (isOver()) return;
    // A grant is not put off by the pause: it ends when one is due.
    const restUs = Math.min(pollUs, dueAt() - clock());
    if (restUs > 0) bell.pause(restUs / 1000);
    for (let inUs = dueAt() - clock(); inUs > 0 && !hasWork(); inUs = dueAt() - clock())
      bell.sleep(hasWork, inUs / 1000);
  }
}

function queueHasWork({ actor }: Running<QueueActor>): boolean {
  return !actor.isStopped && actor.hasWork;
}

function dueAt(): number {
  return ranks.reduce((soonest, { actor }) => Math.min(soonest, actor.isStopped ? NEVER_DUE : actor.dueAt), NEVER_DUE);
}

function turnQueues(): void {
  for (const each of queues) {
    const { actor } = each;
    if (actor.isStopped || (actor.hasGreeted && !actor.hasWork)) continue;
    const shown = actor.turn(clock());
    each.turns++;
    queueStats.turned(-1);
    if ((shown & SHOWN_FRONT) !== 0) front.ring();
    if ((shown & SHOWN_RANK) !== 0 && ranks.length === 0) rank.ring();
  }
}

function turnRanks(): void {
  for (const each of ranks) {
    const { actor } = each;
    const now = clock();
    const waitsSince = actor.isStopped ? NEVER_DUE : actor.dueAt;
    if (actor.isStopped || (waitsSince > now && !actor.hasWork)) continue;
    actor.turn(now, ringThread);
    each.turns++;
    rankStats.turned(waitsSince <= now && waitsSince >= 0 ? now - waitsSince : -1);
  }
}

function ringThread(each: number): void {
  if (each !== thread) bells[each]!.ring();
}
