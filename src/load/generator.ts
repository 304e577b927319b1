import { readFileSync } from "node:fs";
import { DROPPED, FINISHED, LATE } from "../core/outcome.js";
import { sloUsFromMs, type TimeUs } from "../core/time.js";
import { type CollectorSnapshot, OutcomeCollector } from "../measure/collector.js";
import { Histogram, type HistogramJson } from "../measure/histogram.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { ServingError } from "../wire/serving-error.js";
import { type Answer, answerDropped, answerFailed, LOAD_CAUSES, LOAD_REASONS } from "./answer.js";
import { arrivalTimes } from "./arrivals.js";
import { ErrorTexts } from "./error-texts.js";
import { parseDataFile } from "./inputs/data-file.js";
import { makeSamples, parseLengths } from "./inputs/inputs.js";
import { randomStream } from "./inputs/random.js";
import type { LoadOptions } from "./load-options.js";
import { pace } from "./pacer.js";
import { GrpcSender } from "./senders/grpc-sender.js";
import { HttpSender } from "./senders/http-sender.js";
import type { Sender, Ticket } from "./senders/sender.js";
import { parseTarget, type Target } from "./target.js";

/** What one generator measured; plain data. */
export interface GeneratorResult {
  readonly collector: CollectorSnapshot;
  /** Actual minus intended send time of the counted requests, µs. */
  readonly lag: HistogramJson;
  /** None unless the options ask for them. */
  readonly parts: readonly Omit<PartCounts, "lag">[];
  readonly partLags: readonly HistogramJson[];
  /** All that were sent, warm-up included. */
  readonly sent: number;
  /** Due but never sent: the generator was too slow. */
  readonly unsent: number;
  /** Counted requests by status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Counted requests by the reason that the server gave. */
  readonly reasons: Readonly<Record<string, number>>;
  /** Counted requests by what was said of the failure: the first texts that differ. */
  readonly errors: Readonly<Record<string, number>>;
}

/** What a part of the counted time saw; plain data. */
export interface PartCounts {
  arrived: number;
  finished: number;
  late: number;
  /** Actual minus intended send time, µs. */
  readonly lag: Histogram;
}

/** Since the start of the run, and of the last second. */
export interface Progress {
  readonly sent: number;
  readonly finished: number;
  readonly bad: number;
  readonly outstanding: number;
  /** Latencies (µs) answered since the progress before. */
  readonly recent: HistogramJson;
}

/** Names of targets in reports: the model, or the whole URL where two targets share the model. */
export function targetNames(targets: readonly Target[]): string[] {
  return targets.map((target) =>
    targets.filter((other) => other.model === target.model).length > 1 ? target.url : target.model,
  );
}

export function collectorOf(options: LoadOptions, targets: readonly Target[]): OutcomeCollector {
  return new OutcomeCollector({
    models: targetNames(targets),
    warmupUs: Math.round(options.warmupS * 1e6),
    endUs: Math.round(options.durationS * 1e6),
    accelerators: 0,
    reasons: LOAD_REASONS,
    causes: LOAD_CAUSES,
  });
}

/** After the last moment due, sending goes on this long to work off a backlog; what is left then was never sent. */
export const BACKLOG_US = 2_000_000;
/** Names counted apart; the rest are "other": a server may put anything in a reason. */
const NAMES_MAX = 64;
const OUTSTANDING_FULL = answerDropped("generator-outstanding-full", "not-sent");
const UNANSWERED = answerFailed("client-timeout");

/**
 * Sends one thread's part of the load and counts what comes back.
 *
 * The thread's part of an open loop is every `count`-th arrival of the one schedule all threads derive from the seed.
 */
export class Generator {
  readonly #options: LoadOptions;
  readonly #targets: readonly Target[];
  readonly #senders: readonly Sender[];
  readonly #samples: number[] = [];
  readonly #sloUs: readonly number[];
  readonly #index: number;
  readonly #count: number;
  readonly #collector: OutcomeCollector;
  readonly #lag = new Histogram();
  readonly #recent = new Histogram();
  readonly #statuses = new Map<string, number>();
  readonly #reasons = new Map<string, number>();
  readonly #errors = new ErrorTexts();
  readonly #parts: readonly PartCounts[];
  readonly #outstanding = new Set<Ticket>();
  readonly #chooseTarget: () => number;
  readonly #chooseSample: () => number;
  #startAt = 0 as TimeUs;
  #sent = 0;
  #finished = 0;
  #bad = 0;
  /** Called after each answer. */
  #onEnded: (answer: Answer) => void = () => {};

