import { IndexedHeap } from "../../core/indexed-heap.js";
import { violated } from "../../core/invariant.js";
import { type Arbiter, type ArbiterView, ASKED, type QueueKey } from "../../core/policy.js";
import type { AcceleratorId } from "../../core/tables/accelerator-table.js";
import { Reserve } from "./reserve.js";
import type { SharedLoad } from "./shared-load.js";

/**
 * While something idles and something waits, demand is looked at anew this often, µs: it falls with time alone, and
 * after a burst no event says so.
 */
const LOOK_US = 1000;

export interface RankArbiterOptions {
  /**
   * Dispatch at once while idle accelerators exceed what the present rate needs at the target batch (design, "When
   * nothing presses"). Off: the paper's rule, which lets accelerators fall idle so that they can be released.
   */
  readonly idleDispatch: boolean;
  /** The arbiter's parts of `deferred+`; absent: none of them. */
  readonly plus?: ArbiterPlusOptions;
}

/** Parts of `deferred+` that the arbiter switches; see deferred-plus.ts and `earliness`. */
export interface ArbiterPlusOptions {
  readonly load: SharedLoad;
  /** How much before its window an offer may open for the last idle accelerator, or compete for the next free one. */
  readonly early: number;
  /** And for each further idle accelerator, over the root of all, times the dispersion of arrivals where `burstAware`. */
  readonly earlyPerIdle: number;
  readonly burstAware: boolean;
  /** Part of the time by which the next accelerator comes free sooner than usual that the window of the last idle one opens earlier, or later. */
  readonly earlyByGap: number;
  /** The fastest idle accelerator goes first, the lowest id among equals. */
  readonly fastestFirst: boolean;
}

/** Decisions at one moment, far above what queues and accelerators can need: ends the process rather than hang it. */
const TURNS_MAX = 1_000_000;
/** Values of `asked`. */
const ASKED_IDLE = 1;
const ASKED_AHEAD = 2;
/** Order of the first straggler: behind every accelerator id. */
const SLOW = 2 ** 32;
/** Order of an accelerator that is slower than the fastest, per thousandth: behind the ids of all faster ones. */
const PER_MILLE = 2 ** 16;

/**
 * Matches offers with accelerators: Symphony's RankThread (Algorithm 1 lines 18-23, Appendix D).
 *
 * An offer waits until it opens, then takes the free accelerator of lowest id, so that high ids fall idle at low load
 * (Algorithm 1; the public code takes the one that was free earliest, which spreads the load). Without a free
 * accelerator it stays open, and whoever becomes free takes the open offer of smallest rank (latest start).
 *
 * Where control and data take time (lead), an accelerator that is about to be free is granted ahead by that lead.
 * Stragglers are granted last, and only what they can still finish.
 *
 * Deviation: the paper tests free < exec < latest strictly, which cannot dispatch its own Figure 4; equality passes here.
 */
export class RankArbiter implements Arbiter {
  /** Offers whose window has not opened, by the moment to ask for an accelerator. */
  private readonly waiting = new IndexedHeap(16);
  /** Open offers that no accelerator could take yet, by rank. */
  private readonly open = new IndexedHeap(16);
  /** Open offers too long for the last accelerator within reach of another model, by when they may have it. */
  private readonly held = new IndexedHeap(16);
  /** Accelerators that hold nothing, slow ones last, then by id. */
  private readonly idle: IndexedHeap;
  /** Accelerators that hold one batch, by its planned end; stragglers and overdue ones are left out. */
  private readonly busy: IndexedHeap;
  /** Idle accelerators that refused every open offer (too slow for it), until offers change. */
  private readonly refused: IndexedHeap;
  /** Granted to a queue that has not answered yet (so in none of these heaps): idle then, or ahead; 0: not. */
  private readonly asked: Uint8Array;
  private readonly askedUntil: Float64Array;
  private demandSeen = new Float64Array(16);
  private demandTotal = 0;
  private demandCursor = 0;
  /** Next look at whether offers that wait beside idle accelerators may go; Infinity: none is needed. */
  private lookAt = Number.POSITIVE_INFINITY;
  private queuesMax = 16;
  private readonly reserve: Reserve;
  private readonly core: ArbiterView;
  private readonly idleDispatch: boolean;
  private readonly plusOptions: ArbiterPlusOptions | null;

