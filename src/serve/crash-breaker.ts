/**
 * Stops a model that keeps killing workers from taking everybody's capacity with it.
 *
 * closed: runs. open: after `killsMax` deaths of workers inside `windowUs` its runs are refused for `openUs`. Then one
 * batch is let through: if it ends well the breaker closes, if it kills again it opens anew. A probe of which nothing is
 * heard (its worker was ended by another model's batch before it began) is followed by another after `openUs`: without
 * that the model would be refused for ever. Time is passed in.
 */
import { after, type DurationUs, type TimeUs } from "../core/time.js";

export interface BreakerRule {
  readonly killsMax: number;
  readonly windowUs: DurationUs;
  /** Deaths of different workers within this time count as one: whoever ends all workers at once is no model. */
  readonly togetherUs: DurationUs;
  readonly openUs: DurationUs;
}

interface Kill {
  readonly at: TimeUs;
  readonly workers: Set<number>;
}

interface Record {
  kills: Kill[];
  /** Refuses until then; null while closed. */
  openUntil: TimeUs | null;
  probing: boolean;
}

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

  /** This worker (or its replacement) ended while it ran a batch of this model. True when that opened the breaker. */
  killed(model: string, worker: number, now: TimeUs): boolean {
    const record = this.records.get(model) ?? { kills: [], openUntil: null, probing: false };
    this.records.set(model, record);
    record.kills = record.kills.filter(({ at }) => at + this.rule.windowUs > now);
    const last = record.kills.at(-1);
    const isTogether = last !== undefined && now - last.at <= this.rule.togetherUs && !last.workers.has(worker);
    if (isTogether) last.workers.add(worker);
    else record.kills.push({ at: now, workers: new Set([worker]) });
    const opens = record.probing || (record.openUntil === null && record.kills.length >= this.rule.killsMax);
    if (opens) record.openUntil = after(now, this.rule.openUs);
    record.probing = false;
    return opens;
  }

  /** A batch of this model ended without harm. */
  survived(model: string): void {
    const record = this.records.get(model);
    if (record?.probing === true) this.records.delete(model);
  }

  forget(model: string): void {
    this.records.delete(model);
  }
}
