import { EmulatedAccelerators } from "../../../core/emulated-accelerators.js";
import { violated } from "../../../core/invariant.js";
import { FINISHED } from "../../../core/outcome.js";
import type { NetworkDelays, Policy, QueueKey, QueueSpec } from "../../../core/policy.js";
import { type CommandSink, Scheduler } from "../../../core/scheduler.js";
import type { AcceleratorTable } from "../../../core/tables/accelerator-table.js";
import { PLAIN, type RequestTraits } from "../../../core/tables/request-table.js";

/** Most requests that wait and run at once; one more counts as lost. */
const REQUESTS_MAX = 16_384;

/**
 * One way of serving, in virtual time: a scheduler of its own over accelerators that take as long as planned. What it
 * earns is counted; nothing else comes of it.
 */
export class Stage implements CommandSink {
  /** What the requests that ended in time were worth. */
  earned = 0;
  private readonly scheduler: Scheduler;
  private readonly accelerators: EmulatedAccelerators;
  private readonly worth: Float64Array;
  private readonly traits: { -readonly [Field in keyof RequestTraits]: RequestTraits[Field] } = { ...PLAIN };
  /** By queue. */
  private readonly delays: NetworkDelays[] = [];
  private now = 0;

  /** @param worth of a request, by queue; read when it ends. */
  constructor(policy: Policy, network: NetworkDelays, acceleratorsMax: number, worth: Float64Array) {
    this.worth = worth;
    this.accelerators = new EmulatedAccelerators(acceleratorsMax);
    this.scheduler = new Scheduler(policy, this, {
      network,
      acceleratorsMax,
      requestsMax: REQUESTS_MAX,
      retriesMax: 0,
      learn: false,
    });
  }

  addQueue(spec: QueueSpec): QueueKey {
    return this.scheduler.addQueue(spec);
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

  /** All that happens before `at`, then the arrival. @param deadline the client's. @param counts whether it earns something. */
  arrive(key: QueueKey, deadline: number, dueBy: number, at: number, counts: boolean): void {
    this.runTo(at);
    this.traits.dueBy = dueBy;
    this.scheduler.arrive(
      key,
      counts ? 1 : 0,
      at,
      deadline,
      at,
      dueBy === Number.POSITIVE_INFINITY ? PLAIN : this.traits,
    );
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
    const { batches } = this.scheduler;
    this.accelerators.run(accelerator, batch, batches.execAt[batch]!, batches.execUs[batch]!, at);
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
