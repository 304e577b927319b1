import { IndexedHeap } from "../../../core/indexed-heap.js";
import { invariant, violated } from "../../../core/invariant.js";
import type { Arbiter, CoreView, QueueKey } from "../../../core/policy.js";
import type { AcceleratorId } from "../../../core/tables/accelerator-table.js";

export interface PullArbiterOptions {
  /**
   * Whose batch a free accelerator takes when several are ready. round-robin: that of the next queue after the one
   * served last, in order of their keys. rank: that of smallest rank.
   */
  readonly turn: "round-robin" | "rank";
}

/** More queues than this cannot be told apart in a turn; 2^53 / 2^20 rounds are never reached. */
const TURN = 2 ** 20;

/**
 * Accelerators that pull: each, when it holds nothing, takes a batch that is ready, and never commits to one before.
 * That is a pool of threads which ask for work, as in TensorFlow Serving, or model instances which wait for it.
 *
 * The lowest free id goes first.
 */
export class PullArbiter implements Arbiter {
  /** Offers that are not ready yet, by when they will be. */
  private readonly waiting = new IndexedHeap(16);
  /** Offers that are ready, by turn or rank. */
  private readonly ready = new IndexedHeap(16);
  private readonly idle: IndexedHeap;
  private readonly core: CoreView;
  private readonly turn: PullArbiterOptions["turn"];
  private queuesMax = 16;
  /** round-robin: rounds begun before this one, and the first key whose turn in this round is still to come. */
  private round = 0;
  private cursor = 0;

  constructor(core: CoreView, options: PullArbiterOptions) {
    this.core = core;
    this.turn = options.turn;
    this.idle = new IndexedHeap(core.accelerators.capacity);
  }

  queueAdded(key: QueueKey): void {
    invariant(key < TURN, `queue must be in [0, ${TURN}); was ${key}`);
    if (key < this.queuesMax) return;
    while (this.queuesMax <= key) this.queuesMax *= 2;
    for (const heap of [this.waiting, this.ready]) heap.grow(this.queuesMax);
  }

  queueRemoved(key: QueueKey): void {
    this.waiting.remove(key);
    this.ready.remove(key);
  }

  offerChanged(key: QueueKey, at: number): void {
    const { offers } = this.core;
    if (offers.size[key] === 0) {
      this.queueRemoved(key);
      return;
    }
    const askAt = offers.opensAt[key]! - offers.leadUs[key]!;
    if (askAt <= at) {
      this.waiting.remove(key);
      this.opened(key);
    } else {
      this.ready.remove(key);
      this.waiting.set(key, askAt);
    }
  }

  available(id: AcceleratorId, _at: number): void {
    if (this.core.accelerators.inFlight(id) === 0) this.idle.set(id, id);
  }

  withdrawn(id: AcceleratorId, _at: number): void {
    this.idle.remove(id);
  }

  get nextWakeAt(): number {
    if (this.ready.size > 0 && this.idle.size > 0) return Number.NEGATIVE_INFINITY;
    return this.waiting.topPriority();
  }

  wake(at: number): void {
    for (;;) {
      // All that is ready by now stands in line before anyone is served.
      if (this.waiting.topPriority() <= at) this.opened(this.waiting.pop());
      else if (this.ready.size > 0 && this.idle.size > 0) this.serve(at);
      else return;
    }
  }

  private opened(key: QueueKey): void {
    if (this.turn === "rank") this.ready.set(key, this.core.offers.rank[key]!);
    else if (!this.ready.has(key)) this.ready.set(key, (this.round + (key < this.cursor ? 1 : 0)) * TURN + key);
  }

  private serve(at: number): void {
    const id = this.idle.pop();
    const position = this.ready.topPriority();
    const key = this.ready.pop();
    if (this.turn === "round-robin") {
      this.round = Math.floor(position / TURN);
      this.cursor = key + 1;
    }
    if (this.core.grant(key, id, at) >= 0) return;
    // Its requests were given up in this very moment; then it offers nothing, or something for later.
    if (this.ready.has(key)) violated(`queue ${key} refused accelerator ${id} and still offers a batch`);
    this.idle.set(id, id);
  }
}
