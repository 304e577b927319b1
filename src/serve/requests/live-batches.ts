import { gammaOf } from "../../config/elastic.js";
import { invariant } from "../../core/invariant.js";
import {
  FAIL_CAUSES,
  FAIL_INTERNAL,
  FAIL_MODEL_ERROR,
  FAIL_NO_ACCELERATOR,
  FAIL_WORKER_CRASHED,
} from "../../core/outcome.js";
import { PLAIN } from "../../core/tables/request-table.js";
import { durationUs, timeUs } from "../../core/time.js";
import type { Clock } from "../../wire/clock/clock.js";
import type { ErrorCode } from "../../wire/serving-error.js";
import type { Tensor } from "../../wire/tensors/tensor.js";
import type { AcceleratorGroup, CommittedBatch } from "../groups/accelerator-group.js";
import type { DispatchRecord, LiveScheduler } from "../live-scheduler.js";
import type { ServedModel, ServedQueue } from "../models/served-model.js";
import type { ServedModels } from "../models/served-models.js";
import { LiveAccuracy } from "../models/tasks/live-accuracy.js";
import type { Log } from "../observation/log.js";
import type { LiveProfiler, ShadowRequest } from "../profiling/live-profiler.js";
import type { Confinement, PoolEvent, WorkerPool } from "../workers/worker-pool.js";
import type { InFlight } from "./in-flight.js";
import type { LiveRequests } from "./live-requests.js";

interface Running extends CommittedBatch {
  /** The scheduler's number of it. */
  readonly batch: number;
  readonly queue: ServedQueue;
  /** None of a request that is run again. */
  readonly members: readonly InFlight[];
  readonly shadow: ShadowRequest | null;
  readonly variant: number;
}

export interface LiveBatchesOptions {
  readonly pool: WorkerPool;
  readonly log: Log;
}

/** The batches that the scheduler has dispatched and no worker has ended: to the pool with them, and back. */
export class LiveBatches {
  private readonly pool: WorkerPool;
  private readonly log: Log;
  private readonly clock: Clock;
  private readonly models: ServedModels;
  private readonly requests: LiveRequests;
  private readonly scheduler: LiveScheduler;
  private readonly accuracy: LiveAccuracy;
  private readonly onSettled: (model: ServedModel) => void;
  /** All members of a batch were answered, and no turn of the scheduler has come yet. */
  afterAnswers: () => void = () => {};
  /** By group; null: nothing is run again there. */
  profilers: readonly (LiveProfiler | null)[] = [];
  /** By the number that the pool knows it by. */
  private readonly running = new Map<number, Running>();
  /** Those of them that are runs to learn from: nobody waits for them. */
  private shadows = 0;
  private nextBatch = 1;
  /** Models, by name, that not all workers may hold batches of at once: one may end its worker, or keeps it. */
  private readonly confined = new Map<string, Confinement>();

  /** @param onSettled a batch of the model is on no accelerator any more. */
  constructor(
    options: LiveBatchesOptions,
    clock: Clock,
    models: ServedModels,
    requests: LiveRequests,
    scheduler: LiveScheduler,
    onSettled: (model: ServedModel) => void,
  ) {
    this.pool = options.pool;
    this.log = options.log;
    this.clock = clock;
    this.models = models;
    this.requests = requests;
    this.scheduler = scheduler;
    this.accuracy = new LiveAccuracy(scheduler);
    this.onSettled = onSettled;
  }

  get count(): number {
    return this.running.size - this.shadows;
  }

  /** Batches on the accelerators of a group, from when each may have begun to execute. */
  *on(group: AcceleratorGroup): Generator<{ accelerator: number; queue: ServedQueue; size: number; execAt: number }> {
    for (const { accelerator, queue, members, shadow, execAt } of this.running.values())
      if (shadow === null && queue.model.group === group) yield { accelerator, queue, size: members.length, execAt };
  }

  /** On how many workers batches of the model may be at once, from now on. */
  confine(model: string, to: Confinement): void {
    if (to === "all") this.confined.delete(model);
    else this.confined.set(model, to);
    for (const queue of this.models.queuesNamed(model)) this.holdOrLetGo(queue.model);
  }

  /** An accelerator of the group came or went. */
  groupChanged(group: AcceleratorGroup): void {
    for (const name of this.confined.keys())
      for (const queue of this.models.queuesNamed(name)) if (queue.model.group === group) this.holdOrLetGo(queue.model);
  }

  /** Whether a confined model has as many batches out as it may. */
  private isFull({ spec, batches, group }: ServedModel): boolean {
    const to = this.confined.get(spec.name);
    return to !== undefined && batches >= (to === "one" ? 1 : Math.max(1, group.hopefulCount - 1));
  }

