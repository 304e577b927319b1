import type { QueueKey } from "../core/policy.js";
import type { Scheduler } from "../core/scheduler.js";
import {
  Profiler,
  type ProfilerOptions,
  SHADOW_WAIT_US,
  type ShadowOutcome,
  shadowOutcome,
} from "../core/shadow/profiler.js";
import type { BatchId } from "../core/tables/batch-table.js";
import { PLAIN } from "../core/tables/request-table.js";
import type { ProfilerReport } from "../measure/report.js";
import { System } from "../system/system.js";
import type { Uniform } from "./random.js";

/** The profiler of a group: a request that is run again keeps its number, and so its app and what it truly takes. */
export class SimulatedProfiler {
  /** Runs by model and app. */
  readonly runsOf = new Map<string, number>();
  private readonly profiler: Profiler;
  private readonly scheduler: Scheduler;
  private readonly nameOf: (key: QueueKey, kind: number) => string;
  /** By queue: the one that shadows it. */
  private readonly shadows = new Map<QueueKey, QueueKey>();
  private readonly traits = { ...PLAIN };
  private tag = -1;
  private key: QueueKey = -1;
  /** When the run that is under way began; NaN: none is. */
  private startedAt = Number.NaN;
  private ranUs = 0;

  /** @param nameOf model and app, by the key of a shadow queue. */
  constructor(scheduler: Scheduler, options: ProfilerOptions, uniform: Uniform, nameOf: SimulatedProfiler["nameOf"]) {
    this.scheduler = scheduler;
    this.profiler = new Profiler(options, uniform);
    this.nameOf = nameOf;
  }

  /** The queue's requests are run again. */
  add(key: QueueKey): void {
    this.shadows.set(key, this.scheduler.addShadowOf(key));
  }

  present(at: number): void {
    this.profiler.present(this.scheduler.accelerators.count, at);
  }

  /** A batch ends well; afterwards comes `follow`. */
  pick(batch: BatchId, at: number): void {
    const { batches, requests } = this.scheduler;
    const key = batches.queue[batch]!;
    const shadow = this.shadows.get(key);
    if (shadow === undefined) return;
    const memberAt = (place: number): number => {
      let member = batches.first[batch]!;
      for (let index = 0; index < place; index++) member = requests.next[member]!;
      return member;
    };
    const { observations } = this.profiler.options;
    const place = this.profiler.pick(batches.size[batch]!, at, (each) => {
      const member = memberAt(each);
      // What a part of a pipeline's request takes is known by its frame, which may be gone.
      return System.isPart(requests.tag[member]!)
        ? 0
        : this.scheduler.wantedAloneUs(key, requests.kind[member]!, observations);
    });
    if (place < 0) return;
    const member = memberAt(place);
    this.tag = requests.tag[member]!;
    this.traits.kind = requests.kind[member]!;
    this.key = shadow;
  }

  /** What was picked is run again when there is room. */
  follow(at: number): void {
    if (this.tag < 0) return;
    const { tag } = this;
    this.tag = -1;
    if (!this.scheduler.arrive(this.key, tag, at, at + SHADOW_WAIT_US, at, this.traits))
      this.profiler.ended("expired", 0);
  }

  dispatched(at: number): void {
    this.startedAt = at;
  }

  /** Its batch has ended, or was lost. */
  ran(startAt: number, endAt: number): void {
    this.startedAt = Number.NaN;
    this.ranUs = endAt - startAt;
  }

  ended(key: QueueKey, kind: number, outcome: number, reason: number): void {
    const name = this.nameOf(key, kind);
    const how = shadowOutcome(outcome, reason);
    if (how === "ran") this.runsOf.set(name, (this.runsOf.get(name) ?? 0) + 1);
    this.profiler.ended(how, this.ranUs);
    this.ranUs = 0;
  }

  /** Time that runs took of the accelerators, what is under way included. */
  busyUs(at: number): number {
    return this.profiler.ranUs + (Number.isNaN(this.startedAt) ? 0 : Math.max(0, at - this.startedAt));
  }

  get counts(): Profiler["counts"] {
    return this.profiler.counts;
  }

  /** Accelerator time until now, µs. */
  presentUs(at: number): number {
    this.present(at);
    return this.profiler.presentUs;
  }
}

export function profilerReport(profilers: readonly SimulatedProfiler[], at: number): ProfilerReport {
  const total = (how: ShadowOutcome): number => profilers.reduce((sum, { counts }) => sum + counts[how], 0);
  const presentUs = profilers.reduce((sum, profiler) => sum + profiler.presentUs(at), 0);
  const runsOf: Record<string, number> = {};
  for (const profiler of profilers)
    for (const [name, runs] of profiler.runsOf) runsOf[name] = (runsOf[name] ?? 0) + runs;
  return {
    runs: total("ran"),
    expired: total("expired"),
    failed: total("failed"),
    share: presentUs === 0 ? 0 : profilers.reduce((sum, profiler) => sum + profiler.busyUs(at), 0) / presentUs,
    runs_by_app: runsOf,
  };
}
