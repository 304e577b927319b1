import { invariant, violated } from "../core/invariant.js";
import { FAIL_NO_ACCELERATOR } from "../core/outcome.js";
import type { NetworkDelays } from "../core/policy.js";

export type ModelId = number;

export interface ThreadedModel {
  /** l(1), l(2), ... on an accelerator of scale 1, µs. */
  readonly execUs: readonly number[];
  readonly sloUs: number;
  /** Most waiting requests of one of its queues. */
  readonly lengthMax: number;
  /** Rules of its queues, where the policy reads some (QueueSpec.rules). */
  readonly rules?: readonly number[];
}

export interface Model {
  readonly spec: ThreadedModel;
  /** Its queues that take requests, in turn. */
  keys: number[];
  next: number;
  /** What becomes of requests that are handed back when no queue is left. */
  cause: number;
  /** Measured for its queues; null: those of all hold. */
  delays: NetworkDelays | null;
}

/** Where a queue is, and of which model: until it is closed. */
export interface Place {
  readonly thread: number;
  readonly model: ModelId;
}

/** Which queues each model has, and on which thread each is, those that are closing included. */
export class ModelQueues {
  private readonly models: (Model | undefined)[] = [];
  private readonly places: (Place | undefined)[];
  private readonly freeKeys: number[] = [];
  private keysUsed = 0;
  /** By thread. */
  private readonly counts: Int32Array;

  constructor(queuesMax: number, threadsMax: number) {
    this.places = new Array<Place | undefined>(queuesMax).fill(undefined);
    this.counts = new Int32Array(threadsMax);
  }

  /** Whether one more queue may be opened: a key is free again when the queue that had it has closed. */
  get hasRoom(): boolean {
    return this.freeKeys.length > 0 || this.keysUsed < this.places.length;
  }

  model(model: ModelId): Model {
    const it = this.models[model];
    if (it === undefined) violated(`no model ${model}`);
    return it;
  }

  placeOf(key: number): Place {
    return this.places[key]!;
  }

  countOn(thread: number): number {
    return this.counts[thread]!;
  }

  leastBusy(threads: readonly number[]): number {
    return threads.reduce((best, each) => (this.counts[each]! < this.counts[best]! ? each : best));
  }

  threadsOf(model: ModelId): readonly number[] {
    return this.models[model]?.keys.map((key) => this.placeOf(key).thread) ?? [];
  }

  modelsOn(thread: number): readonly ModelId[] {
    return [...this.models.keys()].filter((model) => this.threadsOf(model).includes(thread));
  }

  /** @returns the queue that takes the model's next request; -1: it has none. */
  nextOf(model: ModelId): number {
    const it = this.models[model];
    const key = it?.keys[it.next];
    if (it === undefined || key === undefined) return -1;
    it.next = it.next + 1 === it.keys.length ? 0 : it.next + 1;
    return key;
  }

  addModel(spec: ThreadedModel): ModelId {
    let model = this.models.indexOf(undefined);
    if (model < 0) model = this.models.length;
    this.models[model] = { spec, keys: [], next: 0, cause: FAIL_NO_ACCELERATOR, delays: null };
    return model;
  }

  /**
   * From now on it has one queue for each time that a thread is named.
   * @param check a thread that gets a new one. @returns those that are new, and those that must close.
   */
  spread(
    model: ModelId,
    on: readonly number[],
    check: (thread: number) => void,
  ): { readonly added: readonly number[]; readonly left: readonly number[] } {
    const it = this.model(model);
    const wanted = [...on];
    const kept: number[] = [];
    const left: number[] = [];
    for (const key of it.keys) {
      const at = wanted.indexOf(this.placeOf(key).thread);
      if (at < 0) left.push(key);
      else {
        kept.push(key);
        wanted.splice(at, 1);
      }
    }
    const added = wanted.map((thread) => {
      check(thread);
      return this.open(model, thread);
    });
    it.keys = [...kept, ...added];
    it.next = 0;
    return { added, left };
  }

  /** @param cause of which those fail that come back. @returns queues that must close. */
  removeModel(model: ModelId, cause: number): readonly number[] {
    const it = this.model(model);
    const { keys } = it;
    it.cause = cause;
    it.keys = [];
    this.forget(model);
    return keys;
  }

  /** Its key may be given out again. */
  closed(key: number): void {
    const { thread, model } = this.placeOf(key);
    this.places[key] = undefined;
    this.freeKeys.push(key);
    this.counts[thread] = this.counts[thread]! - 1;
    this.forget(model);
  }

  private open(model: ModelId, thread: number): number {
    const key = this.freeKeys.pop() ?? this.keysUsed++;
    invariant(key < this.places.length, `at most ${this.places.length} queues may be open or closing`);
    this.places[key] = { thread, model };
    this.counts[thread] = this.counts[thread]! + 1;
    return key;
  }

  /** A model without queues is gone when the last that closes is. */
  private forget(model: ModelId): void {
    if (this.models[model]?.keys.length !== 0) return;
    if (this.places.some((place) => place?.model === model)) return;
    this.models[model] = undefined;
  }
}
