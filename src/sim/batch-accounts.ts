import type { BatchId } from "../core/tables/batch-table.js";
import { ABANDONED } from "../core/tables/request-table.js";
import type { OutcomeCollector } from "../measure/collector.js";
import { System } from "../system/system.js";
import type { SimulatedGroup } from "./simulated-group.js";
import type { SimulatedPipelines } from "./simulated-pipelines.js";

/** Where the time of batches went. */
export class BatchAccounts {
  private readonly collector: OutcomeCollector;
  private readonly rows: Int32Array;
  private readonly pipelines: SimulatedPipelines | null;
  private readonly kindRows: Int32Array;
  private readonly variantRow: (model: number, variant: number) => number;
  private number = 0;

  /**
   * @param rows by model. @param kindRows by model, of its first app or task; -1: it has none.
   * @param variantRow of BatchTable.variant; -1: the model is not elastic.
   */
  constructor(
    collector: OutcomeCollector,
    rows: Int32Array,
    kindRows: Int32Array,
    pipelines: SimulatedPipelines | null,
    variantRow: (model: number, variant: number) => number,
  ) {
    this.variantRow = variantRow;
    this.collector = collector;
    this.rows = rows;
    this.kindRows = kindRows;
    this.pipelines = pipelines;
  }

  ended(batch: BatchId, startAt: number, endAt: number, group: SimulatedGroup): void {
    const { batches, requests } = group.scheduler;
    if (this.isByMembers(group.models[batches.queue[batch]!]!, group)) {
      this.byMembers(batch, startAt, endAt, false, group);
      return;
    }
    let invalid = 0;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!) {
      if (requests.latestEndAt[member]! < endAt || requests.state[member] === ABANDONED) invalid++;
    }
    this.spent(batch, startAt, endAt, invalid, group);
  }

  /** What ran of it was for nothing. */
  lost(batch: BatchId, startAt: number, at: number, group: SimulatedGroup): void {
    const { queue, size } = group.scheduler.batches;
    if (this.isByMembers(group.models[queue[batch]!]!, group)) this.byMembers(batch, startAt, at, true, group);
    else this.spent(batch, startAt, at, size[batch]!, group);
  }

  /** @param quantile of what it was expected to take, that its time is. */
  predicted(batch: BatchId, quantile: number, startAt: number, endAt: number, group: SimulatedGroup): void {
    const { execUs, queue } = group.scheduler.batches;
    const row = this.rows[group.models[queue[batch]!]!]!;
    if (row >= 0) this.collector.predicted(row, quantile, (endAt - startAt) / execUs[batch]!, startAt);
  }

  private isByMembers(model: number, { isShared }: SimulatedGroup): boolean {
    return isShared || this.kindRows[model]! >= 0 || this.pipelines?.serves(model) === true;
  }

  private spent(batch: BatchId, startAt: number, endAt: number, invalid: number, group: SimulatedGroup): void {
    const { accelerator, queue, size } = group.scheduler.batches;
    const row = this.rows[group.models[queue[batch]!]!]!;
    this.collector.batch(row, accelerator[batch]! + group.first, size[batch]!, startAt, endAt, invalid);
  }

  /** Of a batch whose members are of several accounts (apps, parts of pipelines). Whether a part's time was well spent is known when its request ends. */
  private byMembers(batch: BatchId, startAt: number, endAt: number, isLost: boolean, group: SimulatedGroup): void {
    const { collector } = this;
    const { batches, requests } = group.scheduler;
    const size = batches.size[batch]!;
    const model = group.models[batches.queue[batch]!]!;
    const row = this.rows[model]!;
    const kindRow = this.kindRows[model]!;
    const shareUs = group.countedUs(batch, startAt, endAt, collector) / size;
    const variant = this.variantRow(model, batches.variant[batch]!);
    this.number++;
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!) {
      const tag = requests.tag[member]!;
      if (System.isPart(tag)) this.pipelines!.partRan(tag, shareUs, isLost, startAt, endAt, size, this.number);
      else {
        const isInvalid = isLost || requests.latestEndAt[member]! < endAt || requests.state[member] === ABANDONED;
        collector.share(row, shareUs, isInvalid);
        collector.batchOf(row, size, startAt, this.number);
        if (variant >= 0) collector.variantOf(row, variant, startAt, this.number);
        if (kindRow < 0) continue;
        const kind = kindRow + requests.kind[member]!;
        collector.share(kind, shareUs, isInvalid);
        collector.batchOf(kind, size, startAt, this.number);
        if (variant >= 0) collector.variantOf(kind, variant, startAt, this.number);
      }
    }
  }
}
