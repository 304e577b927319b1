import type { LogGroup } from "../../core/event-log.js";
import { invariant } from "../../core/invariant.js";
import type { NetworkDelays } from "../../core/policy.js";
import type { RequestTraits } from "../../core/tables/request-table.js";
import { encodeWindow, LIVE_ON_THREADS, WINDOW_NUMBERS } from "../../policies/live.js";
import { Bell } from "../../threads/bell.js";
import { type HostSetup, WorkerHost } from "../../threads/hosts.js";
import { createActorBells, createMemory, frontBell, type RingSizes } from "../../threads/memory.js";
import type { ModelId } from "../../threads/model-queues.js";
import { ThreadedScheduler } from "../../threads/threaded-scheduler.js";
import { WorkerTeam } from "../../threads/worker-team.js";
import { alarmIn } from "../../wire/clock/clock.js";
import {
  blankDispatch,
  type DispatchRecord,
  type LiveScheduler,
  type LiveSchedulerOptions,
  type QueueRecord,
  type SchedulerEvents,
  type SchedulerRow,
} from "../live-scheduler.js";

export interface ThreadsClientOptions extends LiveSchedulerOptions {
  /** Queue threads, in [1, 64]; the rank's is one more. */
  readonly threads: number;
}

/** Most queues of a group, those that are closing counted. */
export const QUEUES_MAX = 4096;
const RING_RECORDS: RingSizes = { front: 16_384, rank: 4096 };
/** What a grant takes from the rank to its queue, µs: one wake-up of a sleeping thread, which takes 30 to 100 here. */
const DECISION_US = 200;
/** How soon what found a ring full is tried again, µs. */
const AGAIN_US = 1000;

/** One accelerator group: its scheduler, and what this end knows of it. */
interface Group {
  readonly front: ThreadedScheduler;
  /** The driver's number of a queue, by the scheduler's model: each queue is a model of its own there. */
  readonly queueOf: number[];
  /** Batches on each accelerator, in the order in which they were sent. */
  readonly lines: number[][];
  /** Accelerator of a batch. */
  readonly acceleratorOf: Map<number, number>;
}

/** Where a queue of the driver's is. */
interface Place {
  readonly group: number;
  readonly model: ModelId;
  readonly thread: number;
}

/**
 * The main thread's end of a scheduler on many threads: a ThreadedScheduler to each accelerator group, whose actors share
 * the threads of one team. A queue lies on the thread that holds fewest when it is added.
 *
 * It keeps no time and sleeps on the front's bell (Atomics.waitAsync): actors ring it only while it sleeps.
 */
export class ThreadsClient implements LiveScheduler {
  readonly shadows = null;
  private readonly options: ThreadsClientOptions;
  private readonly events: SchedulerEvents;
  private readonly team: WorkerTeam;
  private readonly setups: readonly HostSetup[];
  private readonly bell: Bell;
  private groups: readonly Group[] = [];
  private readonly places: (Place | undefined)[] = [];
  /** Queues on each thread, over all groups. */
  private readonly queuesOn: number[];
  private readonly groupOf: Uint16Array;
  /** Cancellations that found their ring full. */
  private readonly cancels = new Set<number>();
  private readonly record: DispatchRecord = blankDispatch();
  private liveRequests = 0;
  private isPublishing = false;
  private hasStopped = false;

  constructor(options: ThreadsClientOptions, events: SchedulerEvents) {
    const { groups, threads, slots } = options;
    invariant(options.eventLog === null, "a scheduler on threads records no event log");
    this.options = options;
    this.events = events;
    this.queuesOn = new Array<number>(threads).fill(0);
    this.groupOf = new Uint16Array(slots);
    const bells = createActorBells(threads);
    this.setups = groups.map((group) => {
      const run = runOptions(group, options);
      return { options: run, memory: createMemory(run, RING_RECORDS, bells), rowsMax: 0 };
    });
    this.bell = new Bell(bells, frontBell(this.setups[0]!.options));
    this.team = new WorkerTeam(this.setups, {
      policy: LIVE_ON_THREADS,
      policyOptions: {},
      originUs: 0,
      pollUs: 0,
      onError: (error) => this.broke(error),
    });
  }

  /** Turns of all threads; what is due by time is the rank's. */
  get measured(): SchedulerRow {
    const liveBatches = this.groups.reduce((sum, { acceleratorOf }) => sum + acceleratorOf.size, 0);
    return { ...this.team.totals, liveRequests: this.liveRequests, liveBatches };
  }

  start(): Promise<void> {
    this.groups = this.setups.map((setup, group) => this.createGroup(setup, group));
    void this.listen();
    this.publishSoon();
    return this.team.allThere();
  }

  arrive(slot: number, queue: number, arrivalAt: number, deadline: number, traits?: RequestTraits): boolean {
    const { group, model } = this.places[queue]!;
    if (!this.groups[group]!.front.arrive(model, slot, arrivalAt, deadline, traits)) return false;
    this.groupOf[slot] = group;
    this.liveRequests++;
    this.publishSoon();
    return true;
  }

  cancel(slot: number): void {
    if (!this.groups[this.groupOf[slot]!]!.front.cancel(slot)) this.cancels.add(slot);
    this.publishSoon();
  }

  finished(group: number, batch: number, startAt: number, endAt: number): void {
    this.leaveLine(group, batch);
    this.groups[group]!.front.finished(batch, startAt, endAt);
    this.publishSoon();
  }

  failed(group: number, batch: number, cause: number, hasBegun: boolean | null): void {
    const isFirst = this.leaveLine(group, batch);
    this.groups[group]!.front.failed(batch, cause, hasBegun ?? isFirst);
    this.publishSoon();
  }

