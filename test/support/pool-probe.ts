/** A pool with its event log: hands out batch numbers, settles one promise per batch, and checks the pool's promises. */

import type { AcceleratorGroupSpec } from "../../src/config/model.js";
import { durationUs, type TimeUs } from "../../src/core/time.js";
import { ProcessPool, type ProcessPoolOptions } from "../../src/serve/workers/process-pool.js";
import type { PoolEvent, RunBatch } from "../../src/serve/workers/worker-pool.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";

export type Ended = Extract<PoolEvent, { kind: "finished" | "failed" }>;

export class PoolProbe {
  readonly events: PoolEvent[] = [];
  readonly logs: string[] = [];
  readonly pool: ProcessPool;
  private nextBatch = 1;
  /** What the pool promised and did not keep; empty at the end of every test. */
  readonly violations: string[] = [];
  private readonly open = new Map<number, { accelerator: number; settle: (event: Ended) => void }>();
  private readonly joined = new Set<number>();
  private readonly draining = new Set<number>();
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
      const open = this.open.get(event.batch);
      if (open === undefined) this.violations.push(`batch ${event.batch} ended twice or was never sent`);
      else if (open.accelerator !== event.accelerator) this.violations.push(`batch ${event.batch} ended elsewhere`);
      this.open.delete(event.batch);
      open?.settle(event);
    }
    this.check(event);
    const due = this.watchers.filter((watcher) => watcher.test(event));
    this.watchers = this.watchers.filter((watcher) => !due.includes(watcher));
    for (const watcher of due) watcher.resolve(event);
  }

  private check(event: PoolEvent): void {
    if (event.kind === "confined") return;
    const { kind, accelerator } = event;
    if (kind === "joined") {
      if (this.joined.has(accelerator)) this.violations.push(`accelerator ${accelerator} joined twice`);
      this.joined.add(accelerator);
      this.draining.delete(accelerator);
    } else if (kind === "draining") {
      if (!this.joined.delete(accelerator)) this.violations.push(`accelerator ${accelerator} drains and was not there`);
      this.draining.add(accelerator);
    } else if (kind === "left") {
      if (!this.joined.delete(accelerator) && !this.draining.delete(accelerator))
        this.violations.push(`accelerator ${accelerator} left without having joined`);
      for (const [batch, open] of this.open)
        if (open.accelerator === accelerator)
          this.violations.push(`accelerator ${accelerator} left before batch ${batch} was settled`);
    } else if (kind === "finished" && !this.joined.has(accelerator) && !this.draining.has(accelerator))
      this.violations.push(`batch ${event.batch} finished on accelerator ${accelerator}, which is not there`);
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
      this.open.set(batch, { accelerator, settle: resolve });
      this.pool.run(accelerator, {
        batch,
        model,
        members,
        variant: 0,
        kinds: [],
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

  /** The first event of this kind and accelerator after the first `from` events; at once when it has been. */
  event(kind: PoolEvent["kind"], accelerator: number, from = 0): Promise<PoolEvent> {
    const fits = (event: PoolEvent): boolean =>
      event.kind === kind && "accelerator" in event && event.accelerator === accelerator;
    const past = this.events.slice(from).find(fits);
    return past === undefined ? this.next(fits) : Promise.resolve(past);
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
