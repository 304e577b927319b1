/**
 * One actor in a worker thread, or the same of several schedulers: reads the clock, takes turns, sleeps until there is
 * something to do. Under load it looks at its rings every `pollUs` and takes what came meanwhile together.
 */
import { parentPort, workerData } from "node:worker_threads";
import { createSeparablePolicy } from "../policies/registry.js";
import { monotonicNow } from "../wire/monotonic-clock.js";
import { ActorStats } from "./actor-stats.js";
import { Bell } from "./bell.js";
import { FREE_PACE, type RecordWriter } from "./channel.js";
import { type ActorReport, createQueueActor, createRankActor, type HostSetup } from "./hosts.js";
import { frontBell, RANK, rankBell } from "./memory.js";
import { SHOWN_FRONT, SHOWN_RANK } from "./queue-outbox.js";
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

/** What the thread says: when its actors are there, and what they leave when they have stopped. */
export type ActorThreadMessage = "started" | readonly ActorReport[];

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
const stats = new ActorStats(statsMemory, thread === RANK ? options.threadsMax : thread);
const front = new Bell(memory.bells, frontBell(options));
const rank = new Bell(memory.bells, rankBell(options));

const NEVER_DUE = Number.POSITIVE_INFINITY;
/**
 * V8 may be compiling this thread's code in the background still. On Node 20 a thread that ends meanwhile has taken the
 * process with it ("Assertion failed: (data.first) != nullptr", in node's platform): so it rests for a moment first.
 */
const LAST_REST_MS = 25;

const ending = new Int32Array(endingMemory);
const isEnding = (): boolean => Atomics.load(ending, 0) === 1;

const startCpuUs = threadCpuUs();
const ended = thread === RANK ? runRanks() : runQueues();
const cpuUs = startCpuUs === null ? null : threadCpuUs()! - startCpuUs;
post(
  ended.map(({ actor, pace, turns }) => ({
    log: pace?.log ?? null,
    turns,
    grants: "grants" in actor ? actor.grants : 0,
    cpuUs,
  })),
);
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LAST_REST_MS);

function startAll<Actor>(create: (setup: HostSetup, pace: RecordingPace | null) => Actor): Running<Actor>[] {
  const all = setups.map((setup) => {
    const pace = setup.rowsMax > 0 ? new RecordingPace(setup.rowsMax) : null;
    return { actor: create(setup, pace), pace, turns: 0 };
  });
  post("started");
  return all;
}

function post(message: ActorThreadMessage): void {
  parentPort?.postMessage(message);
}

function runQueues() {
  const bell = new Bell(memory.bells, thread);
  const waitForRoom = (writer: RecordWriter): void => {
    front.ring();
    rank.ring();
    if (writer.free <= 0) bell.pause(0.05);
  };
  const all = startAll((setup, pace) =>
    createQueueActor(setup, thread, createSeparablePolicy(name, policyOptions), pace ?? FREE_PACE, waitForRoom),
  );
  const running = [...all];
  const hasWork = (): boolean => isEnding() || running.some(({ actor }) => actor.hasWork);
  for (;;) {
    if (isEnding()) return all;
    for (const each of all) {
      const { actor } = each;
      if (actor.isStopped || (actor.hasGreeted && !actor.hasWork)) continue;
      const shown = actor.turn(clock());
      each.turns++;
      stats.turned(-1);
      if ((shown & SHOWN_FRONT) !== 0) front.ring();
      if ((shown & SHOWN_RANK) !== 0) rank.ring();
      if (actor.isStopped) running.splice(running.indexOf(each), 1);
    }
    if (running.length === 0) return all;
    if (pollUs > 0) bell.pause(pollUs / 1000);
    while (!hasWork()) bell.sleep(hasWork, Number.POSITIVE_INFINITY);
  }
}

function runRanks() {
  const bells = memory.threads.map((_, each) => new Bell(memory.bells, each));
  const all = startAll((setup, pace) =>
    createRankActor(setup, createSeparablePolicy(name, policyOptions), pace ?? FREE_PACE),
  );
  const running = [...all];
  const ring = (each: number): void => bells[each]!.ring();
  const hasWork = (): boolean => isEnding() || running.some(({ actor }) => actor.hasWork);
  const dueAt = (): number => running.reduce((soonest, { actor }) => Math.min(soonest, actor.dueAt), NEVER_DUE);
  for (;;) {
    if (isEnding()) return all;
    for (const each of all) {
      const { actor } = each;
      const now = clock();
      const waitsSince = actor.isStopped ? NEVER_DUE : actor.dueAt;
      if (actor.isStopped || (waitsSince > now && !actor.hasWork)) continue;
      actor.turn(now, ring);
      each.turns++;
      stats.turned(waitsSince <= now && waitsSince >= 0 ? now - waitsSince : -1);
      if (actor.isStopped) running.splice(running.indexOf(each), 1);
    }
    if (running.length === 0) return all;
    // A grant is not put off by the pause: it ends when one is due.
    const restUs = Math.min(pollUs, dueAt() - clock());
    if (restUs > 0) rank.pause(restUs / 1000);
    for (let inUs = dueAt() - clock(); inUs > 0 && !hasWork(); inUs = dueAt() - clock())
      rank.sleep(hasWork, inUs / 1000);
  }
}
