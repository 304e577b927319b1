import { Worker } from "node:worker_threads";
import { invariant } from "../core/invariant.js";
import { type ActorTotals, actorTotals, createActorStats } from "./actor-stats.js";
import type { ActorThreadData, ActorThreadMessage } from "./actor-thread.js";
import { Bell } from "./bell.js";
import type { ActorReport, HostSetup } from "./hosts.js";
import { RANK, rankBell } from "./memory.js";

export interface WorkerHostOptions {
  /** Name and options of the policy (policies/registry). */
  readonly policy: string;
  readonly policyOptions: Readonly<Record<string, unknown>>;
  /** Moment of the host's monotonic clock from which the scheduler's times count, µs. */
  readonly originUs: number;
  /**
   * An actor looks at its rings at most this often, µs: wake-ups cost more than what they are for at high rates. 0: at
   * once. Plans must allow for it: two to three times this is what a grant takes.
   */
  readonly pollUs: number;
  /** An actor failed: the scheduler is lost. */
  readonly onError: (error: Error) => void;
}

/** Of an actor whose thread was ended. */
const NO_REPORT: ActorReport = { log: null, turns: 0, grants: 0, cpuUs: null };

/** How long threads may take to end by themselves, ms. */
const END_MS = 500;

/** What its actors left, by scheduler. */
type Reports = Exclude<ActorThreadMessage, "started">;

/** A worker thread, and which schedulers have started their actor in it. */
interface Crew {
  readonly isThere: Promise<void>;
  readonly reports: Promise<Reports>;
  readonly started: Set<number>;
}

/**
 * The worker threads of one scheduler, or of several side by side: then thread n runs queue actor n of each, and one
 * thread the ranks of all. Several have as many threads each, share their bells (createMemory) and start the same
 * threads: an actor is there from when the first of them starts it.
 */
export class WorkerTeam {
  private readonly setups: readonly HostSetup[];
  private readonly options: WorkerHostOptions;
  private readonly stats: SharedArrayBuffer;
  private readonly ending = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  private readonly crews = new Map<number, Crew>();
  private readonly workers = new Set<Worker>();

  constructor(setups: readonly HostSetup[], options: WorkerHostOptions) {
    const bells = setups[0]?.memory.bells;
    invariant(
      setups.every(({ memory }) => memory.bells === bells),
      "schedulers whose actors share threads must share bells",
    );
    this.setups = setups;
    this.options = options;
    this.stats = createActorStats(setups[0]!.options.threadsMax + 1);
  }

  /** Measurements over all threads. */
  get totals(): ActorTotals {
    return actorTotals(this.stats);
  }

  /** Starts the actor of a queue thread, or the RANK, of one scheduler. @returns when it has stopped. */
  async start(thread: number, setup: HostSetup): Promise<ActorReport> {
    const index = this.setups.indexOf(setup);
    invariant(index >= 0, "a scheduler's threads are started by its own team");
    // A rank within queue thread 0 is there as soon as that is, and that thread as soon as the rank.
    const at = thread === RANK && setup.options.rankWithin === true ? 0 : thread;
    let crew = this.crews.get(at);
    const isAgain = thread === at && crew?.started.has(index) === true;
    // Two would sleep on one bell.
    invariant(!isAgain || at !== rankBell(setup.options), `thread ${at} runs the rank and is not started again`);
    if (crew === undefined || isAgain) {
      crew = { ...this.launch(at), started: new Set() };
      this.crews.set(at, crew);
    }
    if (thread === at) crew.started.add(index);
    const { queues, ranks } = await crew.reports;
    return (thread === RANK ? ranks : queues)[index] ?? NO_REPORT;
  }

  /** Resolves when every thread that was started takes records, or has ended. */
  async allThere(): Promise<void> {
    await Promise.all([...this.crews.values()].map(({ isThere }) => isThere));
  }

  /** Ends every thread at once, whatever it holds. Resolves when all have ended. */
  async terminate(): Promise<void> {
    const workers = [...this.workers];
    const ended = Promise.all(workers.map((worker) => new Promise((resolve) => worker.once("exit", resolve))));
    Atomics.store(new Int32Array(this.ending), 0, 1);
    const { options, memory } = this.setups[0]!;
    for (let bell = 0; bell <= options.threadsMax; bell++) new Bell(memory.bells, bell).ring();
    // One that waits for room in a ring that nobody reads any more does not see it.
    const timer = setTimeout(() => {
      for (const worker of workers) void worker.terminate();
    }, END_MS);
    await ended;
    clearTimeout(timer);
  }

  private launch(thread: number): Omit<Crew, "started"> {
    const { onError, ...rest } = this.options;
    const { setups, stats, ending } = this;
    const workerData: ActorThreadData = { thread, setups, stats, ending, ...rest };
    // Threads run what is built, also when this file is run from its source (tests).
    const file = new URL("../../dist/threads/actor-thread.js", import.meta.url);
    const worker = new Worker(file, { workerData, name: thread === RANK ? "rank" : `queues-${thread}` });
    this.workers.add(worker);
    worker.on("error", onError);
    let last: Reports = { queues: [], ranks: [] };
    const isThere = new Promise<void>((resolve) => {
      worker.on("message", (message: ActorThreadMessage) => {
        if (message === "started") resolve();
        else last = message;
      });
      worker.on("exit", () => resolve());
    });
    const reports = new Promise<Reports>((resolve) => {
      worker.on("exit", () => {
        this.workers.delete(worker);
        resolve(last);
      });
    });
    return { isThere, reports };
  }
}
