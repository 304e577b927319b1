import type { ExpandedLlm } from "../config/scenario/llm/expand-llm.js";
import { invariant, violated } from "../core/invariant.js";
import { DROP_EXPIRED, DROP_INFEASIBLE, DROPPED, FAIL_NO_ACCELERATOR, FAILED } from "../core/outcome.js";
import type { AcceleratorId } from "../core/tables/accelerator-table.js";
import type { BatchId } from "../core/tables/batch-table.js";
import { ABANDONED, type RequestHandle } from "../core/tables/request-table.js";
import { TokenEngine } from "./llm/token-engine.js";
import { type GroupSink, SimulatedGroup, type SimulatedGroupOptions } from "./simulated-group.js";

/** What a group that generates text asks beside. */
export interface TokenSink extends GroupSink {
  /** Lengths of a request. @param tag as its scheduler has it. */
  promptOf(tag: number, model: number): number;
  answerOf(tag: number, model: number): number;
  /** Whether the model's requests end with the first token of their answers. */
  endsFirst(model: number): boolean;
  /** An iteration ran. @param accelerator among all. @returns how much of its time is counted, µs. */
  iterated(accelerator: number, startAt: number, endAt: number): number;
  /** A request that ended in time generated on: time that is counted, µs. */
  generatedOn(tag: number, model: number, us: number): void;
}

export interface TokenGroupOptions extends SimulatedGroupOptions {
  readonly llm: ExpandedLlm;
  /** Of the longest request that may come, prompt and answer. */
  readonly requestTokensMax: number;
}

interface Engine {
  readonly tokens: TokenEngine;
  scale: number;
  /** Of the iteration that runs; -1: none does. */
  startAt: number;
  /** When it ends, or one is to begin; Infinity: neither. */
  endAt: number;
  /** Slot that is offered to the scheduler, or NO_SLOT. */
  open: number;
}

const NO_SLOT = -1;
/** Nothing is in the slot; its request has ended and it generates on. */
const FREE = -1;
const ENDED = -2;

/**
 * A group of accelerators that generate text. To its scheduler every slot for a sequence is an accelerator that comes when an iteration has
 * ended and there is room for one more, takes one request, and goes: so the policy decides at each iteration who is admitted and who is given
 * up, and nobody waits behind its back. An accelerator with nothing to do offers one slot all the time.
 *
 * A request ends by the token that its model says; where that is the first, its slot is taken until the last, unless the first was late.
 */
export class TokenGroup extends SimulatedGroup {
  override readonly isShared = true;
  private readonly engines: readonly Engine[];
  private readonly slotsOf: number;
  /** By slot, over all engines: its batch, FREE or ENDED; when it was admitted; its request's tag and model. */
  private readonly batchIn: Int32Array;
  private readonly admittedAt: Float64Array;
  private readonly tagIn: Float64Array;
  private readonly modelIn: Int32Array;
  private readonly tokenSink: TokenSink;

  constructor(options: TokenGroupOptions, sink: TokenSink) {
    const { count, llm, requestTokensMax } = options;
    const slots = count * llm.sequencesMax;
    super({ ...options, count: slots, learn: false }, sink);
    this.tokenSink = sink;
    this.slotsOf = llm.sequencesMax;
    this.engines = Array.from({ length: count }, () => ({
      tokens: new TokenEngine(llm, requestTokensMax),
      scale: 1,
      startAt: -1,
      endAt: Number.POSITIVE_INFINITY,
      open: NO_SLOT,
    }));
    this.batchIn = new Int32Array(slots).fill(FREE);
    this.admittedAt = new Float64Array(slots);
    this.tagIn = new Float64Array(slots);
    this.modelIn = new Int32Array(slots);
  }

  override get nextEndAt(): number {
    return this.engines.reduce((soonest, { endAt }) => Math.min(soonest, endAt), Number.POSITIVE_INFINITY);
  }

  override endNext(at: number): void {
    const index = this.engines.findIndex(({ endAt }) => endAt <= at);
    const engine = this.engines[index]!;
    engine.endAt = Number.POSITIVE_INFINITY;
    if (engine.startAt >= 0) this.iterated(index, at);
    this.close(index, at);
    while (engine.tokens.hasRoom && this.admitsOne(index, at));
    this.begin(index, at);
  }

  /** @param id of the accelerator. */
  override join(id: AcceleratorId, scale: number, at: number): void {
    const engine = this.engines[id]!;
    engine.scale = scale;
    engine.startAt = -1;
    this.open(id, at);
  }

  override leave(id: AcceleratorId): void {
    violated(`accelerator ${id} of ${this.name} generates text and cannot leave`);
  }

  override fail(id: AcceleratorId): void {
    violated(`accelerator ${id} of ${this.name} generates text and cannot fail`);
  }