  constructor(core: ArbiterView, options: RankArbiterOptions) {
    this.core = core;
    this.idleDispatch = options.idleDispatch;
    this.plusOptions = options.plus ?? null;
    this.askedUntil = new Float64Array(core.accelerators.capacity);
    this.reserve = new Reserve(core, this.askedUntil);
    this.idle = new IndexedHeap(core.accelerators.capacity);
    this.busy = new IndexedHeap(core.accelerators.capacity);
    this.refused = new IndexedHeap(core.accelerators.capacity);
    this.asked = new Uint8Array(core.accelerators.capacity);
  }

  queueAdded(key: QueueKey): void {
    if (key < this.queuesMax) return;
    while (key >= this.queuesMax) this.queuesMax *= 2;
    this.waiting.grow(this.queuesMax);
    this.open.grow(this.queuesMax);
    this.held.grow(this.queuesMax);
    const seen = new Float64Array(this.queuesMax);
    seen.set(this.demandSeen);
    this.demandSeen = seen;
  }

  queueRemoved(key: QueueKey): void {
    this.plusOptions?.load.rehearsal?.removed(key);
    this.waiting.remove(key);
    this.open.remove(key);
    this.held.remove(key);
    this.reserve.removed(key);
    this.noteDemand(key);
    this.plusOptions?.load.forget(key);
  }

  offerChanged(key: QueueKey, at: number): void {
    const { offers } = this.core;
    if (this.idleDispatch) this.noteDemand(key);
    if (this.held.size > 0) this.held.remove(key);
    if (offers.size[key] === 0) {
      this.waiting.remove(key);
      this.open.remove(key);
      return;
    }
    this.reserve.offered(key, at);
    const mayLeaveIdle = offers.mayLeaveIdle[key] === 1;
    const isDue = mayLeaveIdle && this.reserve.isLight(key);
    const opensAt = isDue ? at : offers.opensAt[key]! - offers.leadUs[key]!;
    const askAt = mayLeaveIdle ? Math.min(opensAt, this.reserve.mustAskBy(key, at)) : opensAt;
    if (this.open.size > 0) {
      if (askAt <= at && this.open.has(key)) {
        this.stand(key);
        return;
      }
      this.open.remove(key);
    }
    this.waiting.set(key, mayLeaveIdle && askAt > at && this.nothingPresses(at) ? at : askAt);
    this.planLook(at);
  }

  available(id: AcceleratorId, at: number): void {
    const { accelerators } = this.core;
    const inFlight = accelerators.inFlight(id);
    this.refused.remove(id);
    this.busy.remove(id);
    this.idle.remove(id);
    if (this.asked[id] !== 0) return;
    this.releaseHeld(Number.POSITIVE_INFINITY);
    if (inFlight === 0) {
      this.idle.set(id, this.order(id));
      // A queue that is not yet due may go at once now that something is idle.
      if (this.mayLeaveEarly(at)) this.waiting.set(this.waiting.top(), Math.min(at, this.waiting.topPriority()));
      this.planLook(at);
    } else if (inFlight === 1) this.noteBusy(id);
  }

  withdrawn(id: AcceleratorId, _at: number): void {
    this.idle.remove(id);
    this.busy.remove(id);
    this.refused.remove(id);
    // Those that were too slow while this one was there may be the best there is.
    this.restoreRefused();
    this.releaseHeld(Number.POSITIVE_INFINITY);
  }