  /** @param index of this thread among `count`. @throws ServingError invalid-argument for a bad target. */
  constructor(options: LoadOptions, index: number, count: number) {
    this.#options = options;
    this.#index = index;
    this.#count = count;
    this.#targets = options.targets.map(parseTarget);
    this.#collector = collectorOf(options, this.#targets);
    const slosMs = this.#targets.map((target) => target.sloMs ?? options.sloMs);
    this.#sloUs = slosMs.map((ms) => (ms === null ? Number.POSITIVE_INFINITY : sloUsFromMs(ms)));
    this.#senders = this.#targets.map((target, number) => {
      const sloMs = slosMs[number]!;
      const { clientTimeoutMs, outstandingMax, channels, responseBytesMax, encoding } = options;
      const timeoutUs = sloMs === null ? null : sloUsFromMs(sloMs);
      const sender = { target, timeoutUs, clientTimeoutMs, outstandingMax, channels, responseBytesMax, encoding };
      const onAnswer = (ticket: Ticket, answer: Answer) => this.#end(ticket, answer);
      return target.protocol === "http" ? new HttpSender(sender, onAnswer) : new GrpcSender(sender, onAnswer);
    });
    this.#parts = Array.from({ length: partsOf(options) }, () => ({
      arrived: 0,
      finished: 0,
      late: 0,
      lag: new Histogram(),
    }));
    this.#chooseTarget = chooser(
      this.#targets.map((target) => target.share),
      randomStream(options.seed, `targets/${index}`),
    );
    this.#chooseSample = randomStream(options.seed, `samples/${index}`);
  }

  /** Asks the servers for their models and makes the inputs. @throws ServingError naming the target or option. */
  async prepare(): Promise<void> {
    const { data, lengths, shapes, ranges, samples, seed } = this.#options;
    const source = lengths === null ? null : parseLengths(lengths, (file) => readText("--lengths", file));
    for (const [number, sender] of this.#senders.entries()) {
      const metadata = await sender.metadata();
      const made =
        data === "random" || data === "zero"
          ? makeSamples(this.#targets[number]!.url, metadata, {
              data,
              shapes: new Map(Object.entries(shapes)),
              ranges: new Map(Object.entries(ranges)),
              lengths: source,
              samples,
              seed,
              target: number,
            })
          : parseDataFile(data, readText("--data", data), metadata);
      const { parameters } = this.#options;
      sender.prepare(
        made.map((each) => ({ ...each, parameters: { ...each.parameters, ...parameters } })),
        metadata,
      );
      this.#samples.push(made.length);
    }
  }

  /**
   * Sends from `startAt` (monotonic) on; ends when all that was sent is answered.
   *
   * @param signal ends sending early; what is under way is still waited for.
   */
  async run(startAt: TimeUs, signal?: AbortSignal): Promise<GeneratorResult> {
    const { mode } = this.#options;
    this.begin(startAt);
    let unsent = 0;
    if (mode.kind === "open") {
      const { durationS, seed, isSpinning } = this.#options;
      const all = arrivalTimes({ ...mode, durationS, seed });
      let turn = 0;
      const next = () => {
        for (; turn % this.#count !== this.#index; turn++) all();
        turn++;
        return all();
      };
      const giveUpUs = durationS * 1e6 + BACKLOG_US;
      const send = (intendedUs: number) => this.send(intendedUs);
      ({ unsent } = await pace({ next, startAt, giveUpUs, isSpinning, send, ...(signal ? { signal } : {}) }));
    } else {
      await this.#closedLoop(mode.concurrency, signal);
    }
    return this.finish(unsent);
  }

  /** @param startAt moment (monotonic) from which `send` counts. */
  begin(startAt: TimeUs): void {
    this.#startAt = startAt;
  }

  /** Waits until all that was sent is answered. @param unsent what was due and not sent. */
  async finish(unsent: number): Promise<GeneratorResult> {
    await this.#drain();
    return {
      collector: this.#collector.snapshot(),
      lag: this.#lag.toJSON(),
      parts: this.#parts.map(({ lag: _lag, ...counts }) => counts),
      partLags: this.#parts.map(({ lag }) => lag.toJSON()),
      sent: this.#sent,
      unsent,
      statuses: Object.fromEntries(this.#statuses),
      reasons: Object.fromEntries(this.#reasons),
      errors: this.#errors.toJSON(),
    };
  }

  progress(): Progress {
    const recent = this.#recent.toJSON();
    this.#recent.reset();
    const { size } = this.#outstanding;
    return { sent: this.#sent, finished: this.#finished, bad: this.#bad, outstanding: size, recent };
  }

  async close(): Promise<void> {
    await Promise.all(this.#senders.map((sender) => sender.close()));
  }

  #nowUs(): number {
    return monotonicNow() - this.#startAt;
  }

  /** One request, now. @param intendedUs the moment it was to be sent at, from the start. */
  send(intendedUs: number): void {
    const target = this.#chooseTarget();
    const sample = Math.floor(this.#chooseSample() * this.#samples[target]!);
    const ticket: Ticket = { target, intendedUs };
    this.#outstanding.add(ticket);
    if (this.#isCounted(ticket)) {
      const lagUs = Math.max(0, this.#nowUs() - intendedUs);
      this.#lag.record(lagUs);
      const part = this.#partOf(ticket);
      if (part !== undefined) {
        part.arrived++;
        part.lag.record(lagUs);
      }
    }
    if (this.#senders[target]!.send(sample, ticket)) this.#sent++;
    else this.#end(ticket, OUTSTANDING_FULL);
  }

  #isCounted({ intendedUs }: Ticket): boolean {
    return intendedUs >= this.#options.warmupS * 1e6 && intendedUs < this.#options.durationS * 1e6;
  }

  #partOf({ intendedUs }: Ticket): PartCounts | undefined {
    const { partS, warmupS } = this.#options;
    return partS === null ? undefined : this.#parts[Math.floor((intendedUs / 1e6 - warmupS) / partS)];
  }

  #end(ticket: Ticket, answer: Answer): void {
    if (!this.#outstanding.delete(ticket)) return; // given up on before
    const endUs = this.#nowUs();
    const { target, intendedUs } = ticket;
    const latencyUs = endUs - intendedUs;
    const isLate = answer.outcome === FINISHED && latencyUs > this.#sloUs[target]!;
    const outcome = isLate ? LATE : answer.outcome;
    this.#collector.end(target, outcome, answer.code, intendedUs, -1, endUs);
    if (outcome === FINISHED) this.#finished++;
    else this.#bad++;
    if (outcome !== DROPPED) this.#recent.record(latencyUs);
    if (this.#isCounted(ticket)) {
      addName(this.#statuses, answer.status);
      if (answer.reason !== "") addName(this.#reasons, answer.reason);
      this.#errors.add(answer.text);
      const part = this.#partOf(ticket);
      if (part !== undefined && outcome === FINISHED) part.finished++;
      if (part !== undefined && outcome === LATE) part.late++;
    }
    this.#onEnded(answer);
  }

  /** This thread's part of `concurrency` requests at a time until the duration is over. */
  #closedLoop(concurrency: number, signal?: AbortSignal): Promise<void> {
    const mine = Math.floor(concurrency / this.#count) + (this.#index < concurrency % this.#count ? 1 : 0);
    const endUs = this.#options.durationS * 1e6;
    return new Promise((resolve) => {
      let chains = mine;
      const goOn = () => {
        const nowUs = this.#nowUs();
        if (nowUs < endUs && !signal?.aborted) return this.send(Math.max(0, nowUs));
        chains--;
        if (chains === 0) resolve();
      };
      // A server that refuses at once must not turn the loop into a spin: wait 10 ms after anything but an answer.
      this.#onEnded = (answer) => {
        if (answer.outcome === FINISHED || answer.outcome === LATE) setImmediate(goOn);
        else setTimeout(goOn, 10);
      };
      const wait = Math.max(0, -this.#nowUs() / 1000);
      setTimeout(() => {
        for (let chain = 0; chain < mine; chain++) goOn();
      }, wait);
    });
  }

  /** Waits for what is under way; what the senders' own limits did not end counts as unanswered. */
  async #drain(): Promise<void> {
    this.#onEnded = () => {};
    const limitAt = monotonicNow() + (this.#options.clientTimeoutMs + 5000) * 1000;
    while (this.#outstanding.size > 0 && monotonicNow() < limitAt) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    for (const ticket of this.#outstanding) this.#end(ticket, UNANSWERED);
  }
}

/** Whole parts that the counted time has. */
function partsOf({ partS, durationS, warmupS }: LoadOptions): number {
  return partS === null ? 0 : Math.floor((durationS - warmupS) / partS + 1e-9);
}

/** Draws an index with probability proportional to its share. */
function chooser(shares: readonly number[], random: () => number): () => number {
  if (shares.length === 1) return () => 0;
  let total = 0;
  const upTo = shares.map((share) => {
    total += share;
    return total;
  });
  return () => {
    const at = random() * total;
    const index = upTo.findIndex((limit) => at < limit);
    return index === -1 ? shares.length - 1 : index;
  };
}

function addName(counts: Map<string, number>, name: string): void {
  const key = counts.has(name) || counts.size < NAMES_MAX ? name : "other";
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function readText(option: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new ServingError("invalid-argument", `${option} ${file}: cannot be read: ${(error as Error).message}`);
  }
}