  /** A confined model waits while it is full, and while a worker less would leave nobody for the others. */
  private holdOrLetGo(model: ServedModel): void {
    const isHeld = this.confined.has(model.spec.name) && (this.isFull(model) || !model.group.hasSpare);
    for (const queue of model.queues.values()) {
      if (queue.isHeld === isHeld) continue;
      queue.isHeld = isHeld;
      this.scheduler.hold(queue.id, isHeld);
    }
  }

  /** Takes back what waits on an accelerator behind a batch that keeps it. @param first the pool's number of that. */
  takeBack(group: AcceleratorGroup, accelerator: number, first: number): void {
    for (const [id, running] of this.running) {
      if (id === first || running.accelerator !== accelerator || running.queue.model.group !== group) continue;
      // Where the worker ends before it answers, the batch fails with it.
      this.pool.cancel(group.first + accelerator, id).then(
        (isBack) => {
          if (!isBack || !this.running.has(id)) return;
          this.handBack(this.settle(id), FAIL_WORKER_CRASHED, "its worker was kept by another batch", false);
        },
        () => {},
      );
    }
  }

  /** The scheduler's command. */
  dispatched(record: DispatchRecord): void {
    const { accelerator, slots, openedAt, at } = record;
    const shadow = this.profilers[record.group]?.dispatched(slots[0]!) ?? null;
    const queue = shadow?.queue ?? this.models.queue(record.queue);
    const { model } = queue;
    const { group } = model;
    const members =
      shadow === null ? slots.map((slot) => this.requests.dispatched(slot, slots.length, openedAt, at)) : [];
    const id = this.nextBatch++;
    const running: Running = {
      accelerator,
      batch: record.batch,
      queue,
      members,
      shadow,
      variant: record.variant,
      dispatchedAt: at,
      predictedUs: record.execUs,
      wasIdle: group.holdsNothing(accelerator),
      execAt: record.execAt,
    };
    group.dispatched(running);
    for (const member of members) {
      member.batch = running;
      model.tasks?.hold(member.traits.kind);
    }
    const isTooMany = this.isFull(model);
    model.batches++;
    queue.batches++;
    if (shadow !== null) this.shadows++;
    this.running.set(id, running);
    if (this.confined.has(model.spec.name)) this.holdOrLetGo(model);
    if (!group.canRun(accelerator) || isTooMany) {
      // It left, or its model was confined, while the batch was on its way: nothing has begun.
      this.settle(id);
      this.handBack(running, FAIL_WORKER_CRASHED, "the worker ended before the batch reached it", false);
      if (group.isDeserted) this.scheduler.failQueue(queue.id, FAIL_NO_ACCELERATOR);
      return;
    }
    if (shadow === null) model.cells.closed[record.close]!.value++;
    try {
      this.pool.run(group.first + accelerator, {
        batch: id,
        model: model.spec.name,
        spec: model.spec,
        members: shadow === null ? members.map((member) => member.call?.inputs ?? NO_TENSORS) : [shadow.inputs],
        variant: record.variant,
        kinds: kindsOf(shadow === null ? members : [shadow]),
        outputs: shadow?.outputs ?? outputsWanted(members, model.spec.elastic?.confidence ?? null),
        earliestStartAt: timeUs(record.execAt),
        predictedUs: durationUs(record.execUs),
        deadlineAt: timeUs(
          members.reduce((latest, member) => Math.max(latest, member.deadline), shadow?.deadline ?? 0),
        ),
      });
    } catch (error) {
      this.log.error({ err: error, model: model.spec.name }, "a batch could not be handed to its worker");
      this.settle(id);
      this.handBack(running, FAIL_INTERNAL, "internal error", true);
    }
  }

  finished(event: PoolEvent & { kind: "finished" }): void {
    const { startedAt, finishedAt } = event;
    const now = this.clock.now();
    const running = this.settle(event.batch);
    const { batch, members, queue, variant } = running;
    const profiler = this.profilers[queue.model.group.index];
    if (running.shadow !== null) profiler!.ran(finishedAt - startedAt);
    this.scheduler.finished(queue.model.group.index, batch, startedAt, finishedAt);
    for (let index = 0; index < members.length; index++)
      this.requests.executed(members[index]!, startedAt, finishedAt, variant, event.outputs[index]!, now);
    if (running.shadow !== null) return;
    this.afterAnswers();
    this.measure(running, event, now);
    if (queue.model.tasks !== null) this.accuracy.answered(queue, variant, kindsOf(members), event.outputs, now);
    // A confined model may end its worker; and what an elastic model takes is not its requests' doing.
    if (!this.confined.has(queue.model.spec.name) && queue.model.tasks === null)
      profiler?.batchEnded(queue, members, now);
  }

