/** A pool with its event log: hands out batch numbers, settles one promise per batch, and checks the pool's promises. */

import type { AcceleratorGroupSpec } from "../../src/config/model.js";
import { durationUs, type TimeUs } from "../../src/core/time.js";
import { ProcessPool, type ProcessPoolOptions } from "../../src/serve/process-pool.js";
import type { PoolEvent, RunBatch } from "../../src/serve/worker-pool.js";
import type { Tensor } from "../../src/wire/tensor.js";

export type Ended = Extract<PoolEvent, { kind: "finished" | "failed" }>;

export class PoolProbe {
  readonly events: PoolEvent[] = [];
  readonly logs: string[] = [];
  readonly pool: ProcessPool;
  private nextBatch = 1;
  private readonly open = new Map<number, (event: Ended) => void>();
  private watchers: { test: (event: PoolEvent) => boolean; resolve: (event: PoolEvent) => void }[] = [];

  constructor(groups: readonly AcceleratorGroupSpec[], options: ProcessPoolOptions = {}) {
    this.pool = new ProcessPool(groups, {
      ...options,
      log: ({ level, message }) => this.logs.push(`${level}: ${message}`),
    });
  }

  start(): Promise<void> {
    return this.pool.start((event) => this.receive(event));
  }

  private receive(event: PoolEvent): void {
    this.events.push(event);
    if (event.kind === "finished" || event.kind === "failed") {
      const settle = this.open.get(event.batch);
      if (settle === undefined) throw new Error(`batch ${event.batch} ended twice or was never sent`);
      this.open.delete(event.batch);
      settle(event);
    }
    if (event.kind === "left" && !this.pool.groups.length) throw new Error("an accelerator of no group left");
    const due = this.watchers.filter((watcher) => watcher.test(event));
    this.watchers = this.watchers.filter((watcher) => !due.includes(watcher));
    for (const watcher of due) watcher.resolve(event);
  }

  /** Resolves with how the batch ended, whichever way. */
  run(
    accelerator: number,
    model: string,
    members: readonly (readonly Tensor[])[],
    rest: Partial<RunBatch> = {},
  ): Promise<Ended> {
    const batch = rest.batch ?? this.nextBatch++;
    return new Promise((resolve) => {
      this.open.set(batch, resolve);
      this.pool.run(accelerator, {
        batch,
        model,
        members,
        outputs: [],
        earliestStartAt: 0 as TimeUs,
        predictedUs: durationUs(100_000),
        ...rest,
      });
    });
  }

  /** The next event that fits. */
  next(test: (event: PoolEvent) => boolean): Promise<PoolEvent> {
    return new Promise((resolve) => this.watchers.push({ test, resolve }));
  }

  get inFlight(): number {
    return this.open.size;
  }
  forget(batch: number): void {
    this.open.delete(batch);
  }
  kinds(): string[] {
    return this.events.map((event) => event.kind);
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
