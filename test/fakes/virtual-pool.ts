/** Accelerators in virtual time that take exactly as long as their models say, and nothing on the way. */
import type { AcceleratorGroupSpec, ModelSpec } from "../../src/config/model.js";
import { durationUs, timeUs } from "../../src/core/time.js";
import type { BatchTiming, PoolEvent, RunBatch, WorkerPool } from "../../src/serve/workers/worker-pool.js";
import type { VirtualClock } from "../support/virtual-clock.js";

export class VirtualPool implements WorkerPool {
  readonly groups: readonly AcceleratorGroupSpec[];
  private readonly clock: VirtualClock;
  private readonly execUs: (model: string, size: number) => number;
  /** By accelerator: when it is free. */
  private readonly freeAt: number[];
  /** Of batches that end at one moment, by accelerator: told in one tick. */
  private readonly ends = new Map<number, Map<number, () => void>>();
  private emit: (event: PoolEvent) => void = () => {};

  constructor(
    clock: VirtualClock,
    groups: readonly AcceleratorGroupSpec[],
    execUs: (model: string, size: number) => number,
  ) {
    this.clock = clock;
    this.groups = groups;
    this.execUs = execUs;
    this.freeAt = groups.flatMap(({ scales }) => scales.map(() => 0));
  }

  async start(onEvent: (event: PoolEvent) => void): Promise<void> {
    this.emit = onEvent;
    let accelerator = 0;
    for (const { name, scales } of this.groups)
      for (const scale of scales) onEvent({ kind: "joined", accelerator: accelerator++, group: name, scale });
  }

  bindTasks(): Promise<void> {
    return Promise.resolve();
  }

  trial(): Promise<never> {
    throw new Error("virtual accelerators have no real models");
  }

  run(accelerator: number, { batch, model, members, earliestStartAt }: RunBatch): void {
    const { clock } = this;
    const startedAt = Math.max(clock.now(), earliestStartAt, this.freeAt[accelerator]!);
    const finishedAt = startedAt + this.execUs(model, members.length);
    this.freeAt[accelerator] = finishedAt;
    const end = (): void =>
      this.emit({
        kind: "finished",
        accelerator,
        batch,
        startedAt: timeUs(startedAt),
        finishedAt: timeUs(finishedAt),
        inputUs: durationUs(0),
        outputUs: durationUs(0),
        // Each answer is its first input under the output's name.
        outputs: members.map((inputs) => [{ ...inputs[0]!, name: "y" }]),
      });
    const others = this.ends.get(finishedAt);
    if (others !== undefined) {
      others.set(accelerator, end);
      return;
    }
    this.ends.set(finishedAt, new Map([[accelerator, end]]));
    clock.in(finishedAt - clock.now(), () => {
      const all = [...this.ends.get(finishedAt)!].sort(([a], [b]) => a - b);
      this.ends.delete(finishedAt);
      for (const [, each] of all) each();
    });
  }

  async load(_model: ModelSpec): Promise<void> {}
  async loadBeside(_model: ModelSpec): Promise<void> {}
  async release(_model: ModelSpec): Promise<void> {}
  async unload(_name: string): Promise<void> {}
  cancel(): Promise<boolean> {
    return Promise.resolve(false);
  }
  isUp(): boolean {
    return true;
  }
  resize(): void {}
  async stop(): Promise<void> {}
  time(): Promise<BatchTiming> {
    throw new Error("models of this pool have their times in their specifications");
  }
}
