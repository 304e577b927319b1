import type { ExpandedLlm } from "../../config/scenario/llm/expand-llm.js";
import { invariant, violated } from "../../core/invariant.js";

/**
 * One accelerator that generates text by continuous batching (Orca's iteration-level scheduling, vLLM's chunked prefill): what an
 * iteration holds, how long it takes, which sequences give their first and their last token in it. It knows no clock and no queue.
 *
 * An iteration holds a token of every sequence whose prompt is done, and of the other prompts, in the order of their admission, as many tokens
 * as `tokensMax` leaves. It takes iterationUs + sequenceUs for each of the former + prefillUs for each token of a prompt. The iteration that ends a prompt gives
 * the first token of its answer.
 *
 * Whose time it is: each sequence in it has what it adds, and all of them even parts of iterationUs.
 *
 * A sequence is in a slot, from 0. Memory is held for its whole prompt and answer from the start: the emulation knows how long that will be, so that
 * nobody has to be put out for want of it, as an engine that does not know would do.
 */
export class TokenEngine {
  /** That gave their first, their last token in the iteration that ended; one that gives one token is in both. Until the next one ends. */
  readonly first: number[] = [];
  readonly last: number[] = [];
  private readonly spec: ExpandedLlm;
  private readonly requestTokensMax: number;
  /** In order of admission. */
  private readonly slots: number[] = [];
  /** The last is given next. */
  private readonly free: number[];
  /** By slot: tokens of the prompt that no iteration held yet, of the answer that were not given, and held in memory. */
  private readonly promptLeft: Int32Array;
  private readonly answerLeft: Int32Array;
  private readonly held: Int32Array;
  /** By slot: tokens of its prompt in this iteration, its part of the iteration's time, and of all that were charged. */
  private readonly chunk: Int32Array;
  private readonly partUs: Float64Array;
  private readonly spentUs: Float64Array;
  private heldTokens = 0;
  private generating = 0;
  private promptTokens = 0;
  private isBusy = false;

  /** @param requestTokensMax of the longest request that may come, prompt and answer. */
  constructor(spec: ExpandedLlm, requestTokensMax: number) {
    const { sequencesMax } = spec;
    this.spec = spec;
    this.requestTokensMax = requestTokensMax;
    this.free = Array.from({ length: sequencesMax }, (_, index) => sequencesMax - 1 - index);
    this.promptLeft = new Int32Array(sequencesMax);
    this.answerLeft = new Int32Array(sequencesMax);
    this.held = new Int32Array(sequencesMax);
    this.chunk = new Int32Array(sequencesMax);
    this.partUs = new Float64Array(sequencesMax);
    this.spentUs = new Float64Array(sequencesMax);
  }

  get sequences(): number {
    return this.slots.length;
  }

  /** Whether one more sequence may be admitted: a slot, the longest request's memory, and tokens of an iteration that nobody waits for. */
  get hasRoom(): boolean {
    const { kvTokens, tokensMax } = this.spec;
    return (
      this.free.length > 0 &&
      this.generating + this.promptTokens < tokensMax &&
      this.heldTokens + this.requestTokensMax <= kvTokens
    );
  }

  /** The slot that the next sequence gets. */
  get nextSlot(): number {
    return this.free.at(-1)!;
  }

  /** A sequence takes part from the next iteration on. @returns its slot. @param prompt and @param answer tokens, at least 1 each. */
  admit(prompt: number, answer: number): number {
    const slot = this.free.pop();
    invariant(slot !== undefined && !this.isBusy, "a sequence is admitted between iterations, where a slot is free");
    invariant(prompt >= 1 && answer >= 1, `prompt and answer must be at least 1 token; were ${prompt} and ${answer}`);
    this.slots.push(slot);
    this.promptLeft[slot] = prompt;
    this.answerLeft[slot] = answer;
    this.held[slot] = prompt + answer;
    this.spentUs[slot] = 0;
    this.heldTokens += prompt + answer;
    this.promptTokens += prompt;
    return slot;
  }

  /** An iteration begins. @returns how long it takes, whole µs; 0: there is nobody. */
  begin(): number {
    const { chunk, partUs, promptLeft, slots, spec } = this;
    if (this.isBusy) violated("an iteration begins within another one");
    if (slots.length === 0) return 0;
    this.isBusy = true;
    let room = spec.tokensMax - this.generating;
    let members = this.generating;
    let prefilled = 0;
    for (const slot of slots) {
      chunk[slot] = Math.min(promptLeft[slot]!, Math.max(0, room));
      room -= chunk[slot]!;
      prefilled += chunk[slot]!;
      if (chunk[slot]! > 0) members++;
    }
    const sharedUs = spec.iterationUs / members;
    for (const slot of slots) {
      const ownUs = promptLeft[slot] === 0 ? spec.sequenceUs : spec.prefillUs * chunk[slot]!;
      partUs[slot] = promptLeft[slot] === 0 || chunk[slot]! > 0 ? sharedUs + ownUs : 0;
    }
    return Math.ceil(spec.iterationUs + spec.sequenceUs * this.generating + spec.prefillUs * prefilled);
  }

  /** The iteration ended: `first` and `last` say for whom. @param charged part of its time that is charged to its sequences, in [0, 1]. */
  end(charged: number): void {
    const { answerLeft, chunk, first, last, partUs, promptLeft, spentUs } = this;
    if (!this.isBusy) violated("an iteration ends that has not begun");
    this.isBusy = false;
    first.length = 0;
    last.length = 0;
    for (const slot of this.slots) {
      spentUs[slot]! += charged * partUs[slot]!;
      if (promptLeft[slot]! > 0) {
        promptLeft[slot]! -= chunk[slot]!;
        this.promptTokens -= chunk[slot]!;
        if (promptLeft[slot]! > 0) continue;
        this.generating++;
        first.push(slot);
      }
      answerLeft[slot]!--;
      if (answerLeft[slot] === 0) last.push(slot);
    }
  }

  /** The sequence is done, or nobody wants the rest of it: its slot and its memory are free. */
  release(slot: number): void {
    const index = this.slots.indexOf(slot);
    invariant(index >= 0 && !this.isBusy, `slot ${slot} is released between iterations, where it is taken`);
    this.slots.splice(index, 1);
    if (this.promptLeft[slot] === 0) this.generating--;
    this.promptTokens -= this.promptLeft[slot]!;
    this.heldTokens -= this.held[slot]!;
    this.free.push(slot);
  }

  /** Time charged to the sequence since it was admitted or asked for last, µs. */
  takeSpentUs(slot: number): number {
    const us = this.spentUs[slot]!;
    this.spentUs[slot] = 0;
    return us;
  }
}

/** Time of a request with the engine to itself, until its first or its last token, whole µs. */
export function aloneUs(spec: ExpandedLlm, prompt: number, answer: number, endsFirst: boolean): number {
  const { iterationUs, prefillUs, sequenceUs, tokensMax } = spec;
  const promptUs = Math.ceil(prompt / tokensMax) * iterationUs + prompt * prefillUs;
  return Math.ceil(endsFirst ? promptUs : promptUs + (answer - 1) * (iterationUs + sequenceUs));
}
