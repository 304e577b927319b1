/**
 * A deadline-aware batcher around any async function of a Node program: the server's scheduler without the server.
 * Runs in the caller's thread, with its timers (1 ms).
 */

import { formatValue } from "../config/config-error.js";
import { DEPTH } from "../core/accelerator-side.js";
import { queuedHandles } from "../core/event-rows.js";
import { violated } from "../core/invariant.js";
import { ProfiledLatency } from "../core/latency/latency.js";
import { DROP_REASONS, DROPPED, FAIL_CAUSES, FAIL_DRAINING, FAIL_INTERNAL, FAILED } from "../core/outcome.js";
import type { Policy } from "../core/policy.js";
import { Scheduler } from "../core/scheduler.js";
import type { BatchId } from "../core/tables/batch-table.js";
import { type LiveQueueSpec, livePolicy } from "../policies/live.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { ServingError } from "../wire/serving-error.js";
import { checkBatcherOptions, checkSubmitOptions } from "./batcher-options.js";
import { dropEnding, failEnding, LATE_ENDING } from "./endings.js";
import { Slots } from "./requests/slots.js";

export interface BatcherOptions<Item, Result> {
  /** Runs a batch; resolves with one result per item, in order. Called by at most `concurrency` at once. */
  readonly run: (items: Item[]) => Promise<Result[]>;
  /** How long a batch takes: alpha_ms per item and beta_ms per batch, or a table of l(1), l(2), ... in ms. Corrected as it runs. */
  readonly profile: { readonly alpha_ms: number; readonly beta_ms: number } | { readonly table_ms: readonly number[] };
  /** The promise: milliseconds from `submit` to the result. */
  readonly slo_ms: number;
  /** Largest batch, in [1, 4096]; default 32, or the table's length. */
  readonly batch_max?: number;
  /** Batches that may run at once, in [1, 1024]; default 1. */
  readonly concurrency?: number;
  /** Default auto. */
  readonly policy?: string | Policy;
  readonly policy_options?: Readonly<Record<string, unknown>>;
  /** Items waiting at once; more are refused as "queue-full". Default 10,000. */
  readonly queue_max?: number;
}

export interface SubmitOptions {
  /** Instead of slo_ms. */
  readonly timeout_ms?: number;
  /** Aborting gives the item up; the promise rejects with the code "cancelled". */
  readonly signal?: AbortSignal;
}

export interface Batcher<Item, Result> {
  /** @returns the item's result. Rejects with ConfigError (wrong options) or ServingError: deadline-exceeded, resource-exhausted, cancelled, unavailable, or internal with `run`'s error as cause. */
  submit(item: Item, options?: SubmitOptions): Promise<Result>;
  /** Refuses new items, fails what waits, and resolves when what runs has ended. */
  close(): Promise<void>;
  /** Items submitted and not ended. */
  readonly pending: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly timeoutUs: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: ServingError) => void;
  handle: number;
  isOver: boolean;
  cause: unknown;
  unlisten: () => void;
}

/** @throws ConfigError naming field, bound and value of all that is wrong with the options. */
export function createScheduler<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  return new InProcessBatcher(options);
}

class InProcessBatcher<Item, Result> implements Batcher<Item, Result> {
  private readonly options: BatcherOptions<Item, Result>;
  private readonly scheduler: Scheduler;
  private readonly key: number;
  private readonly slots: Slots<Waiting<Item, Result>>;
  private readonly queueMax: number;
  private readonly sloUs: number;
  private readonly latency: ProfiledLatency;
  private timer: NodeJS.Timeout | null = null;
  private isClosed = false;
  private running = 0;
  private lastAt = 0;
  private onQuiet: (() => void)[] = [];

  constructor(options: BatcherOptions<Item, Result>) {
    this.options = options;
    const { table, sloUs, concurrency, queueMax, window, policy } = checkBatcherOptions(options);
    this.queueMax = queueMax;
    this.sloUs = sloUs;
    this.latency = new ProfiledLatency(table);
    const inside = concurrency * (policy?.depth ?? DEPTH) * (table.length - 2);
    this.slots = new Slots(this.queueMax + inside);
    this.scheduler = new Scheduler(
      policy ?? livePolicy(),
      {
        dispatch: (batch) => this.dispatch(batch),
        end: (handle, outcome, reason) => this.ended(handle, outcome, reason),
        batchEnded: () => {},
        preempt: (batch) => violated(`batch ${batch}: a live policy does not preempt`),
      },
      {
        network: { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 },
        acceleratorsMax: concurrency,
        requestsMax: this.queueMax + 2 * inside,
        retriesMax: 1,
        learn: "sizes",
      },
    );
    const spec: LiveQueueSpec = {
      latency: this.latency,
      sloUs,
      lengthMax: this.queueMax,
      window,
    };
    this.key = this.scheduler.addQueue(spec);
    const now = this.now();
    for (let accelerator = 0; accelerator < concurrency; accelerator++) this.scheduler.join(accelerator, 1, now);
  }

  get pending(): number {
    return this.slots.used;
  }

