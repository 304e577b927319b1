import { measuredTable } from "../../core/latency/latency.js";
import type { NetworkDelays } from "../../core/policy.js";
import type { WindowRules } from "../../policies/deferred/window-queue.js";
import { LIVE_DEFAULTS, type LiveDefaults, liveWindow } from "../../policies/live.js";
import { plansByKind } from "../../policies/registry.js";
import { ServingError } from "../../wire/serving-error.js";
import type { Refusal } from "../endings.js";
import type { AcceleratorGroup } from "../groups/accelerator-group.js";
import type { LiveScheduler } from "../live-scheduler.js";
import type { Log } from "../observation/log.js";
import type { Metrics } from "../observation/metrics.js";
import { Apps } from "./apps.js";
import { elasticBeforehand, knownBeforehand } from "./known-beforehand.js";
import { RunRatio } from "./run-ratio.js";
import { ServedModel, type ServedQueue } from "./served-model.js";
import { sizesTogether } from "./sizes.js";

export interface ServedModelsOptions {
  readonly log: Log;
  readonly policyDefaults?: LiveDefaults;
  /** Delays that plans allow for, µs; absent: until they are measured, NETWORK. */
  readonly network?: NetworkDelays;
  /** Queues are on threads, where nothing is known of kinds. Default false. */
  readonly hasThreads?: boolean;
  /** Queues per model; default 256. Then the one unused for longest gives way, if any is unused. */
  readonly shareGroupsMax?: number;
}

/** What decides which queue of its model a request joins. */
export interface Share {
  /** Requests of equal keys may share a batch. */
  readonly key: string;
  /** Rows of the request's tensors. */
  readonly rows: number;
  /** Along the variable axis; null where there is none. */
  readonly extent: number | null;
}

const SHARE_GROUPS_MAX = 256;
/** Batches may have at most this many members. */
export const BATCH_MAX = 1024;

/** The models that take requests, and their queues at the scheduler, which come with the first request of their kind. */
export class ServedModels {
  private readonly options: ServedModelsOptions;
  private readonly groups: readonly AcceleratorGroup[];
  private readonly scheduler: LiveScheduler;
  private readonly metrics: Metrics;
  private readonly models = new Set<ServedModel>();
  /** By name of the model, as long as the server runs: of those that the repository held. */
  private readonly apps = new Map<string, Apps>();
  private readonly queues: (ServedQueue | undefined)[] = [];
  private readonly freeQueues: number[] = [];
  /** The model takes nothing new. */
  onLeaving: (model: ServedModel) => void = () => {};

  constructor(
    options: ServedModelsOptions,
    groups: readonly AcceleratorGroup[],
    scheduler: LiveScheduler,
    metrics: Metrics,
  ) {
    this.options = options;
    this.groups = groups;
    this.scheduler = scheduler;
    this.metrics = metrics;
  }

  /**
   * @param before the same model on another group, which is about to leave. @param tasks of an elastic model.
   * @throws ServingError invalid-argument: there is no such group.
   */
  add(
    spec: ServedModel["spec"],
    times: ServedModel["times"],
    before: ServedModel | null = null,
    tasks: ServedModel["tasks"] = null,
  ): ServedModel {
    const group = this.groups.find((candidate) => candidate.spec.name === spec.group);
    if (group === undefined)
      throw new ServingError(
        "invalid-argument",
        `model '${spec.name}': group must be one of ${this.groups.map(({ spec: { name } }) => name).join(", ")}; was ${spec.group}`,
      );
    const cells = this.metrics.ofModel(spec.name);
    const apps = this.apps.get(spec.name) ?? new Apps(spec.name, cells.appsBeyondLimit, this.options.log);
    this.apps.set(spec.name, apps);
    apps.declare(spec.apps);
    const sizes = sizesTogether(spec, plansByKind(group.spec) || this.mayTellKinds(spec, group));
    if (sizes !== null) apps.declareSizes(sizes);
    const model = new ServedModel(spec, times, group, cells, apps, before, sizes !== null, tasks);
    this.models.add(model);
    return model;
  }

