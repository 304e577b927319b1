import { linearTable } from "../../src/core/latency/latency.js";
import { DROP_CANCELLED, DROPPED, FAIL_WORKER_CRASHED, FINISHED, LATE } from "../../src/core/outcome.js";
import { createSeparablePolicy } from "../../src/policies/registry.js";
import { stream, type Uniform } from "../../src/sim/random.js";
import { LocalHost, WorkerHost } from "../../src/threads/hosts.js";
import { createMemory } from "../../src/threads/memory.js";
import type { RunOptions, RunRecord } from "../../src/threads/run-record.js";
import { ThreadedScheduler, type ThreadedSink } from "../../src/threads/threaded-scheduler.js";
import { monotonicNow } from "../../src/wire/clock/monotonic-clock.js";

export interface ThreadedChaosOptions {
  readonly seed: number;
  readonly actions: number;
  readonly policy: string;
  readonly policyOptions: Readonly<Record<string, unknown>>;
  readonly isRecording: boolean;
  /** Actors are worker threads and time is real: what is random then is not the seed's alone. */
  readonly isReal?: boolean;
}

interface Run {
  readonly batch: number;
  readonly size: number;
  readonly execAt: number;
  readonly execUs: number;
  startAt: number;
  endAt: number;
}

interface Accelerator {
  isPresent: boolean;
  slow: number;
  readonly held: Run[];
  /** Moment of the decision on its last batch. */
  decidedAt: number;
}

const MODELS = [
  { table: linearTable(1000, 5000, 12), sloUs: 25_000 },
  { table: linearTable(500, 9000, 40), sloUs: 60_000 },
  { table: linearTable(7000, 300, 4), sloUs: 40_000 },
  { table: linearTable(2000, 2000, 1), sloUs: 9000 },
];
const ACCELERATORS = 5;
const MODELS_MAX = 6;
const TAGS = 300;
/** States of a tag: a request of it is waiting or on its way, in a batch, or cancelled while in one. */
const FREE = 0;
const SENT = 1;
const RUNNING = 2;

/**
 * A threaded scheduler whose actors move when a seed says so: they see what the others wrote early, late or in part, while
 * accelerators, models and queue threads come and go. Accelerators hold it to its protocol. Ends with a drain.
 */
export class ThreadedChaos implements ThreadedSink {
  readonly counts = {
    arrived: 0,
    refused: 0,
    finished: 0,
    late: 0,
    dropped: 0,
    failed: 0,
    cancelled: 0,
    stale: 0,
    moved: 0,
  };
  readonly front: ThreadedScheduler;
  /** Actors that move when they are told; null: worker threads. */
  private readonly local: LocalHost | null;
  private readonly originUs = monotonicNow();
  private broken: Error | null = null;
  private readonly run: RunOptions;
  private readonly options: ThreadedChaosOptions;
  private readonly random: Uniform;
  private readonly accelerators: Accelerator[];
  private readonly models = new Map<number, number>();
  private readonly tags = new Uint8Array(TAGS);
  private readonly freeTags: number[] = Array.from({ length: TAGS }, (_, tag) => tag);
  private readonly members = new Map<number, number[]>();
  private now = 0;
  private step = 0;

  constructor(options: ThreadedChaosOptions) {
    this.options = options;
    const random = stream(options.seed, "threads");
    this.random = random;
    this.run = {
      network:
        random() < 0.5
          ? { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 }
          : { controlUs: 100, dataUsPerRequest: 50, responseUs: 30 },
      acceleratorsMax: ACCELERATORS,
      queuesMax: 40,
      requestsMax: 90,
      tagsMax: TAGS,
      retriesMax: 1,
      learn: random() < 0.5,
      oneAtATime: random() < 0.2,
      threadsMax: 3,
    };
    const memory = createMemory(this.run, { front: 64, rank: 8 });
    const policy = () => createSeparablePolicy(options.policy, options.policyOptions);
    const setup = { options: this.run, memory, rowsMax: options.isRecording ? 1_000_000 : 0 };
    this.local =
      options.isReal === true
        ? null
        : new LocalHost(setup, policy, (thread) => this.front.pollThread(thread), {
            begin: () => {},
            // Mostly all, sometimes a part, sometimes nothing.
            take: (_source, available) => (random() < 0.6 ? available : Math.floor(random() * (available + 1))),
            saw: () => {},
            posted: (_key, isNew) => isNew,
            room: (_thread, hasRoom) => hasRoom,
          });
    const host =
      this.local ??
      new WorkerHost(setup, {
        policy: options.policy,
        policyOptions: options.policyOptions,
        originUs: this.originUs,
        pollUs: 0,
        onError: (error) => {
          this.broken = error;
        },
      });
    this.front = new ThreadedScheduler(this.run, memory, host, this, options.isRecording);
    this.accelerators = Array.from({ length: ACCELERATORS }, () => ({
      isPresent: false,
      slow: 1,
      held: [],
      decidedAt: 0,
    }));
    this.front.startThread();
    this.addModel();
    for (let id = 0; id < 3; id++) this.join(id);
  }

