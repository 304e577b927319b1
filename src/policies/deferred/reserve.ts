import type { ArbiterView, QueueKey } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";

/** A queue is considered for this long after its last offer. */
const ACTIVE_US = 1_000_000;
/** Who is active is looked at anew this often. */
const LOOK_US = 5000;
/** With more accelerators one comes free often enough by itself. */
const LOOKED_AT = 64;
/** Part of a queue's slack that it may be made to wait: the rest is for runs that take longer than planned. */
const WAIT_SHARE = 0.5;
/** Only who may wait this many times as long keeps away from it: of those alike each would be kept from what the others leave. */
const ALIKE = 2;
/** A queue is light when its runs take this part of its own slack at most, and this part of one accelerator. */
const LIGHT_RUN = 0.25;
const LIGHT_DEMAND = 0.1;

/**
 * What keeps models of one group from starving each other: runs are not interrupted, so while all accelerators run long
 * batches of one model, another whose SLO is shorter than what is left of them is lost, however little it asks for.
 *
 * The promise. While a model with an SLO is active, no batch of another with twice its slack (SLO less a run alone and delays)
 * begins that would leave it without an accelerator that comes free within half of its own. What is too long for that waits
 * until another accelerator is within reach, or runs in a smaller batch that is itself. So at most one accelerator is kept from long
 * batches, at most until the next one is about to be free: of n accelerators they have at least n - 1. With one
 * accelerator, or one that works, nothing is promised.
 *
 * Who gathers a batch until the last moment has nothing left to wait with: beside others that press it asks for an accelerator with that half of
 * its slack before it. Light queues (runs short beside their own slack, little time in all) are due at once: waiting for a larger batch would
 * save others next to nothing, and spends the slack that the promise is made of.
 */
export class Reserve {
  private readonly core: ArbiterView;
  private readonly askedUntil: Float64Array;
  /** When a queue that is kept within reach last had an offer. */
  private readonly seenAt = new Map<QueueKey, number>();
  /** The active queues that may wait the shortest, -1: there is none. */
  private tightest: QueueKey = -1;
  private nextTightest: QueueKey = -1;
  private lookAt = Number.NEGATIVE_INFINITY;
  /** Beside whom somebody with more slack last asked for the last idle accelerator, and when. */
  private pressed: QueueKey = -1;
  private pressedAt = Number.NEGATIVE_INFINITY;
  /** After `roomUs` found none: when there will be. */
  roomAt = Number.POSITIVE_INFINITY;

  /** There are so many accelerators that nothing is kept. */
  readonly isOff: boolean;

  /** @param askedUntil planned end of what an accelerator was granted and no answer has come to, by id; 0: nothing. */
  constructor(core: ArbiterView, askedUntil: Float64Array) {
    this.askedUntil = askedUntil;
    this.core = core;
    this.isOff = core.accelerators.capacity > LOOKED_AT;
  }

  offered(key: QueueKey, at: number): void {
    if (this.isOff || this.core.offers.slackUs[key] === Number.POSITIVE_INFINITY) return;
    if (!this.seenAt.has(key)) this.lookAt = at;
    this.seenAt.set(key, at);
  }

  removed(key: QueueKey): void {
    if (this.seenAt.delete(key)) this.lookAt = Number.NEGATIVE_INFINITY;
  }

  isLight(key: QueueKey): boolean {
    const { execUs, slackUs, demand } = this.core.offers;
    const slack = slackUs[key]!;
    return slack < Number.POSITIVE_INFINITY && execUs[key]! <= LIGHT_RUN * slack && demand[key]! <= LIGHT_DEMAND;
  }

  /**
   * Until when the queue's offer may gather: an accelerator comes free within a part of its slack, which must be left for that when it asks for one. Only beside
   * others that press; else it gathers for as long as it likes.
   */
  mustAskBy(key: QueueKey, at: number): number {
    if (key !== this.pressed || at > this.pressedAt + ACTIVE_US) return Number.POSITIVE_INFINITY;
    const { latestAt, leadUs, slackUs } = this.core.offers;
    return latestAt[key]! - leadUs[key]! - WAIT_SHARE * slackUs[key]!;
  }

  /**
   * How long the queue's batch may run on this accelerator, if it is granted now.
   * @returns Infinity: as long as it likes; less: only so long, before `roomAt`.
   */
  roomUs(key: QueueKey, id: AcceleratorId, isAnotherIdle: boolean, at: number): number {
    if (this.seenAt.size === 0 || isAnotherIdle) return Number.POSITIVE_INFINITY;
    if (at >= this.lookAt) this.look(at);
    const other = key === this.tightest ? this.nextTightest : this.tightest;
    const { accelerators, offers } = this.core;
    if (other < 0) return Number.POSITIVE_INFINITY;
    const slackUs = offers.slackUs[other]!;
    if (ALIKE * slackUs > offers.slackUs[key]!) return Number.POSITIVE_INFINITY;
    this.pressed = other;
    this.pressedAt = at;
    const waitUs = WAIT_SHARE * slackUs;
    // One that waits already has so much less to wait; not one that asks for so much that it always waits.
    const isWaiting = offers.size[other]! > 0 && this.isLight(other);
    const by = isWaiting ? Math.min(at + waitUs, offers.latestAt[other]! - slackUs + waitUs) : at + waitUs;
    const scale = accelerators.scale[id]! / accelerators.fastestScale;
    if (at + offers.execUs[key]! * scale <= by) return Number.POSITIVE_INFINITY;
    const freeAt = this.nextFreeAt(id, waitUs, at);
    if (freeAt === Number.POSITIVE_INFINITY || freeAt <= by) return Number.POSITIVE_INFINITY;
    this.roomAt = Math.max(at + 1, Math.ceil(freeAt - waitUs));
    return by - at;
  }

  /** When the first of the other accelerators comes free; Infinity: none works. One that is overdue may come any moment, for a while. */
  private nextFreeAt(id: AcceleratorId, graceUs: number, at: number): number {
    const { accelerators } = this.core;
    let first = Number.POSITIVE_INFINITY;
    for (let other = 0; other < accelerators.capacity; other++) {
      if (other === id || accelerators.present[other] === 0 || accelerators.isStraggler(other)) continue;
      const freeAt = Math.max(accelerators.freeAt[other]!, this.askedUntil[other]!);
      if (freeAt >= at - graceUs) first = Math.min(first, Math.max(at, freeAt));
    }
    return first;
  }

  private look(at: number): void {
    const { slackUs } = this.core.offers;
    this.lookAt = at + LOOK_US;
    this.tightest = -1;
    this.nextTightest = -1;
    for (const [key, seenAt] of this.seenAt) {
      if (seenAt < at - ACTIVE_US) {
        this.seenAt.delete(key);
        continue;
      }
      if (this.tightest < 0 || slackUs[key]! < slackUs[this.tightest]!) {
        this.nextTightest = this.tightest;
        this.tightest = key;
      } else if (this.nextTightest < 0 || slackUs[key]! < slackUs[this.nextTightest]!) this.nextTightest = key;
    }
  }
}