  /** @param quantile of what it was expected to take, that the time of a batch of this queue is. */
  predicted(queue: number, quantile: number): void {
    // Gone when all its members were cancelled while they ran, and its model was unloaded.
    this.models.find(queue)?.model.cells.quantile.observe(quantile);
  }

  private measure(running: Running, event: PoolEvent & { kind: "finished" }, now: number): void {
    const { members, predictedUs, queue } = running;
    const { model } = queue;
    const { cells, group } = model;
    const execUs = event.finishedAt - event.startedAt;
    const { length: size } = members;
    const profiledUs =
      running.variant === 0 ? queue.execUs[size]! : model.times.ofVariant(running.variant).us(size * queue.rows, null);
    queue.ratio.measured(execUs, profiledUs);
    cells.batchesFinished.value++;
    if (model.tasks !== null) cells.elastic.ran(gammaOf(model.tasks.elastic, running.variant));
    cells.size.observe(members.length);
    cells.execution.observe(execUs / 1e6);
    cells.ratio.observe(execUs / Math.max(1, predictedUs));
    const answeredUs = Math.max(0, this.clock.now() - event.finishedAt);
    group.finished(running, event.startedAt, execUs, answeredUs, model.meter);
    if (model.meter.look(now)) this.models.tellDelays(model);
    model.counts.ran(members.length, event.inputUs, execUs, event.outputUs, this.clock.wallMs());
  }

  failed(event: PoolEvent & { kind: "failed" }): void {
    const running = this.settle(event.batch);
    const { accelerator, members, shadow } = running;
    const { model } = running.queue;
    if (shadow === null) model.cells.batchesFailed.value++;
    this.log.warn(
      {
        model: model.spec.name,
        group: model.group.spec.name,
        accelerator,
        size: members.length,
        cause: event.cause,
        text: event.message,
      },
      shadow === null ? "a batch failed" : "a request that was run again failed",
    );
    // Of several members nobody knows yet who is to blame.
    const code = members.length === 1 ? event.code : "internal";
    // Alone it ended its worker: it would end the next one too.
    const isFinal = event.isGuilty === true && members.length === 1;
    const cause = isFinal ? FAIL_MODEL_ERROR : FAIL_CAUSES.indexOf(event.cause);
    this.handBack(running, cause, event.message, null, code);
  }

  /** The scheduler decides who of the batch is tried again. @param hasBegun null: whatever was first in line began. */
  private handBack(
    running: Running,
    cause: number,
    text: string,
    hasBegun: boolean | null,
    code: ErrorCode = "internal",
  ): void {
    for (const member of running.members) this.requests.returned(member, text, code);
    if (running.shadow !== null) this.lost(running, hasBegun);
    this.scheduler.failed(running.queue.model.group.index, running.batch, cause, hasBegun);
  }

  /** A request that was run again was not measured. */
  private lost({ queue, execAt }: Running, hasBegun: boolean | null): void {
    const us = hasBegun === false ? 0 : Math.max(0, this.clock.now() - execAt);
    this.profilers[queue.model.group.index]!.ran(us);
  }

  /** It is on no accelerator any more. */
  private settle(id: number): Running {
    const running = this.running.get(id);
    invariant(running !== undefined, `batch ${id} ended twice or never began`);
    const { queue } = running;
    const { model } = queue;
    this.running.delete(id);
    for (const { traits } of running.members) model.tasks?.release(traits.kind);
    model.group.settled(running);
    queue.batches--;
    model.batches--;
    if (running.shadow !== null) this.shadows--;
    if (queue.isHeld) this.holdOrLetGo(model);
    this.onSettled(model);
    return running;
  }
}

const NO_TENSORS: readonly Tensor[] = [];
const NO_KINDS: readonly number[] = [];

/** Empty where nobody says any. */
const kindsOf = (members: readonly Pick<InFlight, "traits">[]): readonly number[] =>
  members.every(({ traits }) => traits.kind === PLAIN.kind) ? NO_KINDS : members.map(({ traits }) => traits.kind);

/** Names that any member asks for, and one that the server reads itself; empty: all. */
function outputsWanted(members: readonly InFlight[], own: string | null): readonly string[] {
  const names = new Set<string>();
  for (const { call } of members) {
    if (call === null) continue;
    if (call.outputs.length === 0) return [];
    for (const name of call.outputs) names.add(name);
  }
  if (own !== null && names.size > 0) names.add(own);
  return [...names];
}