  /** Runs the script and the drain. @returns the record, when there is one. */
  async play(): Promise<RunRecord | null> {
    try {
      for (; this.step < this.options.actions; this.step++) {
        this.act();
        await this.move();
      }
      await this.drain();
      const record = await this.front.record();
      if (!this.options.isRecording) await this.front.ended();
      return record;
    } catch (error) {
      const { seed, policy } = this.options;
      throw new Error(`seed ${seed} (${policy}) step ${this.step} at ${this.now}: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  // The script

  private act(): void {
    const { random, front } = this;
    const dice = random();
    if (dice < 0.7) this.arrive();
    else if (dice < 0.76) this.cancel();
    else if (dice < 0.8) {
      const id = this.pick(ACCELERATORS);
      if (this.accelerators[id]!.isPresent && random() < 0.6) {
        this.accelerators[id]!.isPresent = false;
        front.leave(id);
      } else this.join(id);
    } else if (dice < 0.83) this.fail(this.pick(ACCELERATORS));
    else if (dice < 0.85)
      this.accelerators[this.pick(ACCELERATORS)]!.slow = random() < 0.5 ? 1 : 1 + 10 * random() ** 3;
    else if (dice < 0.88 && this.models.size < MODELS_MAX) this.addModel();
    else if (dice < 0.89 && this.models.size > 1) {
      const model = this.anyModel();
      this.models.delete(model);
      front.removeModel(model, FAIL_WORKER_CRASHED);
    } else if (dice < 0.95) {
      this.counts.moved++;
      front.spread(this.anyModel(), this.someThreads());
    } else if (dice < 0.98 && front.hasThreadRoom) front.startThread();
    else if (front.threads.length > 1) front.stopThread(front.threads[this.pick(front.threads.length)]!);
  }

  private arrive(): void {
    const { random, front } = this;
    for (let burst = random() < 0.03 ? 40 : 1 + Math.floor(random() * 2); burst > 0; burst--) {
      const tag = this.freeTags.pop();
      if (tag === undefined) return;
      const model = this.anyModel();
      const { sloUs } = MODELS[this.models.get(model)!]!;
      const us = random() < 0.7 ? sloUs : Math.floor(sloUs * 2 * random());
      if (!front.arrive(model, tag, this.now, this.now + us)) {
        this.counts.refused++;
        this.freeTags.push(tag);
        return;
      }
      this.counts.arrived++;
      this.tags[tag] = SENT;
    }
  }

  private cancel(): void {
    const live = [...this.tags.keys()].filter((tag) => this.tags[tag] !== FREE);
    if (live.length > 0) this.front.cancel(live[this.pick(live.length)]!);
  }

  private join(id: number): void {
    this.accelerators[id]!.isPresent = true;
    this.front.join(id, [1, 1, 1.3, 4][this.pick(4)]!);
  }

  /** It dies with all that it holds. */
  private fail(id: number): void {
    const accelerator = this.accelerators[id]!;
    if (!accelerator.isPresent) return;
    accelerator.isPresent = false;
    this.front.leave(id);
    for (const [index, { batch }] of accelerator.held.splice(0).entries()) this.failBatch(batch, index === 0);
  }

  private failBatch(batch: number, hasBegun: boolean): void {
    for (const tag of this.members.get(batch)!) if (this.tags[tag] === RUNNING) this.tags[tag] = SENT;
    this.members.delete(batch);
    this.front.failed(batch, FAIL_WORKER_CRASHED, hasBegun);
  }

  private addModel(): void {
    const kind = this.pick(MODELS.length);
    const { table, sloUs } = MODELS[kind]!;
    const execUs = [...table.subarray(1, table.length - 1)];
    this.models.set(this.front.addModel({ execUs, sloUs, lengthMax: 60 }, this.someThreads()), kind);
  }

  // Time, accelerators, actors

  private async move(): Promise<void> {
    const { random } = this;
    if (this.local === null) return await this.moveReal(1);
    if (random() < 0.8) this.now += Math.floor(-Math.log1p(-random()) * 1500);
    this.endDue();
    for (let moves = this.pick(16); moves > 0; moves--) this.moveOne(this.local, this.pick(this.run.threadsMax + 3));
  }

  /** Lets worker threads work for a while. */
  private async moveReal(ms: number): Promise<void> {
    if (this.broken !== null) throw this.broken;
    this.front.show();
    await new Promise((resolve) => setTimeout(resolve, ms));
    this.now = monotonicNow() - this.originUs;
    this.front.poll(this.now);
    this.endDue();
    this.front.show();
  }

  private moveOne(host: LocalHost, who: number): void {
    const { front, run } = this;
    if (who < run.threadsMax) host.turnThread(who, this.now);
    else if (who === run.threadsMax) host.turnRank(this.now);
    else if (who === run.threadsMax + 1) front.show();
    else front.poll(this.now);
  }

  /** A little later, with everybody having had a turn. */
  private async moveAll(): Promise<void> {
    if (this.local === null) return await this.moveReal(1);
    this.now += 200;
    this.endDue();
    this.front.show();
    for (let who = 0; who < this.run.threadsMax + 3; who++) this.moveOne(this.local, who);
  }

  private endDue(): void {
    for (const accelerator of this.accelerators) {
      for (let run = accelerator.held[0]; run !== undefined && run.endAt <= this.now; run = accelerator.held[0]) {
        accelerator.held.shift();
        this.front.finished(run.batch, run.startAt, run.endAt);
        const following = accelerator.held[0];
        if (following !== undefined) this.begin(accelerator, following, run.endAt);
      }
    }
  }

  private begin(accelerator: Accelerator, run: Run, at: number): void {
    run.startAt = Math.max(at, run.execAt);
    run.endAt = run.startAt + Math.ceil(run.execUs * (this.run.learn ? accelerator.slow : 1));
  }

  private async drain(): Promise<void> {
    const { front, local, run } = this;
    for (let round = 0; this.tags.some((state) => state !== FREE); round++) {
      this.check(round < 20_000, "requests are left that never end");
      await this.moveAll();
    }
    for (const model of this.models.keys()) front.removeModel(model);
    const isRunning = (): boolean =>
      Array.from({ length: run.threadsMax }, (_, each) => each).some((each) => front.isRunning(each));
    for (let round = 0; isRunning(); round++) {
      this.check(round < 20_000, "queue threads do not end");
      for (const thread of front.threads) {
        if (front.queuesOn(thread) > 0) continue;
        const actor = local?.threads[thread];
        this.check(
          actor === undefined || actor.requests.live + actor.batches.live === 0,
          "a queue thread holds what nobody knows",
        );
        front.stopThread(thread);
      }
      await this.moveAll();
    }
    front.stopRank();
    for (let round = 0; local !== null && local.rank !== null; round++) {
      this.check(round < 1000, "the rank does not end");
      local.turnRank(this.now);
    }
    this.check(this.members.size === 0, `${this.members.size} batches never ended`);
  }

  // ThreadedSink

  dispatch(batch: number, model: number, dispatched: Parameters<ThreadedSink["dispatch"]>[2]): void {
    const { accelerator: id, size, members, execAt, execUs, at } = dispatched;
    const accelerator = this.accelerators[id]!;
    this.check(at >= accelerator.decidedAt, `accelerator ${id} was sent a batch decided before its last one`);
    accelerator.decidedAt = at;
    const tags = [...members.subarray(0, size)];
    this.check(size >= 1 && this.models.size >= 0 && model >= 0, `batch of ${size}`);
    this.check(!this.members.has(batch), `batch ${batch} is under way already`);
    for (const tag of tags) {
      this.check(this.tags[tag] === SENT, `request ${tag} was dispatched in state ${this.tags[tag]}`);
      this.tags[tag] = RUNNING;
    }
    this.members.set(batch, tags);
    if (!accelerator.isPresent) {
      // The grant was under way when it left.
      this.counts.stale++;
      this.failBatch(batch, false);
      return;
    }
    this.check(accelerator.held.length < 2, `accelerator ${id} was sent a batch beyond two`);
    const run: Run = { batch, size, execAt, execUs, startAt: 0, endAt: 0 };
    accelerator.held.push(run);
    if (accelerator.held.length === 1) this.begin(accelerator, run, this.now);
  }

  end(tag: number, outcome: number, reason: number): void {
    this.check(this.tags[tag] !== FREE, `request ${tag} ended twice`);
    const isCancelled = outcome === DROPPED && reason === DROP_CANCELLED;
    const wasRunning = this.tags[tag] === RUNNING;
    if (outcome === FINISHED || outcome === LATE) {
      this.check(wasRunning, `request ${tag} finished though it was in no batch`);
      this.counts[outcome === FINISHED ? "finished" : "late"]++;
    } else if (isCancelled) this.counts.cancelled++;
    else if (outcome === DROPPED) {
      this.check(!wasRunning, `request ${tag} was dropped though dispatched`);
      this.counts.dropped++;
    } else this.counts.failed++;
    this.tags[tag] = FREE;
    // A cancelled one may still be in its batch: the tag is free, as the driver has its answer.
    if (isCancelled)
      for (const tags of this.members.values()) if (tags.includes(tag)) tags.splice(tags.indexOf(tag), 1);
    this.freeTags.unshift(tag);
  }

  batchEnded(batch: number): void {
    this.check(this.members.delete(batch), `batch ${batch} ended twice`);
  }

  private someThreads(): number[] {
    const { threads } = this.front;
    const some = threads.filter(() => this.random() < 0.5);
    return some.length > 0 ? some : [threads[this.pick(threads.length)]!];
  }

  private anyModel(): number {
    return [...this.models.keys()][this.pick(this.models.size)]!;
  }

  private pick(count: number): number {
    return Math.floor(this.random() * count);
  }

  private check(holds: boolean, why: string): void {
    if (!holds) throw new Error(why);
  }
}