  get nextWakeAt(): number {
    const changesAt = this.held.size === 0 ? this.nextOpensAt() : Math.min(this.nextOpensAt(), this.held.topPriority());
    if (this.open.size === 0)
      return this.idleDispatch && this.isLookNeeded() ? Math.min(changesAt, this.lookAt) : changesAt;
    if (this.idle.size > 0) return Number.NEGATIVE_INFINITY;
    return Math.min(changesAt, this.expiresAt(), this.aheadAt());
  }

  wake(at: number): void {
    if (this.lookAt <= at) this.look(at);
    this.releaseHeld(at);
    // Forgets those that are overdue: no gap is measured to them.
    if (this.plus !== null) this.nextFree(at);
    for (let turn = 0; ; turn++) {
      if (turn > TURNS_MAX) violated(`the arbiter took ${turn} decisions at ${at} without coming to rest`);
      if (this.core.mustWait) return;
      // With earliness the free accelerator goes to the most urgent of all that may have it.
      if (this.plus !== null && this.idle.size > 0 && this.nextOpensAt() <= at) this.openEarly(this.waiting.pop());
      else if (this.open.size > 0 && this.idle.size > 0) this.grantIdle(at);
      else if (this.nextOpensAt() <= at) this.offerOpened(this.waiting.pop(), at);
      else if (this.mayLeaveEarly(at)) this.offerOpened(this.waiting.pop(), at);
      else if (this.open.size === 0) return;
      else if (this.nextFree(at) >= 0 && this.aheadAt() <= at) this.grantAhead(this.open.top(), at);
      else if (this.expiresAt() <= at) {
        const key = this.open.pop();
        this.core.expired(key, at);
      } else return;
    }
  }

  /** ONMODELTIMER: the offer's window is open. */
  private offerOpened(key: QueueKey, at: number): void {
    const { offers, accelerators } = this.core;
    this.restoreRefused();
    this.stand(key);
    if (this.idle.size > 0) return;
    const next = this.nextFree(at);
    // An offer that opened early would grow still: it is not bound to an accelerator before that is needed.
    const soonestAt = at + offers.leadUs[key]!;
    const startAt = offers.earlyExecUs[key] === 0 ? Math.max(offers.opensAt[key]!, soonestAt) : soonestAt;
    if (next >= 0 && accelerators.freeAt[next]! <= startAt) this.grantAhead(key, at);
  }

  /** ONGPUTIMER, or a model timer that found a free accelerator: the most urgent open offer takes the first idle accelerator. */
  private grantIdle(at: number): void {
    const { core } = this;
    const isRankedFast = this.idle.topPriority() < SLOW;
    const id = this.idle.pop();
    const key = this.open.top();
    if (core.accelerators.isStraggler(id)) {
      if (isRankedFast) {
        // A faster one has come since.
        this.idle.set(id, this.order(id));
        return;
      }
      // A straggler waits as long as something faster will be free in time.
      if (this.nextFree(at) >= 0 && this.busy.topPriority() <= core.offers.latestAt[key]!) {
        this.refused.set(id, this.order(id));
        return;
      }
    }
    this.open.remove(key);
    if (!this.hasRoom(key, id, at)) {
      this.idle.set(id, this.order(id));
      return;
    }
    if (this.plus !== null) this.sayEarliness(key, this.usefulIdle + 1);
    const batch = core.grant(key, id, at);
    if (batch === ASKED) this.hasAsked(key, id, ASKED_IDLE, at);
    else if (batch >= 0) this.noteBusy(id);
    else this.declinedIdle(key, id, this.isStillOffered(key, at));
  }

  /** Whether the accelerator may be the queue's now, for as long as it needs or for less; if not its offer is held. */
  private hasRoom(key: QueueKey, id: AcceleratorId, at: number): boolean {
    const { reserve } = this;
    if (reserve.isOff) return true;
    const { offers } = this.core;
    const roomUs = reserve.roomUs(key, id, this.idle.size > 0, at);
    offers.limitUs[key] = roomUs;
    if (offers.aloneUs[key]! <= roomUs) return true;
    const expiresAt = offers.latestAt[key]! - offers.leadUs[key]! + 1;
    if (expiresAt <= at) this.core.expired(key, at);
    else this.held.set(key, Math.min(reserve.roomAt, expiresAt));
    return false;
  }