  /** The model takes nothing new; resolves when what it had has ended. */
  async remove(model: ServedModel): Promise<void> {
    model.isLeaving = true;
    this.onLeaving(model);
    while (!model.isIdle) await model.becomesIdle();
    for (const queue of [...model.queues.values()]) this.removeQueue(queue);
    this.models.delete(model);
  }

  // Queues

  /** The queue of this number. */
  queue(id: number): ServedQueue {
    return this.queues[id]!;
  }

  /** The same; undefined: it has been removed. */
  find(id: number): ServedQueue | undefined {
    return this.queues[id];
  }

  /** The queue for a request, added if it is the first of its kind; or why there can be none. */
  queueFor(model: ServedModel, share: Share): ServedQueue | Refusal {
    const key = this.keyOf(model, share);
    const known = model.queues.get(key);
    if (known !== undefined) return known;
    if (model.queues.size >= (this.options.shareGroupsMax ?? SHARE_GROUPS_MAX)) {
      const unused = longestUnused(model.queues.values());
      if (unused === null) return "share-groups-full";
      this.removeQueue(unused);
    }
    this.removeOutdated(model);
    const added = this.addQueue(model, key, share);
    if (added !== null) return added;
    // The place is free once the scheduler has let go of that queue: a later request may have it.
    const unused = longestUnused(this.queuesOf(model.group));
    if (unused !== null) this.removeQueue(unused);
    return "queues-full";
  }

  /** A policy that plans by tasks has a queue for those that are served now: what waits for others ends in the one before. */
  private keyOf(model: ServedModel, { rows, key }: Share): string {
    const ofRows = rows === 1 ? key : `${rows}*${key}`;
    return this.plansByTask(model) ? `${model.tasks!.epoch}:${ofRows}` : ofRows;
  }

  /** Its queues know which tasks are served, and how well. */
  private plansByTask({ spec, group, tasks }: ServedModel): boolean {
    if (tasks === null) return false;
    return group.spec.policy !== undefined || this.windowOf(spec).adaptsTokens === true;
  }

  /** Queues for tasks as they were served before. */
  private removeOutdated(model: ServedModel): void {
    if (!this.plansByTask(model)) return;
    for (const queue of [...model.queues.values()])
      if (isUnused(queue) && !queue.key.startsWith(`${model.tasks!.epoch}:`)) this.removeQueue(queue);
  }

  /** Queues of the models of a group. */
  *queuesOf(group: AcceleratorGroup): Generator<ServedQueue> {
    for (const queue of this.queues) if (queue?.model.group === group) yield queue;
  }

  /** Queues of the models of a name: an old one may have some beside the new one. */
  *queuesNamed(name: string): Generator<ServedQueue> {
    for (const queue of this.queues) if (queue?.model.spec.name === name) yield queue;
  }

  /** All that waits fails. @param group on this group; null: everywhere. */
  failWaiting(cause: number, group: AcceleratorGroup | null): void {
    for (const queue of this.queues)
      if (queue !== undefined && (group === null || queue.model.group === group))
        this.scheduler.failQueue(queue.id, cause);
  }

