/** Sends images whose labels are known: by the clock and scored, or one after another to see how often the model is right. */
import { DROPPED, FAILED, FINISHED } from "../../core/outcome.js";
import { after, durationUs } from "../../core/time.js";
import { type Answer, LOAD_CAUSES, LOAD_REASONS } from "../../load/answer.js";
import { BACKLOG_US } from "../../load/generator.js";
import type { Sample } from "../../load/inputs/inputs.js";
import { defaultClientTimeoutMs, LOAD_DEFAULTS } from "../../load/load-options.js";
import { lagBoundMs } from "../../load/load-report.js";
import { pace } from "../../load/pacer.js";
import { START_DELAY } from "../../load/run-load.js";
import { HttpSender } from "../../load/senders/http-sender.js";
import type { AnswerBody, Ticket } from "../../load/senders/sender.js";
import { parseTarget } from "../../load/target.js";
import { Histogram } from "../../measure/histogram.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import type { Tensor } from "../../wire/tensors/tensor.js";
import type { RunCounts } from "../default/paired-runs.js";
import type { LabelledImages } from "../serving/elastic/labelled-images.js";
import { type Classified, classify, type Score, type ScoredQuery, scoreOf } from "./elastic-score.js";
import type { Query, QueryType } from "./elastic-workload.js";

/** The model's tensor. */
export const INPUT = "image";

/** Beside what the client counted. */
export type ElasticCounts = RunCounts & Score;

/** A request under way. */
interface Sent extends Ticket {
  readonly query: Query;
}

export interface LabelledRun {
  readonly types: readonly QueryType[];
  /** By type. */
  readonly images: readonly LabelledImages[];
  /** By type: what a query earns in expectation in time and at the best gamma. */
  readonly best: readonly number[];
  readonly queries: readonly Query[];
  /** Earlier ones are sent, and do not count. */
  readonly countedFromUs: number;
}

/** Bodies are encoded before the first is sent. */
const senderTo = (url: string, sloMs: number, onAnswer: ConstructorParameters<typeof HttpSender>[1]): HttpSender =>
  new HttpSender(
    {
      target: parseTarget(url),
      // Each body has its own.
      timeoutUs: null,
      clientTimeoutMs: defaultClientTimeoutMs(sloMs),
      outstandingMax: LOAD_DEFAULTS.outstandingMax,
      channels: 1,
      responseBytesMax: LOAD_DEFAULTS.responseBytesMax,
      encoding: "binary",
      keepsBodies: true,
    },
    onAnswer,
  );

const METADATA = { inputs: [], hasBinaryData: true };

/** Every image of a task as a query of one type. */
export const samplesOf = (images: LabelledImages, { task, sloMs, utility }: QueryType): Sample[] =>
  Array.from(images.labels, (_, index) => ({
    tensors: [imageTensor(images.pixels(index))],
    parameters: { task, utility, timeout: sloMs * 1000 },
  }));

function imageTensor(pixels: Float32Array): Tensor {
  const side = Math.sqrt(pixels.length);
  return { name: INPUT, datatype: "FP32", shape: [1, 1, side, side], data: new Uint8Array(pixels.buffer) };
}

