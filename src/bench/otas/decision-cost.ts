/** What does it cost `otas+` to decide who runs next, with so many waiting: grouping them, pricing, planning, linking the batch? */

import { linearTable, ProfiledLatency } from "../../core/latency/latency.js";
import { type CommandSink, NO_DELAYS, Scheduler } from "../../core/scheduler.js";
import type { BatchId } from "../../core/tables/batch-table.js";
import { PLAIN } from "../../core/tables/request-table.js";
import { median } from "../../measure/statistics.js";
import { otasPlus } from "../../policies/otas/otas.js";
import { BATCH_MAX } from "../../reproduce/otas/vision-transformer.js";
import { stream } from "../../sim/random.js";
import type { BenchResult } from "../bench-result.js";
import { digestOf } from "../digest.js";
import { ElasticProfile, NINE_GAMMAS, QUERY_TYPES } from "./elastic-profile.js";

const PROFILE = new ElasticProfile(NINE_GAMMAS);
const BATCHES = [10, 30, 100];
const DECISIONS = 100;

/** @param size Relative to 100 decisions of each. */
export function decisionCosts(size: number): BenchResult[] {
  const decisions = Math.max(4, Math.round(DECISIONS * size));
  return BATCHES.map((batches) => {
    const times: number[] = [];
    const taken: string[] = [];
    // Each on a queue of its own: what one takes is not there for the next.
    for (let seed = 0; seed < decisions; seed++) {
      const decision = decide(batches * BATCH_MAX, seed);
      times.push(decision.ms);
      taken.push(decision.taken);
    }
    const p90 = [...times].sort((a, b) => a - b)[Math.floor(0.9 * times.length)]!;
    return {
      name: `otas-decision-${batches}`,
      value: median(times),
      unit: "ms a decision",
      detail: `${batches * BATCH_MAX} requests wait, ${batches} full batches, for one of 9 gammas; p90 ${p90.toFixed(3)} ms`,
      digest: digestOf(taken),
      figures: { p90_ms: p90 },
    };
  });
}

function decide(waiting: number, seed: number): { ms: number; taken: string } {
  const random = stream(seed, `otas/decision/${waiting}`);
  const sent: BatchId[] = [];
  const sink: CommandSink = {
    dispatch: (batch) => {
      sent.push(batch);
    },
    end: () => {},
    batchEnded: () => {},
    preempt: () => {},
  };
  const options = { network: NO_DELAYS, acceleratorsMax: 1, requestsMax: waiting + 2, retriesMax: 0, learn: false };
  const scheduler = new Scheduler(otasPlus(), sink, options);
  const variants = NINE_GAMMAS.map((gamma, index) => ({
    name: String(gamma),
    gamma,
    family: 0,
    execUs: timesOf(index),
    loadUs: 0,
    runMb: 0,
  }));
  const plain = NINE_GAMMAS.indexOf(0);
  const accuracy = [0, 1, 2].map((task) =>
    PROFILE.accuracy.slice(task * NINE_GAMMAS.length, (task + 1) * NINE_GAMMAS.length),
  );
  scheduler.addQueue({
    latency: new ProfiledLatency(variants[plain]!.execUs),
    sloUs: 1_000_000,
    lengthMax: waiting + 1,
    elastic: { variants, plain, accuracy },
  });
  scheduler.join(0, 1, 0);
  // As long as all take in the middle: about half of them can be in time.
  const roomUs = (waiting / BATCH_MAX) * PROFILE.timeUs(plain, BATCH_MAX);
  for (let tag = 0; tag <= waiting; tag++) {
    const { task, utility } = QUERY_TYPES[Math.floor(random() * QUERY_TYPES.length)]!;
    scheduler.arrive(0, tag, 0, Math.floor(2e5 + random() * roomUs), 0, { ...PLAIN, kind: task, weight: utility });
    if (tag === 0) scheduler.wake(0);
  }
  const endAt = scheduler.batches.finishAt[sent[0]!]!;
  const startNs = process.hrtime.bigint();
  scheduler.finished(sent[0]!, 0, endAt, endAt);
  if (sent.length === 1) scheduler.wake(endAt);
  const ms = Number(process.hrtime.bigint() - startNs) / 1e6;
  const { size, variant } = scheduler.batches;
  return {
    ms,
    taken: sent
      .slice(1)
      .map((batch) => `${size[batch]} by ${variant[batch]}`)
      .join(),
  };
}

function timesOf(gamma: number): Float64Array {
  const table = linearTable(0, 0, BATCH_MAX);
  for (let size = 1; size <= BATCH_MAX; size++) table[size] = PROFILE.timeUs(gamma, size);
  return table;
}
