/**
 * Stops a model that ends workers from taking everybody's capacity with it.
 *
 * trusted -> (ends a worker) confined: one worker at a time holds its batches, until `trustBatches` of them did no harm.
 * -> (ends another, however much later inside `memoryUs`) open: its runs are refused for `openUs`, twice as long each
 * time. Then one batch is let through: if it ends well the model runs again, confined, and the next death opens at once.
 * A probe of which nothing is heard (its worker was ended by another model's batch before it began) is followed by
 * another after `openUs`: without that the model would be refused for ever. Time is passed in.
 */
import { after, type DurationUs, type TimeUs } from "../../core/time.js";

export interface BreakerRule {
  readonly killsMax: number;
  /** A death is forgotten after so long. */
  readonly memoryUs: DurationUs;
  readonly openUs: DurationUs;
  /** Batches without harm after which a model is trusted again. */
  readonly trustBatches: number;
}

interface Record {
  kills: TimeUs[];
  /** Refuses until then; null while closed. */
  openUntil: TimeUs | null;
  openings: number;
  probing: boolean;
  /** Batches without harm since the last death. */
  harmless: number;
}

const OPENINGS_DOUBLED_MAX = 4;

export class CrashBreaker {
  private readonly records = new Map<string, Record>();
  constructor(private readonly rule: BreakerRule) {}

  /** Null: run it. Otherwise the moment from which it is worth trying again. */
  refusedUntil(model: string, now: TimeUs): TimeUs | null {
    const record = this.records.get(model);
    if (record === undefined || record.openUntil === null) return null;
    if (now < record.openUntil) return record.openUntil;
    record.probing = true;
    record.openUntil = after(now, this.rule.openUs);
    return null;
  }

  /** It is refused, or one batch of it is being tried. */
  isOpen(model: string, now: TimeUs): boolean {
    return now < (this.records.get(model)?.openUntil ?? now);
  }

  isConfined(model: string): boolean {
    const record = this.records.get(model);
    return record !== undefined && record.harmless < this.rule.trustBatches;
  }

  /** A worker ended by a batch of this model. @returns for how long it is refused from now on; null: it is not. */
  killed(model: string, now: TimeUs): DurationUs | null {
    const record = this.records.get(model) ?? { kills: [], openUntil: null, openings: 0, probing: false, harmless: 0 };
    this.records.set(model, record);
    record.harmless = 0;
    record.kills = record.kills.filter((at) => at + this.rule.memoryUs > now);
    record.kills.push(now);
    const opens = record.probing || (record.openUntil === null && record.kills.length >= this.rule.killsMax);
    record.probing = false;
    if (!opens) return null;
    const openUs = (this.rule.openUs * 2 ** Math.min(record.openings, OPENINGS_DOUBLED_MAX)) as DurationUs;
    record.openings++;
    record.openUntil = after(now, openUs);
    return openUs;
  }

  /** A batch of this model ended without harm. */
  survived(model: string): void {
    const record = this.records.get(model);
    if (record === undefined) return;
    record.harmless++;
    if (!record.probing) return;
    record.probing = false;
    record.openUntil = null;
  }

  forget(model: string): void {
    this.records.delete(model);
  }
}
