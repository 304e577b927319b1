import { largestWithin } from "../../core/latency/latency.js";
import { CLOSE_EAGER, CLOSE_FULL, CLOSE_RETRY } from "../../core/outcome.js";
import type { Queue, QueueKey, QueueSpec, QueueView } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import type { RequestHandle } from "../../core/tables/request-table.js";
import { BatchTimes } from "../batch-times.js";
import type { Choice, Chooser } from "./chooser.js";
import type { GroupTimes } from "./known-times.js";
import { WaitingByKind } from "./waiting-by-kind.js";

/**
 * Requests of one model whose times differ: who goes together is chosen when an accelerator is granted, by what is known of
 * their kinds. It waits for nothing: an accelerator that is free takes the best batch there is (ORLOJ Algorithm 1).
 */
export class KindQueue implements Queue {
  private readonly waiting: WaitingByKind;
  private readonly times: BatchTimes;
  private readonly byKind: GroupTimes;
  private readonly chooser: Chooser;
  private readonly key: QueueKey;
  private readonly core: QueueView;

  constructor(
    key: QueueKey,
    spec: QueueSpec,
    core: QueueView,
    byKind: GroupTimes,
    createChooser: (waiting: WaitingByKind) => Chooser,
  ) {
    this.key = key;
    this.core = core;
    this.byKind = byKind;
    this.waiting = new WaitingByKind(core);
    this.times = new BatchTimes(key, spec, core);
    this.chooser = createChooser(this.waiting);
  }

  get length(): number {
    return this.waiting.length;
  }

  arrived(request: RequestHandle, at: number): void {
    this.byKind.arrived(this.core.requests.kind[request]!);
    this.joined(request);
    this.refresh(at);
  }

  /** It waits here from now on; how often its kind comes is not counted. */
  joined(request: RequestHandle): void {
    this.waiting.push(request);
  }

  returned(request: RequestHandle, alone: boolean, at: number): void {
    this.takeBack(request, alone);
    this.refresh(at);
  }

  /** The same; the caller refreshes it. */
  takeBack(request: RequestHandle, alone: boolean): void {
    this.waiting.takeBack(request, alone);
  }

  remove(request: RequestHandle, at: number): void {
    this.waiting.remove(request);
    this.refresh(at);
  }

  planChanged(at: number): void {
    this.refresh(at);
  }

  giveAway(to: (request: RequestHandle, alone: boolean) => void): void {
    this.waiting.giveAway(to);
  }

  refreshDemand(_at: number): void {}

  refresh(at: number): void {
    this.dropHopeless(at);
    this.publish(at);
    this.core.offerChanged(this.key, at);
  }

  take(accelerator: AcceleratorId, at: number): BatchId {
    const { waiting, times, core } = this;
    this.dropHopeless(at);
    const scale = core.accelerators.scale[accelerator]!;
    const sizeMax = Math.min(times.sizeMaxOn(accelerator), this.sizeWithin(core.offers.limitUs[this.key]! / scale));
    const freeAt = times.freeAt(accelerator, at);
    let batch = -1;
    if (waiting.retries.length > 0)
      batch = times.add(waiting.retries.take(), 1, accelerator, times.startOf(1, at, freeAt), CLOSE_RETRY);
    else if (waiting.inLine > 0) {
      const chosen = this.chooser.choose({
        startAt: times.startOf(1, at, freeAt),
        dataUs: times.leadUs(2) - times.leadUs(1),
        scale,
        sizeMax,
        accelerators: core.accelerators.count,
      });
      if (chosen !== null) batch = this.send(chosen, accelerator, at, freeAt);
    }
    this.refresh(at);
    return batch;
  }

  private send({ first, size }: Choice, accelerator: AcceleratorId, at: number, freeAt: number): BatchId {
    const close = size === this.byKind.sizeMax ? CLOSE_FULL : CLOSE_EAGER;
    return this.times.add(first, size, accelerator, this.times.startOf(size, at, freeAt), close);
  }

  /** Nobody waits who would be late even alone, by what one of the kind takes at least. */
  private dropHopeless(at: number): void {
    const { waiting, times, byKind } = this;
    const startAt = times.startOf(1, at);
    const scale = this.core.accelerators.fastestScale;
    waiting.retries.dropLate(startAt + byKind.execUs[1]! * scale, at);
    for (const line of waiting.lines)
      if (line.pending.length > 0) waiting.dropLate(line, startAt + this.chooser.hopelessUs(line.kind) * scale, at);
  }

  /** Largest batch of any kinds that the arbiter lets run so long, and one request at the least. */
  private sizeWithin(limitUs: number): number {
    const { execUs, sizeMax } = this.byKind;
    return limitUs === Number.POSITIVE_INFINITY ? sizeMax : Math.max(1, largestWithin(execUs, limitUs));
  }

  private publish(at: number): void {
    const { key, waiting, times, byKind } = this;
    const { offers } = this.core;
    const isRetry = waiting.retries.length > 0;
    const size = isRetry ? 1 : Math.min(waiting.inLine, byKind.sizeMax);
    offers.size[key] = size;
    if (size === 0) return;
    const lead = times.leadUs(1);
    const scale = this.core.accelerators.fastestScale;
    // Of the last start by which nobody is hopeless, and in whole microseconds, which is the order.
    let latestAt = isRetry ? waiting.retries.dueAt - byKind.execUs[1]! * scale : Number.POSITIVE_INFINITY;
    let rank = latestAt;
    for (const { kind, pending } of waiting.lines) {
      if (pending.length === 0) continue;
      const hopelessUs = this.chooser.hopelessUs(kind) * scale;
      latestAt = Math.min(latestAt, pending.deadlineAt(0) - hopelessUs);
      const headStartUs = this.core.requests.headStartUs?.[pending.handleAt(0)] ?? 0;
      rank = Math.min(rank, pending.deadlineAt(0) - Math.ceil(hopelessUs) - headStartUs);
    }
    offers.leadUs[key] = lead;
    offers.opensAt[key] = at + lead;
    offers.latestAt[key] = Math.floor(latestAt);
    offers.rank[key] = rank;
    offers.earlyExecUs[key] = 0;
    offers.execUs[key] = Math.ceil(byKind.execUs[size]! * scale);
    offers.more[key] = Math.floor((waiting.length - size) / byKind.sizeMax);
  }
}
