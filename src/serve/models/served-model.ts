import type { ModelSpec } from "../../config/model.js";
import type { ModelStatistics } from "../gateway.js";
import type { AcceleratorGroup } from "../groups/accelerator-group.js";
import { DelayMeter } from "../groups/delay-meter.js";
import type { ModelCells } from "../observation/metrics.js";
import type { Apps } from "./apps.js";
import { ModelCounts } from "./model-counts.js";
import type { ModelTimes } from "./model-times.js";
import type { RunRatio } from "./run-ratio.js";
import type { TaskTable } from "./tasks/task-table.js";

/** Requests of one model that may share a batch: one queue of the scheduler. */
export interface ServedQueue {
  /** Its number in records to the scheduler. */
  readonly id: number;
  readonly key: string;
  readonly model: ServedModel;
  readonly rows: number;
  /** l(1) of this queue, and time per request in its largest batch, µs. */
  readonly aloneUs: number;
  readonly perRequestUs: number;
  /** l(b), µs; see core/latency/latency.ts. */
  readonly execUs: Float64Array;
  /** How its batches ran against that. */
  readonly ratio: RunRatio;
  /** Requests that came, and that were given up before they ran, since the autoscaler last looked. */
  arrived: number;
  dropped: number;
  /** Requests not ended, and batches on accelerators: 0 and 0 is when it may be removed. */
  live: number;
  batches: number;
  /** Time that the live ones had when they came, all of them together, µs. */
  allowedUs: number;
  /** Requests of it that are run again and have not ended; it is not removed before they have. */
  shadows: number;
  /** Sends none, because its model is confined. */
  isHeld: boolean;
  lastUsedAt: number;
}

/** A model that takes requests, with its queues and counts. */
export class ServedModel {
  readonly spec: ModelSpec;
  readonly times: ModelTimes;
  readonly group: AcceleratorGroup;
  readonly cells: ModelCells;
  readonly apps: Apps;
  /** Requests of different buckets share batches. */
  readonly areSizesTogether: boolean;
  /** Null: it is not elastic. */
  readonly tasks: TaskTable | null;
  readonly meter: DelayMeter;
  readonly queues = new Map<string, ServedQueue>();
  /** Requests not ended; those of them that wait; bytes of all of them; batches on accelerators. */
  live = 0;
  queued = 0;
  bytes = 0;
  batches = 0;
  /** Requests that are run again and have not ended. */
  shadows = 0;
  /** Takes no new requests; what it has is served. */
  isLeaving = false;
  readonly counts: ModelCounts;
  private readonly waiting: (() => void)[] = [];

  /** @param apps of all versions of its name. @param before the same model on another group, whose counts go on. */
  constructor(
    spec: ModelSpec,
    times: ModelTimes,
    group: AcceleratorGroup,
    cells: ModelCells,
    apps: Apps,
    before: ServedModel | null = null,
    areSizesTogether = false,
    tasks: TaskTable | null = null,
  ) {
    this.tasks = tasks;
    this.counts = before?.counts ?? new ModelCounts();
    this.spec = spec;
    this.times = times;
    this.group = group;
    this.cells = cells;
    this.apps = apps;
    this.areSizesTogether = areSizesTogether;
    const slackUs = spec.sloUs === null ? undefined : spec.sloUs - times.us(1, null);
    this.meter = new DelayMeter(group.network, slackUs);
  }

  get isIdle(): boolean {
    return this.live === 0 && this.batches === 0 && this.shadows === 0;
  }

  /** Resolves when `tellIdle` finds it idle. */
  becomesIdle(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /** A request or a batch of it ended. */
  tellIdle(): void {
    if (this.waiting.length === 0 || !this.isIdle) return;
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  statistics(): ModelStatistics {
    return this.counts.statistics(this.spec.name, this.spec.version);
  }
}
