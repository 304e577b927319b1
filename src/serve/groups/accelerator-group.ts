import type { AcceleratorGroupSpec } from "../../config/model.js";
import type { NetworkDelays } from "../../core/policy.js";
import type { GroupDelays } from "../observation/metrics.js";
import { type Left, left, type PlannedRun, waitOf } from "./backlog.js";
import type { DelayMeter } from "./delay-meter.js";
import { GroupLoad } from "./group-load.js";

/**
 * present: takes batches. draining: gets no more, but those decided before it was known still run. overdue: the same
 * until what it runs has ended. restarting: gone, a replacement is on its way. It joins out of any of them.
 */
type Presence = "away" | "present" | "draining" | "overdue" | "restarting";

/** A batch on one of the accelerators. */
export interface CommittedBatch extends PlannedRun {
  readonly accelerator: number;
  readonly dispatchedAt: number;
  /** Dispatched to an accelerator that held nothing. */
  readonly wasIdle: boolean;
}

/** One group of accelerators: who is there, what each holds, how long they were busy, how late they begin and answer. */
export class AcceleratorGroup {
  readonly spec: AcceleratorGroupSpec;
  readonly index: number;
  /** Index over the server of its first accelerator. */
  readonly first: number;
  readonly load = new GroupLoad();
  /** Delays that plans allow for at first. */
  readonly network: NetworkDelays;
  /** Execution time of the batches that ended well, by accelerator, µs. */
  readonly busyUs: Float64Array;
  /** Accelerators that take batches. */
  presentCount = 0;
  /** They are so many from now on. */
  onPresence: (count: number, now: number) => void = () => {};
  /** Those that are about to. */
  private awaitedCount = 0;
  private readonly presence: Presence[];
  /** Batches on each accelerator in the order of dispatch, by our count; the scheduler's and the worker's must agree with it. */
  private readonly held: readonly Set<CommittedBatch>[];
  /** Time that the requests that wait for the group take on one accelerator, by their share of a largest batch, µs. */
  private waitingUs = 0;
  private readonly delays: GroupDelays;

  constructor(spec: AcceleratorGroupSpec, index: number, first: number, network: NetworkDelays, delays: GroupDelays) {
    this.spec = spec;
    this.index = index;
    this.first = first;
    this.busyUs = new Float64Array(spec.count);
    this.presence = new Array<Presence>(spec.count).fill("away");
    this.held = Array.from({ length: spec.count }, () => new Set());
    this.delays = delays;
    this.network = network;
  }

  // Who is there

  joined(accelerator: number, now: number): void {
    this.turn(accelerator, "present", now);
  }

  overdue(accelerator: number, now: number): void {
    this.turn(accelerator, "overdue", now);
  }

  isOverdue(accelerator: number): boolean {
    return this.presence[accelerator] === "overdue";
  }

  draining(accelerator: number, now: number): void {
    this.turn(accelerator, "draining", now);
  }

  left(accelerator: number, willRestart: boolean, now: number): void {
    this.turn(accelerator, willRestart ? "restarting" : "away", now);
  }

  isPresent(accelerator: number): boolean {
    return this.presence[accelerator] === "present";
  }

  /** Its worker is up: a batch that was decided before it drained still runs. */
  canRun(accelerator: number): boolean {
    const presence = this.presence[accelerator];
    return presence === "present" || presence === "draining" || presence === "overdue";
  }

  /** Nobody takes batches, and nobody is about to. */
  get isDeserted(): boolean {
    return this.hopefulCount === 0;
  }

  /** As many as there can be take batches, two at the least: one may be given to a model that may end it. */
  get hasSpare(): boolean {
    return this.presentCount >= Math.min(2, this.hopefulCount);
  }

  /** Accelerators that take batches, or are about to again. */
  get hopefulCount(): number {
    return this.presentCount + this.awaitedCount;
  }

  private turn(accelerator: number, presence: Presence, now: number): void {
    this.presence[accelerator] = presence;
    this.presentCount = this.presence.filter((each) => each === "present").length;
    this.awaitedCount = this.presence.filter((each) => each === "restarting" || each === "overdue").length;
    this.load.present(this.presentCount, now);
    this.onPresence(this.presentCount, now);
  }

  // Its batches

  holdsNothing(accelerator: number): boolean {
    return this.held[accelerator]!.size === 0;
  }

  /** One that takes batches and holds none, while nothing waits for the group; null: there is none. */
  restingAccelerator(): number | null {
    if (this.waitingUs >= 1) return null;
    const resting = this.held.findIndex((runs, accelerator) => runs.size === 0 && this.isPresent(accelerator));
    return resting < 0 ? null : resting;
  }

  /** Null: none takes batches. */
  firstPresent(): number | null {
    const first = this.presence.indexOf("present");
    return first < 0 ? null : first;
  }

  dispatched(batch: CommittedBatch): void {
    this.held[batch.accelerator]!.add(batch);
  }

  settled(batch: CommittedBatch): void {
    this.held[batch.accelerator]!.delete(batch);
  }

  /** A request that takes so long begins or ends (less than 0) to wait. */
  waits(workUs: number): void {
    this.waitingUs = Math.max(0, this.waitingUs + workUs);
  }

  /** Until a batch that it holds has ended. */
  leftOf(batch: CommittedBatch, now: number): Left {
    const until: CommittedBatch[] = [];
    for (const each of this.held[batch.accelerator]!) {
      until.push(each);
      if (each === batch) break;
    }
    return left(until, now);
  }

  /** Until one of its accelerators is done with what runs and with all that waits. @param ownUs of that that does not count. */
  backlog(now: number, ownUs = 0): { readonly waitUs: number; readonly guessUs: number } {
    const lefts = this.held.filter((_, accelerator) => this.isPresent(accelerator)).map((runs) => left(runs, now));
    return waitOf(lefts, Math.max(0, this.waitingUs - ownUs));
  }

  /**
   * A batch ended well. Plans allow for the delays that are measured, not for those that were guessed.
   *
   * @param answeredUs from the end of execution until the answers were out. @param meter of the batch's model.
   */
  finished(batch: CommittedBatch, startedAt: number, execUs: number, answeredUs: number, meter: DelayMeter): void {
    const { accelerator, dispatchedAt, wasIdle } = batch;
    const { delays } = this;
    this.busyUs[accelerator] = this.busyUs[accelerator]! + execUs;
    delays.answer.observe(answeredUs / 1e6);
    meter.answered(answeredUs);
    if (!wasIdle) return;
    delays.dispatch.observe(Math.max(0, startedAt - dispatchedAt) / 1e6);
    // An emulated accelerator never starts before the plan: then its own delay was shorter by an unknown part.
    const isWithin = this.spec.kind === "emulated" && startedAt <= batch.execAt;
    meter.started(isWithin ? null : startedAt - dispatchedAt);
  }
}
