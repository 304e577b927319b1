/**
 * One actor in a worker thread: reads the clock, takes a turn, sleeps until there is something to do. Under load it looks
 * at its rings every `pollUs` and takes what came meanwhile together.
 */
import { parentPort, workerData } from "node:worker_threads";
import { createSeparablePolicy } from "../policies/registry.js";
import { monotonicNow } from "../wire/monotonic-clock.js";
import { Bell } from "./bell.js";
import { FREE_PACE, type RecordWriter } from "./channel.js";
import { type ActorReport, createQueueActor, createRankActor, type HostSetup } from "./hosts.js";
import { frontBell, rankBell } from "./memory.js";
import { SHOWN_FRONT, SHOWN_RANK } from "./queue-actor.js";
import { threadCpuUs } from "./thread-cpu.js";
import { RecordingPace } from "./turn-log.js";

export interface ActorThreadData {
  /** Number of the queue thread; -1: the rank. */
  readonly thread: number;
  readonly setup: HostSetup;
  readonly policy: string;
  readonly policyOptions: Readonly<Record<string, unknown>>;
  readonly originUs: number;
  readonly pollUs: number;
}

const { thread, setup, policy: name, policyOptions, originUs, pollUs } = workerData as ActorThreadData;
const { options, memory, rowsMax } = setup;
const clock = (): number => monotonicNow() - originUs;
const policy = createSeparablePolicy(name, policyOptions);
const pace = rowsMax > 0 ? new RecordingPace(rowsMax) : null;
const front = new Bell(memory.bells, frontBell(options));
const rank = new Bell(memory.bells, rankBell(options));

const startCpuUs = threadCpuUs();
const { turns, grants } = thread < 0 ? runRank() : runThread();
const report: ActorReport = {
  log: pace?.log ?? null,
  turns,
  grants,
  cpuUs: startCpuUs === null ? null : threadCpuUs()! - startCpuUs,
};
parentPort?.postMessage(report);

interface Done {
  readonly turns: number;
  readonly grants: number;
}

function runThread(): Done {
  const bell = new Bell(memory.bells, thread);
  const waitForRoom = (writer: RecordWriter): void => {
    front.ring();
    rank.ring();
    if (writer.free <= 0) bell.pause(0.05);
  };
  const actor = createQueueActor(setup, thread, policy, pace ?? FREE_PACE, waitForRoom);
  const hasWork = (): boolean => actor.hasWork;
  for (let turn = 1; ; turn++) {
    const shown = actor.turn(clock());
    if ((shown & SHOWN_FRONT) !== 0) front.ring();
    if ((shown & SHOWN_RANK) !== 0) rank.ring();
    if (actor.isStopped) return { turns: turn, grants: 0 };
    if (pollUs > 0) bell.pause(pollUs / 1000);
    while (!actor.hasWork) bell.sleep(hasWork, Number.POSITIVE_INFINITY);
  }
}

function runRank(): Done {
  const bells = memory.threads.map((_, each) => new Bell(memory.bells, each));
  const actor = createRankActor(setup, policy, pace ?? FREE_PACE);
  const ring = (each: number): void => bells[each]!.ring();
  const hasWork = (): boolean => actor.hasWork;
  for (let turn = 1; ; turn++) {
    actor.turn(clock(), ring);
    if (actor.isStopped) return { turns: turn, grants: actor.grants };
    // A grant is not put off by the pause: it ends when one is due.
    const restUs = Math.min(pollUs, actor.dueAt - clock());
    if (restUs > 0) rank.pause(restUs / 1000);
    for (let inUs = actor.dueAt - clock(); inUs > 0 && !actor.hasWork; inUs = actor.dueAt - clock())
      rank.sleep(hasWork, inUs / 1000);
  }
}