  private releaseHeld(at: number): void {
    while (this.held.size > 0 && this.held.topPriority() <= at) {
      const key = this.held.pop();
      this.open.set(key, this.core.offers.rank[key]!);
    }
  }

  private hasAsked(key: QueueKey, id: AcceleratorId, kind: number, at: number): void {
    const { accelerators, offers } = this.core;
    this.asked[id] = kind;
    const execUs = Math.min(
      offers.execUs[key]! * (accelerators.scale[id]! / accelerators.fastestScale),
      offers.limitUs[key]!,
    );
    this.askedUntil[id] = Math.max(at, accelerators.freeAt[id]!) + execUs;
    // More batches of it are full.
    if (offers.size[key]! > 0) this.stand(key);
  }

  /** Nothing was taken of an idle accelerator. */
  private declinedIdle(key: QueueKey, id: AcceleratorId, isStillOffered: boolean): void {
    // Either a fresh look found that the offer is not due (the accelerator is still good for others), or this accelerator
    // is too slow for it: then neither asks the other again until an offer opens.
    if (!isStillOffered) {
      this.idle.set(id, this.order(id));
      return;
    }
    this.reopen(key);
    this.refused.set(id, this.order(id));
  }

  private grantAhead(key: QueueKey, at: number): void {
    const id = this.nextFree(at);
    if (id < 0) return;
    this.open.remove(key);
    if (!this.hasRoom(key, id, at)) return;
    if (this.plus !== null) this.sayEarliness(key, 0);
    this.busy.remove(id);
    const batch = this.core.grant(key, id, at);
    if (batch === ASKED) this.hasAsked(key, id, ASKED_AHEAD, at);
    else if (batch < 0) this.declinedAhead(key, id, this.isStillOffered(key, at));
  }

  /** Nothing was taken of an accelerator that still holds a batch. */
  private declinedAhead(key: QueueKey, id: AcceleratorId, isStillOffered: boolean): void {
    // When it will be free too late for this offer, it is not asked again until it is free.
    if (isStillOffered) this.reopen(key);
    else this.noteBusy(id);
  }

  /**
   * The answer to a grant that was ASKED: what `grant` says at once in one thread. The queue's offer of after the grant,
   * if any, has been told before. Meanwhile the accelerator may have left, and what it held may have ended.
   */
  answered(key: QueueKey, id: AcceleratorId, isTaken: boolean, isStillOffered: boolean, at: number): void {
    const { accelerators } = this.core;
    const asked = this.asked[id];
    this.asked[id] = 0;
    this.askedUntil[id] = 0;
    if (accelerators.present[id] === 0) {
      if (!isTaken && isStillOffered) this.reopen(key);
      return;
    }
    const inFlight = accelerators.inFlight(id);
    if (isTaken) {
      // Taken behind a batch, it is full; if that batch has ended since, it holds one.
      if (asked === ASKED_IDLE) this.noteBusy(id);
      else if (inFlight <= 1) this.available(id, at);
      return;
    }
    if (asked === ASKED_AHEAD && inFlight > 0) this.declinedAhead(key, id, isStillOffered);
    else if (asked === ASKED_IDLE && inFlight === 0) this.declinedIdle(key, id, isStillOffered);
    else {
      // It is not what was refused any more.
      if (isStillOffered) this.reopen(key);
      this.available(id, at);
    }
  }

  /** The offer goes on looking for an accelerator: it is open still. */
  private reopen(key: QueueKey): void {
    if (this.core.offers.size[key] === 0) return;
    this.waiting.remove(key);
    this.stand(key);
  }

