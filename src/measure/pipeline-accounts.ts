/**
 * Accelerator time of a pipeline's requests over all its modules: whether it was well spent is known when a request ends as a
 * whole, so until then it is kept by request and module.
 */
import type { OutcomeCollector } from "./collector.js";

const IS_OPEN = 0;
const IS_FINISHED = 1;
const IS_BAD = 2;

export class PipelineAccounts {
  private readonly collector: OutcomeCollector;
  private readonly row: number;
  private readonly firstModule: number;
  private readonly modules: number;
  /** By request and module: µs of the counted interval. */
  private spentUs: Float64Array;
  private states = new Uint8Array(64);
  private startedAt = new Float64Array(64);

  /** @param row of the pipeline in the collector. @param firstModule row of its first module. */
  constructor(collector: OutcomeCollector, row: number, firstModule: number, modules: number) {
    this.collector = collector;
    this.row = row;
    this.firstModule = firstModule;
    this.modules = modules;
    this.spentUs = new Float64Array(this.states.length * modules);
  }

  /** A request arrived. @param request a small number, free again after `closed` and the last `ran` of its own. */
  opened(request: number): void {
    if (request >= this.states.length) this.grow(request);
    this.states[request] = IS_OPEN;
    this.startedAt[request] = -1;
    this.spentUs.fill(0, request * this.modules, (request + 1) * this.modules);
  }

  /**
   * A part of it ran.
   * @param us its part of the batch's time. @param isLost the batch did not end: in vain whatever follows.
   */
  ran(request: number, module: number, us: number, isLost: boolean, startAt: number): void {
    const { collector, row, firstModule, states } = this;
    const isInvalid = isLost || states[request] === IS_BAD;
    collector.share(row, us, isInvalid);
    collector.share(firstModule + module, us, isInvalid);
    if (!isInvalid) this.spentUs[request * this.modules + module]! += us;
    if (this.startedAt[request]! < 0) this.startedAt[request] = startAt;
  }

  /** When the first of its parts began to execute; -1: none has. */
  startOf(request: number): number {
    return this.startedAt[request]!;
  }

  /** It ended as a whole. */
  closed(request: number, isFinished: boolean): void {
    this.states[request] = isFinished ? IS_FINISHED : IS_BAD;
    if (isFinished) return;
    const first = request * this.modules;
    for (let module = 0; module < this.modules; module++) {
      const us = this.spentUs[first + module]!;
      if (us === 0) continue;
      this.collector.invalidate(this.row, us);
      this.collector.invalidate(this.firstModule + module, us);
    }
  }

  private grow(request: number): void {
    const capacity = Math.max(request + 1, this.states.length * 2);
    const wider = <T extends Float64Array | Uint8Array>(old: T, length: number): T => {
      const grown = new (old.constructor as new (length: number) => T)(length);
      grown.set(old as never);
      return grown;
    };
    this.states = wider(this.states, capacity);
    this.startedAt = wider(this.startedAt, capacity);
    this.spentUs = wider(this.spentUs, capacity * this.modules);
  }
}
