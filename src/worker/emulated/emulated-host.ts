/** Up to 64 emulated accelerators in one process, on one precise timer. */

import type { ModelSpec } from "../../config/model.js";
import { emulatedExecUs } from "../../config/scenario/emulated-exec.js";
import { type DurationUs, durationUs, earlier, NEVER, type TimeUs } from "../../core/time.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { PreciseTimer } from "../../wire/clock/precise-timer.js";
import { ServingError } from "../../wire/serving-error.js";
import { decodeRun, encodeFinished, type Fault, type RunRecord } from "../../wire/worker-protocol.js";
import { rowsOf } from "../batching.js";
import type { AcceleratorHost, Hello, HostOutput, TimeRequest } from "../host.js";
import type { Timing } from "../timing.js";
import { EmulatedAccelerator, type EmulatedBatch, type EmulatedRun } from "./emulated-accelerator.js";
import { emulatedOutputs } from "./emulated-outputs.js";

export const EMULATED_PER_PROCESS_MAX = 64;

interface Work extends EmulatedBatch {
  readonly slot: number;
  readonly spec: ModelSpec;
  readonly record: RunRecord;
  readonly memberRows: readonly number[];
}

export class EmulatedHost implements AcceleratorHost {
  readonly runtime = "emulated";
  readonly provider = "emulated";
  private readonly accelerators: EmulatedAccelerator<Work>[];
  private readonly models = new Map<number, ModelSpec>();
  private readonly timer = new PreciseTimer(() => this.woken());
  private poison: number | null = null;
  private idle: (() => void)[] = [];

  constructor(
    private readonly hello: Hello,
    private readonly output: HostOutput,
  ) {
    if (hello.scales.length > EMULATED_PER_PROCESS_MAX)
      throw new ServingError(
        "invalid-argument",
        `an emulated worker hosts at most ${EMULATED_PER_PROCESS_MAX} accelerators; was ${hello.scales.length}`,
      );
    this.accelerators = hello.scales.map((scale) => new EmulatedAccelerator<Work>(scale));
  }

  start(): Promise<void> {
    return this.timer.started;
  }

  load(handle: number, model: ModelSpec): Promise<void> {
    if (model.emulated === null)
      throw new ServingError("invalid-argument", `model '${model.name}' is real and cannot run on an emulated group`);
    this.models.set(handle, model);
    return Promise.resolve();
  }

  bind(): Promise<never> {
    return this.trial();
  }

  trial(): Promise<never> {
    throw new ServingError("unimplemented", "an emulated model has no tasks");
  }

  unload(handle: number): Promise<void> {
    this.models.delete(handle);
    return Promise.resolve();
  }

  time(request: TimeRequest): Promise<Timing> {
    const spec = this.models.get(request.handle);
    if (spec === undefined) throw new ServingError("not-found", "the model is not loaded on this worker");
    const us = Math.ceil(emulatedExecUs(spec.emulated!, request.batchSize) * this.hello.scales[request.slot]!);
    return Promise.resolve({ p50Us: us, p90Us: us, p99Us: us, runs: request.runs });
  }

  run(header: Buffer, payload: Buffer): void {
    const arrivedAt = monotonicNow();
    const record = decodeRun(header, payload);
    const { slot, batch } = record;
    const accelerator = this.accelerators[slot];
    const spec = this.models.get(record.handle);
    if (accelerator === undefined || spec === undefined) {
      this.output.failed(slot, batch, new Error(`accelerator ${slot} or the model is not on this worker`));
      return;
    }
    if (this.poison !== null && record.members.some((m) => m.some((t) => t.data[0] === this.poison))) process.exit(86);
    try {
      accelerator.accept(this.workOf(record, spec, arrivedAt));
    } catch (error) {
      this.output.failed(slot, batch, error);
    }
    this.arm();
  }

  private workOf(record: RunRecord, spec: ModelSpec, arrivedAt: TimeUs): Work {
    const memberRows = record.members.map((tensors) => Math.max(1, rowsOf(spec, tensors)));
    const used = memberRows.reduce((a, b) => a + b, 0);
    const rows = spec.batchSizeFixed ?? used;
    const limit = Math.max(1, spec.batchSizeFixed ?? spec.batchSizeMax);
    if (used > limit)
      throw new ServingError("invalid-argument", `model '${spec.name}' takes at most ${limit} rows; was ${used}`);
    const execUs: DurationUs = emulatedExecUs(spec.emulated!, rows);
    const { batch, slot, earliestStartAt } = record;
    return { batch, slot, arrivedAt, earliestStartAt, execUs, spec, record, memberRows };
  }

  cancel(slot: number, batch: number): boolean {
    const cancelled = this.accelerators[slot]?.cancel(batch, monotonicNow()) ?? null;
    this.arm();
    return cancelled !== null;
  }

  fault(slot: number, fault: Fault): void {
    const accelerator = this.accelerators[slot];
    if (accelerator === undefined) throw new ServingError("not-found", `no accelerator ${slot} in this worker`);
    switch (fault.kind) {
      case "stall":
        accelerator.stall(durationUs(fault.us), monotonicNow());
        break;
      case "slow":
        accelerator.slow(fault.factor);
        break;
      case "hang":
        accelerator.hang();
        break;
      case "poison":
        this.poison = fault.byte;
        break;
      case "crash":
        process.exit(86);
    }
    this.arm();
  }

  async shutdown(): Promise<void> {
    while (this.accelerators.some((accelerator) => !accelerator.idle))
      await new Promise<void>((resolve) => this.idle.push(resolve));
    await this.timer.close();
  }

  private woken(): void {
    const now = monotonicNow();
    for (const accelerator of this.accelerators) {
      for (let run = accelerator.complete(now); run !== null; run = accelerator.complete(now)) this.finish(run);
    }
    this.arm();
    const waiters = this.idle;
    this.idle = [];
    for (const wake of waiters) wake();
  }

  private arm(): void {
    let at: TimeUs = NEVER;
    for (const accelerator of this.accelerators) at = earlier(at, accelerator.dueAt);
    this.timer.set(at);
  }

  private finish(run: EmulatedRun<Work>): void {
    const { slot, batch, record, spec, memberRows } = run.work;
    const zero = durationUs(0);
    const outputs = record.members.map((inputs, i) => emulatedOutputs(spec, inputs, memberRows[i]!, record.outputs));
    const { startedAt, finishedAt } = run;
    const frame = encodeFinished({ slot, batch, startedAt, finishedAt, inputUs: zero, outputUs: zero, outputs });
    this.output.finished(slot, batch, frame.header, frame.parts);
  }
}
