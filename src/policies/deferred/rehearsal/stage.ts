import { EmulatedAccelerators } from "../../../core/emulated-accelerators.js";
import { violated } from "../../../core/invariant.js";
import { FINISHED } from "../../../core/outcome.js";
import type { NetworkDelays, Policy, QueueKey, QueueSpec } from "../../../core/policy.js";
import { type CommandSink, Scheduler } from "../../../core/scheduler.js";
import type { AcceleratorTable } from "../../../core/tables/accelerator-table.js";
import { PLAIN, type RequestTraits } from "../../../core/tables/request-table.js";
import type { TimesByKind } from "../../by-kind/times-by-kind.js";
import type { RunSpread } from "./run-spread.js";

/** Most requests that wait and run at once; one more counts as lost. */
const REQUESTS_MAX = 16_384;

/**
 * One way of serving, in virtual time: a scheduler of its own over accelerators that take as long as planned times what real
 * batches took over that of late. What it
 * earns is counted; nothing else comes of it.
 */
export class Stage implements CommandSink {
  /** What the requests that ended in time were worth. */
  earned = 0;
  private readonly scheduler: Scheduler;
  private readonly accelerators: EmulatedAccelerators;
  private readonly worth: Float64Array;
  private readonly traits: { -readonly [Field in keyof RequestTraits]: RequestTraits[Field] } = { ...PLAIN };
  /** By queue: what batches truly take, by their members; null: as planned, times the spread. */
  private readonly kinds: (TimesByKind | null)[] = [];
  /** By request: its time alone, where its queue has kinds. */
  private readonly aloneUs = new Float64Array(REQUESTS_MAX);
  /** By queue. */
  private readonly delays: NetworkDelays[] = [];
  private readonly spread: RunSpread;
  /** Batches that ran by plan. */
  private ranCount = 0;
  private now = 0;

  /** @param worth of a request, by queue; read when it ends. @param spread of real batches. */
  constructor(policy: Policy, network: NetworkDelays, acceleratorsMax: number, worth: Float64Array, spread: RunSpread) {
    this.worth = worth;
    this.spread = spread;
    this.accelerators = new EmulatedAccelerators(acceleratorsMax);
    this.scheduler = new Scheduler(policy, this, {
      network,
      acceleratorsMax,
      requestsMax: REQUESTS_MAX,
      retriesMax: 0,
      learn: false,
    });
  }

  addQueue(spec: QueueSpec, kinds: TimesByKind | null = null): QueueKey {
    const key = this.scheduler.addQueue(spec);
    this.kinds[key] = kinds;
    return key;
  }

  /** The accelerators and the times of batches are these from now on. */
  follow(real: AcceleratorTable, delays: readonly NetworkDelays[]): void {
    const { accelerators, scheduler, now } = this;
    for (let id = 0; id < real.capacity; id++) {
      const isHere = scheduler.accelerators.present[id] === 1;
      accelerators.up[id] = real.present[id]!;
      if (real.present[id] === 0) {
        if (isHere) scheduler.leave(id, now);
      } else if (!isHere || real.scale[id] !== scheduler.accelerators.scale[id])
        scheduler.join(id, real.scale[id]!, now);
    }
    for (const [key, delay] of delays.entries()) {
      // The first always: times of batches may be other ones, too.
      if (key > 0 && this.delays[key] === delay) continue;
      this.delays[key] = delay;
      scheduler.networkChanged(delay, now, key);
    }
  }

  /**
   * All that happens before `at`, then the arrival. @param deadline the client's. @param counts whether it earns something.
   * @param draw in [0, 1): the quantile of its kind's times that it takes alone, where its queue has kinds.
   */
  arrive(
    key: QueueKey,
    deadline: number,
    dueBy: number,
    at: number,
    counts: boolean,
    kind = PLAIN.kind,
    draw = 0,
  ): void {
    const { scheduler, traits } = this;
    const kinds = this.kinds[key]!;
    this.runTo(at);
    traits.dueBy = dueBy;
    traits.kind = kind;
    const isPlain = dueBy === Number.POSITIVE_INFINITY && kinds === null;
    const hasEntered = scheduler.arrive(key, counts ? 1 : 0, at, deadline, at, isPlain ? PLAIN : traits);
    if (hasEntered && kinds !== null) this.aloneUs[scheduler.requests.lastAdded] = kinds.aloneQuantileUs(kind, draw);
  }

  private runTo(at: number): void {
    const { scheduler, accelerators } = this;
    for (;;) {
      const endAt = accelerators.nextEndAt;
      const wakeAt = Math.max(this.now, scheduler.nextWakeAt);
      if (Math.min(endAt, wakeAt) > at || (wakeAt === at && endAt > at)) break;
      if (endAt <= wakeAt) {
        this.now = Math.max(this.now, endAt);
        const id = accelerators.nextToEnd;
        const batch = accelerators.running[id]!;
        const startedAt = accelerators.startedAt[id]!;
        accelerators.ended(id, this.now);
        scheduler.finished(batch, startedAt, this.now, this.now);
      } else {
        this.now = wakeAt;
        scheduler.wake(wakeAt);
      }
    }
    this.now = at;
  }

  dispatch(batch: number, accelerator: number, at: number): void {
    const { execAt } = this.scheduler.batches;
    this.accelerators.run(accelerator, batch, execAt[batch]!, this.trueUs(batch, accelerator), at);
  }

  private trueUs(batch: number, accelerator: number): number {
    const { batches, requests, accelerators } = this.scheduler;
    const kinds = this.kinds[batches.queue[batch]!]!;
    const size = batches.executedSize[batch]!;
    if (kinds === null) return Math.ceil(batches.execUs[batch]! * this.spread.ratioOf(size, this.ranCount++));
    let longestUs = 0;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!)
      longestUs = Math.max(longestUs, this.aloneUs[member]!);
    return Math.ceil(kinds.batchUs(size, longestUs) * accelerators.scale[accelerator]!);
  }

  end(request: number, outcome: number): void {
    const { requests } = this.scheduler;
    if (outcome === FINISHED) this.earned += requests.tag[request]! * this.worth[requests.queue[request]!]!;
  }

  batchEnded(): void {}

  preempt(): void {
    violated("window policies do not preempt");
  }
}