  /** After a grant that nothing came of: is it the accelerator that did not suit? With idle dispatch nothing is too early. */
  private isStillOffered(key: QueueKey, at: number): boolean {
    const { offers } = this.core;
    if (this.idleDispatch) return offers.size[key]! > 0;
    const earlyUs = this.plus === null || offers.earlyExecUs[key] === 0 ? 0 : this.plus.load.earlyUs;
    return offers.size[key]! > 0 && offers.opensAt[key]! - offers.leadUs[key]! - earlyUs <= at;
  }

  /** When the next offer that waits may open: by its window, or as much earlier as idle accelerators allow. */
  private nextOpensAt(): number {
    const askAt = this.waiting.topPriority();
    if (this.plus === null || this.waiting.size === 0) return askAt;
    return askAt - this.earlyUs(this.waiting.top(), askAt, this.usefulIdle);
  }

  /**
   * How much earlier than at `askAt` an offer may open, whole µs.
   * @param idle accelerators. 0 counts as 1: it may compete for the next one, and what it is told must not change while
   * slow ones are set aside (`refused`).
   */
  private earlyUs(key: QueueKey, askAt: number, idle: number): number {
    const execUs = this.core.offers.earlyExecUs[key]!;
    if (execUs === 0) return 0;
    const { earlyByGap } = this.plus!;
    const meanUs = this.earliness(Math.max(1, idle)) * execUs;
    if (earlyByGap === 0) return Math.floor(meanUs);
    const mostUs = Math.floor(meanUs + earlyByGap * this.usualGapUs(execUs));
    if (idle > 1 || this.busy.size === 0) return mostUs;
    // The gap shrinks while the offer waits: it opens at t = askAt - mostUs + earlyByGap * (next free - t).
    const untilFreeUs = this.busy.topPriority() - (askAt - mostUs);
    return Math.max(0, Math.floor(mostUs - (Math.max(0, untilFreeUs) * earlyByGap) / (1 + earlyByGap)));
  }

  /** Tells the queue that a grant goes to how early it may leave, just as its offer opens. */
  private sayEarliness(key: QueueKey, idle: number): void {
    const { load } = this.plus!;
    const { offers } = this.core;
    load.early = this.earliness(Math.max(1, idle));
    load.earlyUs = this.earlyUs(key, offers.opensAt[key]! - offers.leadUs[key]!, idle);
  }

  /** Accelerators that all run batches of this time in even turns come free this far apart. */
  private usualGapUs(execUs: number): number {
    return execUs / Math.max(1, this.core.accelerators.count);
  }

  /** Idle accelerators that can serve somebody; of what idles always nothing follows. */
  private get usefulIdle(): number {
    const { useless } = this.plus!.load;
    return useless === 0 ? this.idle.size : Math.max(0, this.idle.size + this.refused.size - useless);
  }

  /**
   * How much before its window an offer may open, as a part of its execution time. Accelerators come free one per
   * execution time over their number: that is the unit. How many idle by chance grows with the root of their number and
   * with the dispersion of arrivals, so the idle ones are counted by that.
   * @param idle accelerators, at least 1.
   */
  private earliness(idle: number): number {
    const { load, early, earlyPerIdle, burstAware } = this.plus!;
    const count = Math.max(1, this.core.accelerators.count - load.useless);
    const perIdle = (burstAware ? load.dispersion : 1) * (earlyPerIdle / Math.sqrt(count));
    return (early + perIdle * (idle - 1)) / count;
  }

  private openEarly(key: QueueKey): void {
    this.restoreRefused();
    this.stand(key);
  }

  /** It is open, and no accelerator has it yet. */
  private stand(key: QueueKey): void {
    const { rank, latestAt, leadUs } = this.core.offers;
    this.open.set(key, rank[key]!);
    // Where the order is that of latest starts, the first to run out stands first.
    if (rank[key] !== latestAt[key]) this.core.alarm(key, latestAt[key]! - leadUs[key]! + 1);
  }