  /** @returns null: the scheduler holds as many queues as it can. */
  private addQueue(model: ServedModel, key: string, { rows, extent }: Share): ServedQueue | null {
    const { spec } = model;
    const sizeMax = Math.min(BATCH_MAX, Math.max(1, Math.floor(spec.batchSizeMax / rows)));
    const timesUs = model.times.table(rows, extent, sizeMax);
    const queue: ServedQueue = {
      id: this.takeNumber(),
      key,
      model,
      rows,
      aloneUs: timesUs[0]!,
      perRequestUs: timesUs[sizeMax - 1]! / sizeMax,
      execUs: measuredTable(timesUs),
      ratio: new RunRatio(),
      arrived: 0,
      dropped: 0,
      live: 0,
      allowedUs: 0,
      batches: 0,
      shadows: 0,
      isHeld: false,
      lastUsedAt: 0,
    };
    const elastic = elasticBeforehand(model, rows, extent, sizeMax);
    const isAdded = this.scheduler.addQueue({
      group: model.group.index,
      queue: queue.id,
      sloUs: spec.sloUs ?? spec.defaultTimeoutUs,
      lengthMax: spec.queueRequestsMax,
      window: this.windowOf(spec),
      timesUs,
      ...(plansByKind(model.group.spec) || model.areSizesTogether ? knownBeforehand(model, rows, extent) : {}),
      ...(elastic === undefined ? {} : { elastic }),
    });
    if (!isAdded) {
      this.freeQueues.push(queue.id);
      return null;
    }
    this.queues[queue.id] = queue;
    model.queues.set(key, queue);
    this.tellMeasured(queue.id, model);
    return queue;
  }

  private windowOf({ policy, policyOptions, sloUs }: ServedModel["spec"]): WindowRules {
    return liveWindow(policy, policyOptions, sloUs, this.options.policyDefaults ?? LIVE_DEFAULTS);
  }

  /** The live policy chooses who goes together by kinds where that earns most: `auto`, unless it is told not to. */
  private mayTellKinds(spec: ServedModel["spec"], { spec: { policy } }: AcceleratorGroup): boolean {
    return policy === undefined && this.options.hasThreads !== true && this.windowOf(spec).plus?.byApp === true;
  }

  /** Plans of a new queue allow for the delays of its model, where they were measured. */
  private tellMeasured(queue: number, { meter, group }: ServedModel): void {
    if (meter.current !== group.network && this.options.network === undefined)
      this.scheduler.delays(queue, meter.current);
  }

  /** Plans of the model allow for other delays from now on; not where the configuration says for which. */
  tellDelays(model: ServedModel): void {
    if (this.options.network !== undefined) return;
    for (const queue of model.queues.values()) this.scheduler.delays(queue.id, model.meter.current);
  }

  /** A queue for requests of this one that are run again alone. @returns its number, until it is given back. */
  addShadow(queue: ServedQueue): number {
    const id = this.takeNumber();
    this.scheduler.shadows!.addShadow(id, queue.id);
    this.tellMeasured(id, queue.model);
    return id;
  }

  private takeNumber(): number {
    const id = this.freeQueues.pop() ?? this.queues.length;
    this.queues[id] = undefined;
    return id;
  }

  /** The scheduler's queue of this number is removed, and the number free. */
  giveBack(id: number): void {
    this.scheduler.removeQueue(id);
    this.queues[id] = undefined;
    this.freeQueues.push(id);
  }

  private removeQueue(queue: ServedQueue): void {
    this.giveBack(queue.id);
    queue.model.queues.delete(queue.key);
  }

  /** For metrics. A version that is reloaded or moved is served twice for a while; its series are one. */
  *rows() {
    const seen = new Set<ServedModel>();
    for (const model of this.models) {
      if (seen.has(model)) continue;
      const { name, version } = model.spec;
      const row = { model: name, version, ready: false, inFlight: 0, queued: 0, bytes: 0, queues: 0 };
      for (const same of this.models) {
        if (same.spec.name !== name || same.spec.version !== version) continue;
        seen.add(same);
        row.ready ||= !same.isLeaving;
        row.inFlight += same.live;
        row.queued += same.queued;
        row.bytes += same.bytes;
        row.queues += same.queues.size;
      }
      yield row;
    }
  }
}

const isUnused = ({ live, batches, shadows }: ServedQueue): boolean => live === 0 && batches === 0 && shadows === 0;

function longestUnused(queues: Iterable<ServedQueue>): ServedQueue | null {
  let oldest: ServedQueue | null = null;
  for (const queue of queues)
    if (isUnused(queue) && (oldest === null || queue.lastUsedAt < oldest.lastUsedAt)) oldest = queue;
  return oldest;
}
