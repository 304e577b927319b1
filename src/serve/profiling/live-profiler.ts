import { type Profiler, SHADOW_WAIT_US, type ShadowOutcome, shadowOutcome } from "../../core/shadow/profiler.js";
import type { RequestTraits } from "../../core/tables/request-table.js";
import type { Tensor } from "../../wire/tensors/tensor.js";
import type { InferCall } from "../gateway.js";
import type { LiveScheduler, ShadowScheduler } from "../live-scheduler.js";
import type { ServedModel, ServedQueue } from "../models/served-model.js";
import type { ServedModels } from "../models/served-models.js";
import type { ProfilerCells } from "../observation/profiler-metrics.js";

/** A request with larger inputs is not kept for another run, bytes. */
export const KEPT_BYTES_MAX = 16 * 1024 * 1024;

/** Of a batch. */
interface Member {
  /** Null: its tensors are not held any more. */
  readonly call: InferCall | null;
  readonly traits: RequestTraits;
}

/** A request that is run again: its tensors are kept until it has ended and its batch is on no accelerator. */
export interface ShadowRequest {
  /** That it came from, and the scheduler's number of the one that it waits in. */
  readonly queue: ServedQueue;
  readonly id: number;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly string[];
  readonly traits: RequestTraits;
  readonly deadline: number;
  isRunning: boolean;
  /** Time that it took on an accelerator, µs. */
  ranUs: number;
  /** Null: the scheduler has not ended it. */
  outcome: ShadowOutcome | null;
}

/**
 * The online profiler of a group while serving (core/shadow): keeps the inputs of the one request that is out, and sends it as one
 * without a client. Its scheduler's queue is there as long as it is. What it does counts here and nowhere else.
 *
 * waiting -> running -> ended; cancelled while it runs, it has ended when its batch has, too.
 */
export class LiveProfiler {
  /** The slot of its requests at the scheduler, which no client's request has. */
  readonly slot: number;
  /** The one that is out; null: none is. */
  out: ShadowRequest | null = null;
  private readonly profiler: Profiler;
  private readonly scheduler: LiveScheduler;
  private readonly shadows: ShadowScheduler;
  private readonly models: ServedModels;
  private readonly cells: ProfilerCells;
  private readonly onEnded: (model: ServedModel) => void;
  private isClosed = false;

  /** @param onEnded a request of the model that was run again ended, and nothing of it is held any more. */
  constructor(
    profiler: Profiler,
    slot: number,
    scheduler: LiveScheduler,
    shadows: ShadowScheduler,
    models: ServedModels,
    cells: ProfilerCells,
    onEnded: (model: ServedModel) => void,
  ) {
    this.profiler = profiler;
    this.slot = slot;
    this.scheduler = scheduler;
    this.shadows = shadows;
    this.models = models;
    this.cells = cells;
    this.onEnded = onEnded;
  }

  /** A batch ended well and its members were answered: perhaps one is run again. */
  batchEnded(queue: ServedQueue, members: readonly Member[], now: number): void {
    if (this.isClosed || queue.model.isLeaving) return;
    const place = this.profiler.pick(members.length, now, (each) => this.wantedUs(queue, members[each]!));
    if (place >= 0) this.runAgain(queue, members[place]!, now);
  }

  /** @returns 0: it is not run again. Parts of pipelines are not, as in the simulator. */
  private wantedUs(queue: ServedQueue, { call, traits }: Member): number {
    if (call === null || call.part !== undefined) return 0;
    const us = this.shadows.wantedAloneUs(queue.id, traits.kind, this.profiler.options.observations);
    if (us === 0 || bytesOf(call) <= KEPT_BYTES_MAX) return us;
    this.cells.ended(queue.model, traits.kind, "too-large");
    return 0;
  }

  private runAgain(queue: ServedQueue, { call, traits }: Member, now: number): void {
    const { inputs, outputs } = call!;
    const id = this.models.addShadow(queue);
    const deadline = now + SHADOW_WAIT_US;
    this.out = { queue, id, inputs, outputs, traits, deadline, isRunning: false, ranUs: 0, outcome: null };
    queue.shadows++;
    queue.model.shadows++;
    this.scheduler.arrive(this.slot, id, now, deadline, traits);
  }

  /** @returns the request in this slot, which goes to an accelerator; null: it is not one that is run again. */
  dispatched(slot: number): ShadowRequest | null {
    if (slot !== this.slot) return null;
    this.out!.isRunning = true;
    return this.out;
  }

  /** Its batch is on no accelerator any more. @param us that it took there. */
  ran(us: number): void {
    const out = this.out!;
    out.isRunning = false;
    out.ranUs = us;
    this.settle();
  }

  /** The scheduler ended it, by the codes of core/outcome.ts. */
  ended(outcome: number, reason: number): void {
    this.out!.outcome = shadowOutcome(outcome, reason);
    this.settle();
  }

  private settle(): void {
    const { out } = this;
    if (out === null || out.outcome === null || out.isRunning) return;
    const { queue, outcome, ranUs, traits } = out;
    this.out = null;
    queue.shadows--;
    queue.model.shadows--;
    this.models.giveBack(out.id);
    this.profiler.ended(outcome, ranUs);
    this.cells.ended(queue.model, traits.kind, outcome);
    this.cells.ran(queue.model, ranUs);
    this.onEnded(queue.model);
  }

  /** What waits of the model is given up; what runs ends by itself. */
  cancel(model: ServedModel): void {
    if (this.out?.queue.model === model && !this.out.isRunning) this.scheduler.cancel(this.slot);
  }

  /** Nothing is run again from now on. */
  close(): void {
    this.isClosed = true;
    if (this.out !== null) this.cancel(this.out.queue.model);
  }

  /** The scheduler has ended: it tells no more ends. */
  stop(): void {
    const { out } = this;
    if (out === null) return;
    out.isRunning = false;
    out.outcome ??= "cancelled";
    this.settle();
  }

  present(count: number, now: number): void {
    this.profiler.present(count, now);
  }

  /** Part of the accelerators' time until now that its runs took. @param count of accelerators. */
  share(count: number, now: number): number {
    this.present(count, now);
    const { ranUs, presentUs } = this.profiler;
    return presentUs === 0 ? 0 : ranUs / presentUs;
  }
}

/** Tensors may be views of a body that they keep whole. */
const bytesOf = ({ inputs, byteLength }: InferCall): number =>
  Math.max(
    byteLength,
    inputs.reduce((sum, { data }) => sum + data.byteLength, 0),
  );
