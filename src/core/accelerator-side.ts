import { invariant, violated } from "./invariant.js";
import { Learner, type Learning } from "./latency/learner.js";
import type { QueueKey, QueueSpec } from "./policy.js";
import { type AcceleratorId, AcceleratorTable } from "./tables/accelerator-table.js";
import { type BatchId, BatchTable } from "./tables/batch-table.js";

export interface AcceleratorSideOptions {
  /** Most accelerators that can ever be present at once; ids are in [0, acceleratorsMax). */
  readonly acceleratorsMax: number;
  /** Batches that an accelerator may hold, at least 2: one runs, others are committed behind it. */
  readonly depth: number;
  /** Correct profiles and accelerator scales from measured batches. */
  readonly learn: Learning;
}

/** One runs, one is committed behind it. */
export const DEPTH = 2;

/**
 * The half of a scheduler that knows accelerators: who is here, what each holds, when each will be free, how fast it is.
 *
 * Of batches it reads plans, never members. The arbiter decides with this; in one thread beside the queues, or in a thread
 * of its own (Symphony's RankThread). The other half is QueueSide.
 */
export class AcceleratorSide {
  readonly accelerators: AcceleratorTable;
  readonly batches: BatchTable;
  private readonly learner: Learner;
  private readonly options: AcceleratorSideOptions;

  /** @param specs of the queues by key, for learning; undefined = removed. */
  constructor(specs: readonly (QueueSpec | undefined)[], options: AcceleratorSideOptions) {
    const { acceleratorsMax, depth } = options;
    invariant(depth >= DEPTH, `depth of a policy must be at least ${DEPTH}; was ${depth}`);
    this.options = options;
    this.accelerators = new AcceleratorTable(acceleratorsMax);
    this.batches = new BatchTable(acceleratorsMax * depth);
    this.learner = new Learner(this.accelerators, specs, options.learn);
  }

  /** When something that looked too slow is given another chance; Infinity: nothing is. */
  get chanceAt(): number {
    return this.learner.lookAt;
  }

  /** @returns true when plans must be made anew. */
  giveChances(
    at: number,
    onTrial: (id: AcceleratorId) => void,
    onRelease: (key: QueueKey) => void = () => {},
  ): boolean {
    return this.learner.giveChances(at, onTrial, onRelease);
  }

  /** A queue took its batch for the accelerator: it runs there, or waits its turn. */
  commit(batch: BatchId, accelerator: AcceleratorId): void {
    const { accelerators, batches } = this;
    batches.accelerator[batch] = accelerator;
    accelerators.freeAt[accelerator] = batches.finishAt[batch]!;
    if (accelerators.running[accelerator]! < 0) accelerators.running[accelerator] = batch;
    else if (accelerators.waiting[accelerator]! < 0) accelerators.waiting[accelerator] = batch;
    else this.commitBehind(batch, accelerator);
  }

  /** The batch that was committed is on its way. @returns true when plans must be made anew. */
  sent(accelerator: AcceleratorId): boolean {
    return this.accelerators.isOnTrial(accelerator) && this.accelerators.trialSent(accelerator);
  }

  /**
   * The batch ended well after `measuredUs`. @param isByKind its size alone says nothing of that; see Queue.isByKind.
   * @returns true when plans must be made anew.
   */
  measured(batch: BatchId, key: QueueKey, measuredUs: number, at: number, isByKind = false): boolean {
    if (this.options.learn === false) return false;
    const { batches, learner } = this;
    const planUs = isByKind ? batches.execUs[batch]! : 0;
    return learner.measured(batches.accelerator[batch]!, key, batches.executedSize[batch]!, measuredUs, at, planUs);
  }

  /** A request of the queue was given up because not even alone and now it would end in time. */
  gaveUp(key: QueueKey, at: number): void {
    if (this.options.learn) this.learner.gaveUp(key, at);
  }

  /** Whether the batch is the one that runs, not one behind it. */
  isFirst(batch: BatchId): boolean {
    return this.accelerators.running[this.batches.accelerator[batch]!] === batch;
  }

  /**
   * The batch is off its accelerator, however it ended; what waits there moves up. The batch is released.
   * @param freedAt when the accelerator itself was free: word of it may have taken a while, and what waited there has begun.
   */
  free(batch: BatchId, freedAt: number, at: number): void {
    const { accelerators, batches } = this;
    const accelerator = batches.accelerator[batch]!;
    batches.release(batch);
    if (accelerators.running[accelerator] === batch) {
      const following = accelerators.waiting[accelerator]!;
      accelerators.running[accelerator] = following;
      accelerators.waiting[accelerator] = following >= 0 ? this.stepUp(following, accelerator) : -1;
      if (following >= 0) {
        const startAt = Math.max(freedAt, batches.execAt[following]!);
        batches.finishAt[following] = startAt + batches.execUs[following]!;
        this.planBehind(accelerator, batches.finishAt[following]!);
      } else accelerators.freeAt[accelerator] = at;
      return;
    }
    this.leaveLine(batch, accelerator);
    const running = accelerators.running[accelerator]!;
    this.planBehind(accelerator, running >= 0 ? Math.max(at, batches.finishAt[running]!) : at);
  }

  /** The accelerator holds two already: this batch goes last. */
  private commitBehind(batch: BatchId, accelerator: AcceleratorId): void {
    const { accelerators, batches } = this;
    const { depth } = this.options;
    if (accelerators.inFlight(accelerator) >= depth)
      violated(`accelerator ${accelerator} already holds ${depth} batches`);
    let last = accelerators.waiting[accelerator]!;
    while (batches.behind[last]! >= 0) last = batches.behind[last]!;
    batches.behind[last] = batch;
    accelerators.more[accelerator] = accelerators.more[accelerator]! + 1;
  }

  /** @returns the batch behind one that is about to run, now the first of those that wait; -1: none. */
  private stepUp(batch: BatchId, accelerator: AcceleratorId): BatchId {
    const { accelerators, batches } = this;
    const following = batches.behind[batch]!;
    if (following >= 0) accelerators.more[accelerator] = accelerators.more[accelerator]! - 1;
    batches.behind[batch] = -1;
    return following;
  }

  /** A batch that waits on an accelerator ended before its turn. */
  private leaveLine(batch: BatchId, accelerator: AcceleratorId): void {
    const { accelerators, batches } = this;
    let before = accelerators.waiting[accelerator]!;
    if (before === batch) {
      accelerators.waiting[accelerator] = this.stepUp(batch, accelerator);
      return;
    }
    while (before >= 0 && batches.behind[before] !== batch) before = batches.behind[before]!;
    if (before < 0) violated(`batch ${batch} does not wait on accelerator ${accelerator}`);
    batches.behind[before] = batches.behind[batch]!;
    accelerators.more[accelerator] = accelerators.more[accelerator]! - 1;
  }

  /** What waits on the accelerator follows from when its running batch ends. */
  private planBehind(accelerator: AcceleratorId, runsUntil: number): void {
    const { accelerators, batches } = this;
    let freeAt = runsUntil;
    for (let batch = accelerators.waiting[accelerator]!; batch >= 0; batch = batches.behind[batch]!) {
      freeAt = Math.max(freeAt, batches.execAt[batch]!) + batches.execUs[batch]!;
      batches.finishAt[batch] = freeAt;
    }
    accelerators.freeAt[accelerator] = freeAt;
  }
}
