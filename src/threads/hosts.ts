/** Where actors run: in worker threads, or in the caller's for tests and for what must be the same every time. */
import type { SeparablePolicy } from "../core/policy.js";
import { RingReader, RingWriter } from "../wire/ring.js";
import { Bell } from "./bell.js";
import { FREE_PACE, type Pace, type RecordWriter } from "./channel.js";
import { RANK, rankBell, type SchedulerMemory } from "./memory.js";
import { MailboxReader, MailboxWriter } from "./offer-mailbox.js";
import { QueueActor } from "./queues/queue-actor.js";
import { RankActor } from "./rank-actor.js";
import type { RunOptions } from "./run-record.js";
import { RecordingPace } from "./turn-log.js";
import { type WorkerHostOptions, WorkerTeam } from "./worker-team.js";

/** What an actor leaves when it has stopped. */
export interface ActorReport {
  /** Its turn log; null when nothing was recorded, or the log was cut. */
  readonly log: Float64Array | null;
  readonly turns: number;
  /** Of the rank. */
  readonly grants: number;
  /** Processor time of its thread, µs; null where the system does not say (Linux does). */
  readonly cpuUs: number | null;
}

export interface ActorHost {
  /** Starts the actor of a queue thread. @returns when it has stopped. */
  startThread(thread: number): Promise<ActorReport>;
  /** Starts the rank; it is started once. */
  startRank(): Promise<ActorReport>;
  /** Wakes an actor that was written to. */
  wakeThread(thread: number): void;
  wakeRank(): void;
}

export interface HostSetup {
  readonly options: RunOptions;
  readonly memory: SchedulerMemory;
  /** Most rows of a turn log, 2 numbers each; 0: nothing is recorded. */
  readonly rowsMax: number;
}

export function createQueueActor(
  { options, memory }: HostSetup,
  thread: number,
  policy: SeparablePolicy,
  pace: Pace,
  waitForRoom: (writer: RecordWriter) => void,
): QueueActor {
  const rings = memory.threads[thread]!;
  return new QueueActor(
    { ...options, policy },
    {
      fromFront: new RingReader(rings.fromFront),
      fromRank: new RingReader(rings.fromRank),
      toFront: new RingWriter(rings.toFront),
      toRank: new RingWriter(rings.toRank),
      mailboxes: new MailboxWriter(memory.mailboxes),
      waitForRoom,
    },
    pace,
  );
}

export function createRankActor({ options, memory }: HostSetup, policy: SeparablePolicy, pace: Pace): RankActor {
  return new RankActor(
    { ...options, policy },
    {
      fromFront: new RingReader(memory.controls),
      fromQueues: memory.threads.map(({ toRank }) => new RingReader(toRank)),
      toQueues: memory.threads.map(({ fromRank }) => new RingWriter(fromRank)),
      mailboxes: new MailboxReader(memory.mailboxes),
    },
    pace,
  );
}

/** Actors as worker threads: of their own, or of a team that runs several schedulers. */
export class WorkerHost implements ActorHost {
  private readonly setup: HostSetup;
  private readonly team: WorkerTeam;
  private readonly bells: readonly Bell[];
  private readonly rank: Bell;

  constructor(setup: HostSetup, by: WorkerHostOptions | WorkerTeam) {
    this.setup = setup;
    this.team = by instanceof WorkerTeam ? by : new WorkerTeam([setup], by);
    this.bells = setup.memory.threads.map((_, thread) => new Bell(setup.memory.bells, thread));
    this.rank = new Bell(setup.memory.bells, rankBell(setup.options));
  }

  startThread(thread: number): Promise<ActorReport> {
    return this.team.start(thread, this.setup);
  }

  startRank(): Promise<ActorReport> {
    return this.team.start(RANK, this.setup);
  }

  wakeThread(thread: number): void {
    this.bells[thread]!.ring();
  }

  wakeRank(): void {
    this.rank.ring();
  }
}

/** Actors in this thread: they move when they are told to. */
export class LocalHost implements ActorHost {
  readonly threads: (QueueActor | undefined)[] = [];
  rank: RankActor | null = null;
  private readonly setup: HostSetup;
  private readonly createPolicy: () => SeparablePolicy;
  private readonly pace: Pace;
  /** Called when the ring from a thread to the front is full. */
  private readonly drain: (thread: number) => void;
  private readonly ended: ((report: ActorReport) => void)[] = [];
  private readonly paces: (RecordingPace | null)[] = [];
  private rankPace: RecordingPace | null = null;
  private rankEnded: (report: ActorReport) => void = () => {};

  /** @param pace how much an actor takes; default: all. */
  constructor(
    setup: HostSetup,
    createPolicy: () => SeparablePolicy,
    drain: (thread: number) => void,
    pace: Pace = FREE_PACE,
  ) {
    this.setup = setup;
    this.createPolicy = createPolicy;
    this.drain = drain;
    this.pace = pace;
  }

  startThread(thread: number): Promise<ActorReport> {
    const pace = this.newPace();
    this.paces[thread] = pace;
    this.threads[thread] = createQueueActor(this.setup, thread, this.createPolicy(), pace ?? this.pace, (writer) => {
      // The rank never waits: its ring is emptied by a turn of its own. The front's by the front.
      this.drain(thread);
      if (writer.free <= 0) this.turnRank(this.now);
    });
    return new Promise((resolve) => {
      this.ended[thread] = resolve;
    });
  }

  startRank(): Promise<ActorReport> {
    this.rankPace = this.newPace();
    this.rank = createRankActor(this.setup, this.createPolicy(), this.rankPace ?? this.pace);
    return new Promise((resolve) => {
      this.rankEnded = resolve;
    });
  }

  wakeThread(): void {}
  wakeRank(): void {}

  private now = 0;

  /** @returns false when there was nothing to do. */
  turnThread(thread: number, now: number): boolean {
    const actor = this.threads[thread];
    if (actor === undefined || (actor.hasGreeted && !actor.hasWork)) return false;
    this.now = now;
    actor.turn(now);
    if (actor.isStopped) {
      this.threads[thread] = undefined;
      this.ended[thread]!(reportOf(this.paces[thread] ?? null));
    }
    return true;
  }

  /** @returns false when there was nothing to do. */
  turnRank(now: number): boolean {
    const { rank } = this;
    if (rank === null || (!rank.hasWork && rank.dueAt > now)) return false;
    this.now = now;
    rank.turn(now, () => {});
    if (rank.isStopped) {
      this.rank = null;
      this.rankEnded(reportOf(this.rankPace));
    }
    return true;
  }

  private newPace(): RecordingPace | null {
    const { rowsMax } = this.setup;
    return rowsMax > 0 ? new RecordingPace(rowsMax, this.pace) : null;
  }
}

const reportOf = (pace: RecordingPace | null): ActorReport => ({
  log: pace?.log ?? null,
  turns: 0,
  grants: 0,
  cpuUs: null,
});