  join(group: number, accelerator: number, scale: number): void {
    this.groups[group]!.front.join(accelerator, scale);
    this.publishSoon();
  }

  hold(): void {}

  accuracies(): void {}

  leave(group: number, accelerator: number): void {
    this.groups[group]!.front.leave(accelerator);
    this.publishSoon();
  }

  delays(queue: number, delays: NetworkDelays): void {
    const { group, model } = this.places[queue]!;
    this.groups[group]!.front.delaysChanged(model, { ...delays, decisionUs: DECISION_US });
    this.publishSoon();
  }

  addQueue({ group, queue, sloUs, lengthMax, window, timesUs }: QueueRecord): boolean {
    const { front, queueOf } = this.groups[group]!;
    if (!front.hasQueueRoom) return false;
    const rules = new Float64Array(WINDOW_NUMBERS);
    encodeWindow(window, rules, 0);
    const { queuesOn } = this;
    const thread = queuesOn.indexOf(Math.min(...queuesOn));
    queuesOn[thread] = queuesOn[thread]! + 1;
    const model = front.addModel({ execUs: Array.from(timesUs), sloUs, lengthMax, rules: [...rules] }, [thread]);
    queueOf[model] = queue;
    this.places[queue] = { group, model, thread };
    this.publishSoon();
    return true;
  }

  removeQueue(queue: number): void {
    const { group, model, thread } = this.places[queue]!;
    this.places[queue] = undefined;
    this.queuesOn[thread] = this.queuesOn[thread]! - 1;
    this.groups[group]!.front.removeModel(model);
    this.publishSoon();
  }

  failQueue(queue: number, cause: number): void {
    const { group, model } = this.places[queue]!;
    this.groups[group]!.front.failWaiting(model, cause);
    this.publishSoon();
  }

  /** The threads hold nothing that must be kept: they are ended where they are. */
  async stop(): Promise<void> {
    this.hasStopped = true;
    this.bell.ring();
    await this.team.terminate();
  }

  private createGroup(setup: HostSetup, group: number): Group {
    const { options, memory } = setup;
    const { record } = this;
    const queueOf: number[] = [];
    const lines = Array.from({ length: options.acceleratorsMax }, (): number[] => []);
    const acceleratorOf = new Map<number, number>();
    const front = new ThreadedScheduler(options, memory, new WorkerHost(setup, this.team), {
      dispatch: (batch, model, { accelerator, size, members, execAt, execUs, close, at, openedAt, variant }) => {
        lines[accelerator]!.push(batch);
        acceleratorOf.set(batch, accelerator);
        record.group = group;
        record.batch = batch;
        record.accelerator = accelerator;
        record.queue = queueOf[model]!;
        record.execAt = execAt;
        record.execUs = execUs;
        record.close = close;
        record.at = at;
        record.openedAt = openedAt;
        record.variant = variant;
        record.slots.length = 0;
        for (let member = 0; member < size; member++) record.slots.push(members[member]!);
        this.events.dispatched(record);
      },
      end: (slot, outcome, reason, execStartAt, at, lateByUs) => {
        this.liveRequests--;
        this.cancels.delete(slot);
        this.events.ended(slot, outcome, reason, execStartAt, at, lateByUs);
      },
      batchEnded: () => {},
    });
    for (let thread = 0; thread < options.threadsMax; thread++) front.startThread();
    return { front, queueOf, lines, acceleratorOf };
  }

  /** @returns whether the batch was first in line on its accelerator. */
  private leaveLine(group: number, batch: number): boolean {
    const { lines, acceleratorOf } = this.groups[group]!;
    const line = lines[acceleratorOf.get(batch)!]!;
    const place = line.indexOf(batch);
    line.splice(place, 1);
    acceleratorOf.delete(batch);
    return place === 0;
  }

  private publishSoon(): void {
    if (this.isPublishing) return;
    this.isPublishing = true;
    queueMicrotask(this.publish);
  }

  private readonly publish = (): void => {
    this.isPublishing = false;
    if (this.hasStopped) return;
    for (const slot of this.cancels)
      if (this.groups[this.groupOf[slot]!]!.front.cancel(slot)) this.cancels.delete(slot);
    let isHolding = this.cancels.size > 0;
    for (const { front } of this.groups) {
      front.show();
      if (front.isHolding) isHolding = true;
    }
    if (!isHolding) return;
    this.isPublishing = true;
    alarmIn(this.options.clock, AGAIN_US, this.publish);
  };

  private async listen(): Promise<void> {
    const { clock } = this.options;
    const hasWork = (): boolean => this.groups.some(({ front }) => front.hasWork());
    try {
      while (!this.hasStopped) {
        const now = clock.now();
        for (const { front } of this.groups) front.poll(now);
        const rung = this.bell.sleepAsync(hasWork);
        if (rung !== null) await rung;
        // Something is there already: other callbacks get their turn first.
        else await new Promise<void>((resolve) => clock.soon(resolve));
      }
    } catch (error) {
      this.broke(error);
    }
  }

  private broke(error: unknown): void {
    if (this.hasStopped) return;
    this.hasStopped = true;
    void this.team.terminate();
    this.events.broke(error);
  }
}

function runOptions(group: LogGroup, { slots, threads }: ThreadsClientOptions) {
  return {
    network: { ...group.network, decisionUs: DECISION_US },
    acceleratorsMax: group.acceleratorsMax,
    queuesMax: QUEUES_MAX,
    requestsMax: group.requestsMax,
    tagsMax: slots,
    retriesMax: group.retriesMax,
    learn: group.learn,
    oneAtATime: false,
    threadsMax: threads,
  };
}