/** Open loop. @param samples by type, then by image. */
export async function runLabelled(
  url: string,
  samples: readonly (readonly Sample[])[],
  run: LabelledRun,
): Promise<ElasticCounts> {
  const { types, images, best, queries, countedFromUs } = run;
  const lag = new Histogram();
  const scored: ScoredQuery[] = [];
  const failures = new Map<string, number>();
  const outstanding = new Set<Ticket>();
  let startAt = monotonicNow();
  const failed = (why: string): void => void failures.set(why, (failures.get(why) ?? 0) + 1);
  const onAnswer = (ticket: Ticket, answer: Answer, body: AnswerBody | null): void => {
    outstanding.delete(ticket);
    const { query, intendedUs } = ticket as Sent;
    const { type, image } = query;
    if (intendedUs < countedFromUs) return;
    const why = failureOf(answer);
    if (why !== null) {
      failed(why);
      return;
    }
    const isLate = monotonicNow() - startAt - intendedUs > types[type]!.sloMs * 1000;
    const classified = body === null ? null : classify(body);
    scored.push({
      type,
      utility: types[type]!.utility,
      best: best[type]!,
      end: answer.outcome === DROPPED ? "dropped" : answer.outcome !== FINISHED || isLate ? "late" : "in-time",
      gamma: classified?.gamma ?? null,
      isRight: classified?.found === images[type]!.labels[image],
    });
  };
  const slosMs = types.map(({ sloMs }) => sloMs);
  const sender = senderTo(url, Math.max(...slosMs), onAnswer);
  try {
    sender.prepare(samples.flat(), METADATA);
    const firsts = samples.map((_, type) => samples.slice(0, type).reduce((sum, own) => sum + own.length, 0));
    let turn = 0;
    const next = (): number => queries[turn]?.atUs ?? Number.POSITIVE_INFINITY;
    const send = (intendedUs: number): void => {
      const query = queries[turn++]!;
      const ticket: Sent = { target: 0, intendedUs, query };
      if (intendedUs >= countedFromUs) lag.record(Math.max(0, monotonicNow() - startAt - intendedUs));
      outstanding.add(ticket);
      if (sender.send(firsts[query.type]! + query.image, ticket)) return;
      outstanding.delete(ticket);
      failed("not sent: too many under way");
    };
    startAt = after(monotonicNow(), START_DELAY);
    const lastUs = queries.at(-1)?.atUs ?? 0;
    const { unsent } = await pace({
      next,
      startAt,
      giveUpUs: durationUs(lastUs + BACKLOG_US),
      isSpinning: false,
      send,
    });
    if (unsent > 0) failures.set("never sent", unsent);
    await drained(outstanding, defaultClientTimeoutMs(Math.max(...slosMs)));
    if (outstanding.size > 0) failures.set("never answered", outstanding.size);
    const score = scoreOf(scored, types.length);
    const lagUs = lag.quantile(0.99);
    const lagMs = lagUs === null ? null : lagUs / 1000;
    return { ...score, lag_ms: lagMs, void_reason: voidReason(failures, lagMs, lagBoundMs(slosMs)) };
  } finally {
    await sender.close();
  }
}

/** Neither the policy's choice nor its lateness: then the run says nothing. null: the answer is one of those. */
function failureOf({ outcome, code, text }: Answer): string | null {
  if (outcome === FAILED) return `${LOAD_CAUSES[code]}${text === "" ? "" : ` (${text.slice(0, 100)})`}`;
  if (outcome !== DROPPED) return null;
  const reason = LOAD_REASONS[code]!;
  return reason === "generator-outstanding-full" || reason === "shed" || reason === "queue-full" ? reason : null;
}

function voidReason(failures: ReadonlyMap<string, number>, lagMs: number | null, boundMs: number): string | null {
  const reasons = [...failures].map(([why, count]) => `${count} ${why}`);
  if (lagMs !== null && lagMs > boundMs)
    reasons.push(`the generator was ${lagMs.toFixed(1)} ms late (p99), above ${boundMs.toFixed(1)} ms`);
  return reasons.length === 0 ? null : reasons.join("; ");
}

async function drained(outstanding: ReadonlySet<Ticket>, limitMs: number): Promise<void> {
  const limitAt = monotonicNow() + limitMs * 1000;
  while (outstanding.size > 0 && monotonicNow() < limitAt) await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Each image once, so many at a time.
 *
 * @returns by image what it was taken for, or what was answered in place of that.
 */
export async function classifyAll(
  url: string,
  images: LabelledImages,
  type: QueryType,
  concurrency: number,
): Promise<(Classified | string)[]> {
  const found: (Classified | string)[] = [];
  const waiting = new Map<Ticket, (answered: Classified | string) => void>();
  const sender = senderTo(url, type.sloMs, (ticket, { status, text }, body) => {
    waiting.get(ticket)!(body === null ? `${status}: ${text}` : classify(body));
    waiting.delete(ticket);
  });
  try {
    sender.prepare(samplesOf(images, type), METADATA);
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < images.labels.length) {
        const index = next++;
        const ticket = { target: 0, intendedUs: 0 };
        const answered = new Promise<Classified | string>((resolve) => waiting.set(ticket, resolve));
        sender.send(index, ticket);
        found[index] = await answered;
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
  } finally {
    await sender.close();
  }
  return found;
}