  submit(item: Item, options: SubmitOptions = {}): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (this.isClosed) throw new ServingError("unavailable", "the scheduler is closed", { reason: "draining" });
      const { timeoutUs = this.sloUs, signal } = checkSubmitOptions(options);
      if (signal?.aborted === true)
        throw new ServingError("cancelled", "the item was cancelled", { reason: "cancelled" });
      const now = this.now();
      const waiting: Waiting<Item, Result> = {
        item,
        timeoutUs,
        resolve,
        reject,
        handle: -1,
        isOver: false,
        cause: undefined,
        unlisten: () => {},
      };
      const slot = this.slots.take(waiting);
      if (slot < 0)
        throw new ServingError("resource-exhausted", `at most ${this.queueMax} items may wait`, {
          reason: "queue-full",
        });
      if (signal !== undefined) {
        const onAbort = (): void => this.cancel(waiting);
        signal.addEventListener("abort", onAbort, { once: true });
        waiting.unlisten = () => signal.removeEventListener("abort", onAbort);
      }
      this.scheduler.arrive(this.key, slot, now, now + timeoutUs, now);
      if (!waiting.isOver && waiting.handle < 0) waiting.handle = this.scheduler.requests.lastAdded;
      this.advance();
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.scheduler.failQueued(this.key, [...queuedHandles(this.scheduler, this.key)], this.now(), FAIL_DRAINING);
    if (this.running > 0) await new Promise<void>((resolve) => this.onQuiet.push(resolve));
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  private cancel(waiting: Waiting<Item, Result>): void {
    if (waiting.isOver) return;
    this.scheduler.cancel(waiting.handle, this.now());
    this.advance();
  }

  private now(): number {
    this.lastAt = Math.max(this.lastAt, monotonicNow());
    return this.lastAt;
  }

  /** Does what is due and sets the timer for what is not. */
  private advance(): void {
    const now = this.now();
    if (this.scheduler.nextWakeAt <= now) this.scheduler.wake(now);
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    const dueAt = this.scheduler.nextWakeAt;
    if (!Number.isFinite(dueAt)) return;
    this.timer = setTimeout(() => this.advance(), Math.max(0, Math.ceil((dueAt - now) / 1000)));
  }

  private dispatch(batch: BatchId): void {
    const { batches, requests } = this.scheduler;
    const members: Waiting<Item, Result>[] = [];
    for (let handle = batches.first[batch]!; handle >= 0; handle = requests.next[handle]!)
      members.push(this.slots.get(requests.tag[handle]!)!);
    this.running++;
    // Not within the scheduler's call: `run` is the caller's code and may submit.
    queueMicrotask(() => void this.execute(batch, members));
  }

  private async execute(batch: BatchId, members: readonly Waiting<Item, Result>[]): Promise<void> {
    const startedAt = this.now();
    try {
      const results = await this.options.run(members.map(({ item }) => item));
      const wrong = wrongResult(results, members.length);
      if (wrong !== null) throw new WrongResult(wrong);
      for (let index = 0; index < members.length; index++) this.settle(members[index]!, results[index]!);
      const endedAt = this.now();
      this.scheduler.finished(batch, startedAt, Math.max(startedAt + 1, endedAt), Math.max(startedAt + 1, endedAt));
      this.lastAt = Math.max(this.lastAt, startedAt + 1);
    } catch (cause) {
      for (const member of members) member.cause = cause;
      // Tried again one by one, so that one bad item fails alone; a function that answers wrongly is no item's fault.
      const isTriedAgain = members.length > 1 && !(cause instanceof WrongResult);
      this.scheduler.failed(batch, isTriedAgain ? FAIL_CAUSES.indexOf("model-error") : FAIL_INTERNAL, this.now());
    }
    this.running--;
    this.advance();
    if (this.running === 0) for (const resolve of this.onQuiet.splice(0)) resolve();
  }

  private settle(waiting: Waiting<Item, Result>, result: Result): void {
    if (waiting.isOver) return;
    waiting.isOver = true;
    waiting.unlisten();
    waiting.resolve(result);
  }

  private ended(handle: number, outcome: number, reason: number): void {
    const slot = this.scheduler.requests.tag[handle]!;
    const waiting = this.slots.get(slot)!;
    this.slots.release(slot);
    if (waiting.isOver) return;
    waiting.isOver = true;
    waiting.unlisten();
    const ending = outcome === DROPPED ? dropEnding(reason) : outcome === FAILED ? failEnding(reason) : LATE_ENDING;
    const name = outcome === DROPPED ? DROP_REASONS[reason]! : outcome === FAILED ? FAIL_CAUSES[reason]! : "late";
    const isByRun = outcome === FAILED && waiting.cause !== undefined;
    const { timeoutUs } = waiting;
    const text =
      ending.code === "deadline-exceeded"
        ? `${ending.text} (deadline ${timeoutUs} us, an item alone takes ${Math.round(this.latency.execUs[1]!)} us)`
        : ending.text;
    waiting.reject(
      new ServingError(ending.code, isByRun ? failureOf(waiting.cause) : text, {
        reason: name,
        deadlineUs: timeoutUs,
        ...(waiting.cause === undefined ? {} : { cause: waiting.cause }),
      }),
    );
  }
}

/** `run` kept its promise, and resolved with what no item can be given. */
class WrongResult extends TypeError {
  override readonly name = "WrongResult";
}

function wrongResult(results: unknown, count: number): string | null {
  const wanted = `run must resolve with an array of ${count} results`;
  if (!Array.isArray(results))
    return `${wanted}; resolved with ${results === undefined ? "nothing" : formatValue(results)}`;
  return results.length === count ? null : `${wanted}; resolved with ${results.length}`;
}

function failureOf(cause: unknown): string {
  if (cause instanceof WrongResult) return cause.message;
  return `run failed: ${cause instanceof Error ? cause.message : String(cause)}`;
}