  private noteBusy(id: AcceleratorId): void {
    const { accelerators } = this.core;
    if (!accelerators.isStraggler(id)) this.busy.set(id, accelerators.freeAt[id]!);
  }

  /** The accelerator that holds one batch and ends it first, not before now (an overdue one says so itself), or -1. */
  private nextFree(at: number): AcceleratorId {
    while (this.busy.topPriority() < at) this.busy.pop();
    return this.busy.top();
  }

  /** When the next accelerator can be granted ahead to the most urgent open offer; Infinity without lead. */
  private aheadAt(): number {
    const lead = this.core.offers.leadUs[this.open.top()]!;
    return lead > 0 ? this.busy.topPriority() - lead : Number.POSITIVE_INFINITY;
  }

  /** One microsecond after the most urgent open offer could last have been granted. */
  private expiresAt(): number {
    const key = this.open.top();
    return this.core.offers.latestAt[key]! - this.core.offers.leadUs[key]! + 1;
  }

  private order(id: AcceleratorId): number {
    const { accelerators } = this.core;
    if (accelerators.isStraggler(id)) return SLOW * (1 + accelerators.scale[id]!) + id;
    if (this.plus === null || !this.plus.fastestFirst) return id;
    return Math.round((accelerators.scale[id]! / accelerators.fastestScale - 1) * 1000) * PER_MILLE + id;
  }

  private restoreRefused(): void {
    while (this.refused.size > 0) {
      const id = this.refused.pop();
      this.idle.set(id, this.order(id));
    }
  }

  private isLookNeeded(): boolean {
    return this.idle.size > 0 && this.waiting.size > 0;
  }

  private planLook(at: number): void {
    if (this.idleDispatch && this.lookAt === Number.POSITIVE_INFINITY && this.isLookNeeded())
      this.lookAt = at + LOOK_US;
  }

  /** With every demand fresh: may the first offer that waits go now? */
  private look(at: number): void {
    this.lookAt = Number.POSITIVE_INFINITY;
    if (!this.isLookNeeded()) return;
    for (let key = 0; key < this.queuesMax; key++) {
      if (this.demandSeen[key] === 0) continue;
      this.core.refreshDemand(key, at);
      this.noteDemand(key);
    }
    const first = this.waiting.top();
    if (this.core.offers.mayLeaveIdle[first] === 1 && this.idle.size > this.demandTotal)
      this.waiting.set(first, Math.min(at, this.waiting.topPriority()));
    this.planLook(at);
  }

  /** The offer that opens next need not wait for it. */
  private mayLeaveEarly(at: number): boolean {
    return this.waiting.size > 0 && this.core.offers.mayLeaveIdle[this.waiting.top()] === 1 && this.nothingPresses(at);
  }

  /** Idle accelerators exceed what the present rate needs. One stale demand is refreshed per look, so all are in turn. */
  private nothingPresses(at: number): boolean {
    if (!this.idleDispatch || this.idle.size === 0) return false;
    this.demandCursor = this.demandCursor + 1 >= this.queuesMax ? 0 : this.demandCursor + 1;
    if (this.demandSeen[this.demandCursor]! > 0) {
      this.core.refreshDemand(this.demandCursor, at);
      this.noteDemand(this.demandCursor);
    }
    return this.idle.size > this.demandTotal;
  }

  /** Nothing of `deferred+` before a queue of the group asks for it. */
  private get plus(): ArbiterPlusOptions | null {
    const { plusOptions } = this;
    return plusOptions?.load.isAskedFor === true && plusOptions.load.isOn ? plusOptions : null;
  }

  private noteDemand(key: QueueKey): void {
    const seen = this.demandSeen;
    const demand = this.core.offers.demand[key]!;
    this.demandTotal += demand - seen[key]!;
    seen[key] = demand;
  }
}
