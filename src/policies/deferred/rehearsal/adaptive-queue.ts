import { type GivenBatch, measuredTable, ProfiledLatency } from "../../../core/latency/latency.js";
import type { Queue, QueueKey, QueueSpec, QueueView } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import type { RequestHandle } from "../../../core/tables/request-table.js";
import { ByGroup, denseSizesUpTo, GROUP_OPTIONS } from "../../by-kind/by-group.js";
import { KindQueue } from "../../by-kind/kind-queue.js";
import { TimesByKind } from "../../by-kind/times-by-kind.js";
import type { WindowQueue, WindowRules } from "../window-queue.js";
import type { Rehearsal, Rehearsed } from "./rehearsal.js";

/** Times alone are remembered this long, µs. */
const MEMORY_US = 60_000_000;
/** Windows close while a batch still ends in time with this probability: of 0.7, 0.9 and 0.99 the best with 4 and 16 accelerators. */
const SURE = 0.99;

/** What is known beforehand of a queue's kinds; null: nothing. */
export function timesOf(spec: QueueSpec): TimesByKind | null {
  const isKnown = spec.kinds?.some(({ aloneUs }) => aloneUs.length > 0) === true;
  return isKnown ? new TimesByKind(spec, { windowUs: MEMORY_US }) : null;
}

/** What windows plan by: where nothing is learnt from batches, a quantile of what is known of the kinds (Symphony's l(b) where times are distributions). */
export function windowSpec(spec: QueueSpec, times: TimesByKind | null, learns: boolean): QueueSpec {
  if (times === null || learns) return spec;
  const sizes = Array.from({ length: times.sizeMax }, (_, before) => Math.ceil(times.quantileUs(before + 1, SURE)));
  for (let index = 1; index < sizes.length; index++) sizes[index] = Math.max(sizes[index]!, sizes[index - 1]!);
  return { ...spec, latency: new ProfiledLatency(measuredTable(sizes)) };
}

/**
 * A queue that can be served by who goes together (`by-kind/`) instead of by windows, once something is known of how long
 * requests of each kind take: profiled, or measured where several kinds come. Whoever waits when that changes moves from one
 * to the other. The rehearsal says which is better; where nobody rehearses, by kinds is.
 */
export class AdaptiveQueue implements Queue, Rehearsed {
  private readonly byWindow: WindowQueue;
  private byKind: KindQueue | null = null;
  private active: WindowQueue | KindQueue;
  private times: TimesByKind | null;
  /** Something was known of them when it was last looked. */
  private isKnown = false;
  /** The kind of all requests so far; -1: none came, or several did. */
  private onlyKind = -1;
  private readonly key: QueueKey;
  /** What its windows plan by. */
  readonly spec: QueueSpec;
  private readonly core: QueueView;
  private readonly own: WindowRules;
  /** It asks, and is told how to serve; null: nobody is asked. */
  private readonly rehearsal: Rehearsal | null;
  private readonly isStaged: boolean;
  /** Reused: read during a call. */
  private readonly given: { -readonly [Field in keyof GivenBatch]: GivenBatch[Field] };

  /**
   * @param byWindow serves it by `own`, and has no requests yet. @param times known beforehand; null: nothing is.
   * @param isStaged it plays another queue on a stage: it serves as it is told, and the times are that one's.
   */
  constructor(
    key: QueueKey,
    spec: QueueSpec,
    core: QueueView,
    byWindow: WindowQueue,
    own: WindowRules,
    rehearsal: Rehearsal | null,
    times: TimesByKind | null,
    isStaged: boolean,
  ) {
    this.key = key;
    this.spec = spec;
    this.core = core;
    this.byWindow = byWindow;
    this.active = byWindow;
    this.own = own;
    this.rehearsal = own.plus?.rehearse ? rehearsal : null;
    this.isStaged = isStaged;
    this.times = times;
    this.isKnown = times !== null;
    byWindow.ofPipelines.timesByKind = this.kinds;
    this.given = { batch: -1, batches: core.batches, requests: core.requests };
    if (isStaged) this.serveBy(own, 0);
    else if (this.isKnown && this.rehearsal === null) this.serveBy({ ...own, groups: true }, 0);
  }

  get kindTimes(): TimesByKind | null {
    return this.isStaged ? null : this.times;
  }

  get isByKind(): boolean {
    return this.active !== this.byWindow;
  }

  /** What is known of its kinds; null: nothing. */
  get kinds(): TimesByKind | null {
    return this.isKnown ? this.times : null;
  }

  get length(): number {
    return this.active.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.joined(request, at);
    this.refresh(at);
  }

  joined(request: RequestHandle, at: number): void {
    if (!this.isStaged) this.meet(this.core.requests.kind[request]!, at);
    if (this.active === this.byWindow) this.byWindow.joined(request, at);
    else {
      this.active.joined(request, at);
      this.byWindow.noted(request, at);
    }
  }

  remove(request: RequestHandle, at: number): void {
    this.active.remove(request, at);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    this.active.returned(request, alone, at);
  }

  refresh(at: number): void {
    this.active.refresh(at);
  }

  /** The window's plan says what others must know of the model, whoever serves it. */
  planChanged(at: number): void {
    this.byWindow.planChanged(at);
    if (this.active !== this.byWindow) this.active.planChanged(at);
  }

  refreshDemand(at: number): void {
    this.byWindow.refreshDemand(at);
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.active.giveAway(to);
  }

  take(accelerator: AcceleratorId, at: number): BatchId {
    const batch = this.active.take(accelerator, at);
    if (batch < 0 || this.active === this.byWindow) return batch;
    const { given, core } = this;
    given.batch = batch;
    core.batches.plan(batch, Math.ceil(this.times!.givenUs(given) * core.accelerators.scale[accelerator]!));
    return batch;
  }

  batchEnded(batch: BatchId, startAt: number, endAt: number): void {
    this.byWindow.batchEnded?.(batch, startAt, endAt);
  }

  serveBy(rules: WindowRules, at: number): void {
    const to = rules.groups && this.times !== null ? this.kindQueue(this.times) : this.byWindow;
    if (to !== this.active) {
      this.active.giveAway((request, alone) => to.takeBack(request, alone));
      this.active = to;
    }
    this.byWindow.serveBy(rules, at);
    if (to !== this.byWindow) to.refresh(at);
  }

  /** A request of this kind came. What was measured since the last one may have told kinds apart. */
  private meet(kind: number, at: number): void {
    if (this.times === null) {
      if (this.onlyKind < 0) this.onlyKind = kind;
      if (kind === this.onlyKind) return;
      this.times = new TimesByKind(this.spec, { windowUs: MEMORY_US });
    }
    const { times } = this;
    times.arrived(kind);
    if (times.isKnown === this.isKnown) return;
    this.isKnown = times.isKnown;
    this.byWindow.ofPipelines.timesByKind = this.kinds;
    if (this.rehearsal === null) this.serveBy({ ...this.own, groups: this.isKnown }, at);
    else this.rehearsal.kindsChanged(at);
  }

  private kindQueue(times: TimesByKind): KindQueue {
    const sizes = denseSizesUpTo(times.sizeMax);
    this.byKind ??= new KindQueue(
      this.key,
      { ...this.spec, latency: times },
      this.core,
      times,
      (waiting) => new ByGroup(waiting, times, { sizes, ...GROUP_OPTIONS }),
    );
    return this.byKind;
  }
}