  override preempt(): void {
    violated(`who was admitted in ${this.name} generates until the end`);
  }

  /** The scheduler gave the slot away that was open. */
  override dispatch(batch: BatchId, slot: AcceleratorId, at: number): void {
    const { batches, requests } = this.scheduler;
    const index = Math.floor(slot / this.slotsOf);
    const engine = this.engines[index]!;
    invariant(
      slot === engine.open && this.batchIn[slot] === FREE && batches.size[batch] === 1,
      `slot ${slot} of ${this.name} takes one request while it is open, and none behind it`,
    );
    const tag = requests.tag[batches.first[batch]!]!;
    const model = this.models[batches.queue[batch]!]!;
    engine.tokens.admit(this.tokenSink.promptOf(tag, model), this.tokenSink.answerOf(tag, model));
    this.batchIn[slot] = batch;
    this.admittedAt[slot] = at;
    this.tagIn[slot] = tag;
    this.modelIn[slot] = model;
    // It had nothing to do: the first iteration begins when the scheduler's call is over.
    if (engine.tokens.sequences === 1) engine.endAt = at;
  }

  /** That no slot is here between iterations does not mean that there is no accelerator: who was given up then was dropped. */
  override end(request: RequestHandle, outcome: number, reason: number, execStartAt: number, at: number): void {
    const isDropped = outcome === FAILED && reason === FAIL_NO_ACCELERATOR;
    if (!isDropped) super.end(request, outcome, reason, execStartAt, at);
    else
      super.end(
        request,
        DROPPED,
        this.scheduler.requests.dueAt[request]! < at ? DROP_EXPIRED : DROP_INFEASIBLE,
        -1,
        at,
      );
  }

  override countedUs(batch: BatchId): number {
    const slot = this.scheduler.batches.accelerator[batch]!;
    return this.engines[Math.floor(slot / this.slotsOf)]!.tokens.takeSpentUs(slot % this.slotsOf);
  }

  override acceleratorOf(batch: BatchId): number {
    return this.first + Math.floor(this.scheduler.batches.accelerator[batch]! / this.slotsOf);
  }

  /** The iteration ended: who has given the token that it ends by, has ended. */
  private iterated(index: number, at: number): void {
    const { tokens, startAt } = this.engines[index]!;
    const counted = this.tokenSink.iterated(this.first + index, startAt, at);
    tokens.end(at === startAt ? 0 : counted / (at - startAt));
    for (const slot of tokens.first) {
      const place = index * this.slotsOf + slot;
      if (this.tokenSink.endsFirst(this.modelIn[place]!) && this.ended(place, at)) this.free(index, slot);
    }
    for (const slot of tokens.last) {
      const place = index * this.slotsOf + slot;
      // Its first token was late.
      if (this.batchIn[place] === FREE) continue;
      if (this.batchIn[place] !== ENDED) this.ended(place, at);
      this.free(index, slot);
    }
  }

  /** The request in the slot ends. @returns whether nobody wants more of it. */
  private ended(place: number, at: number): boolean {
    const { batches, requests } = this.scheduler;
    const batch = this.batchIn[place]!;
    const request = batches.first[batch]!;
    const isLost = requests.latestEndAt[request]! < at || requests.state[request] === ABANDONED;
    this.scheduler.finished(batch, this.admittedAt[place]!, at, at);
    this.batchIn[place] = ENDED;
    return isLost;
  }

  private free(index: number, slot: number): void {
    const place = index * this.slotsOf + slot;
    const { tokens } = this.engines[index]!;
    this.batchIn[place] = FREE;
    this.tokenSink.generatedOn(this.tagIn[place]!, this.modelIn[place]!, tokens.takeSpentUs(slot));
    tokens.release(slot);
  }

  /** Offers a slot, now. @returns whether somebody took it. */
  private admitsOne(index: number, at: number): boolean {
    const { scheduler, models } = this;
    if (models.every((_, key) => scheduler.queueLength(key) === 0)) return false;
    const { tokens } = this.engines[index]!;
    const before = tokens.sequences;
    this.open(index, at);
    scheduler.wake(at);
    this.close(index, at);
    return tokens.sequences > before;
  }

  private begin(index: number, at: number): void {
    const engine = this.engines[index]!;
    const us = engine.tokens.begin();
    engine.startAt = us === 0 ? -1 : at;
    if (us === 0) this.open(index, at);
    else engine.endAt = at + Math.ceil(us * engine.scale);
  }

  private open(index: number, at: number): void {
    const engine = this.engines[index]!;
    engine.open = index * this.slotsOf + engine.tokens.nextSlot;
    this.scheduler.join(engine.open, engine.scale, at);
  }

  private close(index: number, at: number): void {
    const engine = this.engines[index]!;
    if (engine.open < 0) return;
    this.scheduler.leave(engine.open, at);
    engine.open = NO_SLOT;
  }
}
