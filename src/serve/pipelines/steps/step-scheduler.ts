import type { PipelineSpec, StepSpec } from "../../../config/server/pipelines/served-pipeline.js";
import { DEPTH } from "../../../core/accelerator-side.js";
import { queuedHandles } from "../../../core/event-rows.js";
import { violated } from "../../../core/invariant.js";
import { measuredTable, ProfiledLatency } from "../../../core/latency/latency.js";
import {
  DROP_EXPIRED,
  DROP_REASONS,
  DROPPED,
  FAIL_DRAINING,
  FAIL_MODEL_ERROR,
  FAIL_NO_ACCELERATOR,
  FAIL_WORKER_CRASHED,
  FAIL_WORKER_HUNG,
} from "../../../core/outcome.js";
import { NO_DELAYS, Scheduler } from "../../../core/scheduler.js";
import type { BatchId } from "../../../core/tables/batch-table.js";
import { PLAIN, type RequestHandle } from "../../../core/tables/request-table.js";
import { timeUs } from "../../../core/time.js";
import { LIVE_DEFAULTS, type LiveQueueSpec, livePolicy, liveWindow } from "../../../policies/live.js";
import type { PartDue } from "../../../system/budget/part-due.js";
import type { Alarm, Clock } from "../../../wire/clock/clock.js";
import { type ErrorCode, type ErrorDetails, ServingError } from "../../../wire/serving-error.js";
import { dropEnding, type Ending, failEnding, LATE_ENDING, SERVED_CAUSES, servedCause } from "../../endings.js";
import { DeadlineTimers } from "../../requests/deadline-timers.js";
import { Slots } from "../../requests/slots.js";
import type { StepHealth } from "./step-health.js";
import type { StepLosses } from "./step-losses.js";
import type { NamedValue, StepEvent, StepPool } from "./step-pool.js";

export interface StepHandler {
  onReply(outputs: readonly NamedValue[], startedAt: number): void;
  onError(error: ServingError): void;
}

/** A run of a step, from its entry until the scheduler is done with it. */
interface Job {
  readonly step: number;
  readonly inputs: readonly NamedValue[];
  /** When its request was received. */
  readonly askedAt: number;
  readonly deadline: number;
  /** Null: it has been told. */
  handler: StepHandler | null;
  request: RequestHandle;
  /** On a thread. */
  isRunning: boolean;
  /** Its thread was ended by another run; once more, and it is not begun again. */
  wasSpared: boolean;
  failText: string;
  failCode: ErrorCode;
}

/** Policy of its queues: a step goes as soon as a thread is free, the most urgent first; who cannot be in time is given up. */
const POLICY = "eager";

/**
 * The steps of one pipeline on its threads: the core's scheduler once more, over one queue for each step and one
 * accelerator for each thread, with batches of one. So steps are ordered, dropped, timed and limited as models are.
 */
export class StepScheduler {
  private readonly steps: readonly StepSpec[];
  private readonly pool: StepPool;
  private readonly clock: Clock;
  private readonly losses: StepLosses;
  private readonly health: StepHealth;
  private readonly timeoutUs: number;
  private readonly queueMax: number;
  private readonly scheduler: Scheduler;
  /** By step. */
  private readonly latencies: readonly ProfiledLatency[];
  private readonly keys: readonly number[];
  private readonly jobs: Slots<Job>;
  private readonly timers: DeadlineTimers;
  /** By thread: what it holds, in order, and when the first of it has taken too long. */
  private readonly held: BatchId[][];
  private readonly watches: readonly Alarm[];
  private readonly alarm: Alarm;
  private isTurnComing = false;
  private isClosed = false;
  /** Between the end of a process and the first thread of the next. */
  private isGone = false;
  /** Why a thread ended last. */
  private lastEnd = "";

  constructor(
    { steps: limits }: PipelineSpec,
    steps: readonly StepSpec[],
    pool: StepPool,
    losses: StepLosses,
    health: StepHealth,
    clock: Clock,
  ) {
    this.steps = steps;
    this.pool = pool;
    this.clock = clock;
    this.losses = losses;
    this.health = health;
    this.timeoutUs = limits.timeoutUs;
    this.queueMax = limits.queueMax;
    const requestsMax = steps.length * limits.queueMax + pool.threads * DEPTH;
    this.jobs = new Slots(requestsMax);
    this.timers = new DeadlineTimers(requestsMax, clock, (slot) => this.expired(slot));
    this.scheduler = new Scheduler(
      livePolicy(),
      {
        dispatch: (batch, thread, at) => this.dispatch(batch, thread, at),
        end: (request, outcome, reason, _execStartAt, _at, lateByUs) => this.ended(request, outcome, reason, lateByUs),
        batchEnded: () => {},
        preempt: (batch) => violated(`run ${batch}: steps are not preempted`),
      },
      // What a step does wrong it would do again.
      { network: NO_DELAYS, acceleratorsMax: pool.threads, requestsMax, retriesMax: 0, learn: true },
    );
    this.latencies = steps.map(({ timeUs: us }) => {
      const latency = new ProfiledLatency(measuredTable([us ?? UNKNOWN_US]));
      // A guess of nobody's: the first run tells all.
      if (us === null) latency.hope();
      return latency;
    });
    this.keys = steps.map((_, step) => {
      const sloUs = this.timeoutUs;
      const window = liveWindow(POLICY, {}, sloUs, { ...LIVE_DEFAULTS, isolation: false });
      const spec: LiveQueueSpec = { latency: this.latencies[step]!, sloUs, lengthMax: limits.queueMax, window };
      return this.scheduler.addQueue(spec);
    });
    this.held = Array.from({ length: pool.threads }, () => []);
    this.watches = this.held.map((_, thread) => clock.alarm(() => this.hung(thread)));
    this.alarm = clock.alarm(this.takeTurn);
  }

  /** @throws ServingError naming the step that cannot be loaded. */
  start(): Promise<void> {
    return this.pool.start((event) => this.heard(event));
  }

  /** What waits fails; what runs may end. */
  drain(): void {
    const at = this.clock.now();
    for (const key of this.keys)
      this.scheduler.failQueued(key, [...queuedHandles(this.scheduler, key)], at, FAIL_DRAINING);
  }

  /** Ends the threads; what is still there fails. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.drain();
    this.lost(
      [...this.held.keys()].filter((thread) => this.held[thread]!.length > 0),
      FAIL_DRAINING,
      "",
    );
    this.drain();
    this.isClosed = true;
    this.timers.stop();
    this.alarm.clear();
    for (const watch of this.watches) watch.clear();
    await this.pool.close();
  }

  /** Runs can be begun, as far as is known. */
  get isUp(): boolean {
    return !this.isGone;
  }

  /** What a run of the step takes, as far as is known. */
  timeUs(step: number): number {
    return this.latencies[step]!.execUs[1]!;
  }

  /** Changes whenever one of those does. */
  get version(): number {
    return this.latencies.reduce((sum, { version }) => sum + version, 0);
  }

  /** @returns takes it back; then neither handler is called. */
  enter(
    step: number,
    inputs: readonly NamedValue[],
    askedAt: number,
    { dueBy, deadline, headStartUs }: PartDue,
    handler: StepHandler,
  ): () => void {
    const at = this.clock.now();
    const job: Job = {
      step,
      inputs,
      askedAt,
      deadline,
      handler,
      request: -1,
      isRunning: false,
      wasSpared: false,
      failText: "",
      failCode: "internal",
    };
    const slot = this.jobs.take(job);
    if (slot < 0) throw this.errorOf(job, dropEnding(DROP_REASONS.indexOf("queue-full")), "queue-full");
    this.timers.set(slot, deadline);
    const traits = { ...PLAIN, dueBy, headStartUs };
    if (!this.scheduler.arrive(this.keys[step]!, slot, at, deadline, at, traits))
      violated("the steps' scheduler holds as many requests as there are places");
    // Told already: its handle may be another's by now.
    if (job.handler !== null && job.request < 0) job.request = this.scheduler.requests.lastAdded;
    this.said();
    return () => {
      if (job.handler === null) return;
      job.handler = null;
      if (!job.isRunning) this.giveUp(job);
    };
  }

  /** Nobody waits for it any more. One that runs ends by itself. */
  private giveUp(job: Job): void {
    this.scheduler.cancel(job.request, this.clock.now());
    this.said();
  }

  /** The client is answered at its deadline, whatever threads do. */
  private expired(slot: number): void {
    const job = this.jobs.get(slot);
    if (job === undefined || job.handler === null) return;
    const { handler } = job;
    job.handler = null;
    if (job.isRunning) handler.onError(this.errorOf(job, LATE_ENDING, "late"));
    else if (this.scheduler.accelerators.count === 0) handler.onError(this.downError(job));
    else handler.onError(this.errorOf(job, dropEnding(DROP_EXPIRED), DROP_REASONS[DROP_EXPIRED]!));
    if (!job.isRunning) this.giveUp(job);
  }

  /** What is said in one tick is seen together: what a module hands on, and the thread that it freed. */
  private said(): void {
    if (this.isTurnComing) return;
    this.isTurnComing = true;
    queueMicrotask(this.takeTurn);
  }

  /** Does what is due and sets the alarm for what is not. */
  private readonly takeTurn = (): void => {
    this.isTurnComing = false;
    if (this.isClosed) return;
    const now = this.clock.now();
    const { scheduler } = this;
    if (scheduler.nextWakeAt <= now) scheduler.wake(now);
    const at = scheduler.nextWakeAt;
    if (Number.isFinite(at)) this.alarm.set(timeUs(Math.ceil(at)));
    else this.alarm.clear();
  };

  private dispatch(batch: BatchId, thread: number, at: number): void {
    const { batches, requests } = this.scheduler;
    const request = batches.first[batch]!;
    const job = this.jobs.get(requests.tag[request]!)!;
    job.request = request;
    job.isRunning = true;
    const held = this.held[thread]!;
    held.push(batch);
    if (held.length === 1) this.watches[thread]!.set(timeUs(at + this.timeoutUs));
    this.pool.run(thread, { run: batch, step: job.step, inputs: job.inputs });
  }

  private ended(request: RequestHandle, outcome: number, reason: number, lateByUs: number): void {
    const slot = this.scheduler.requests.tag[request]!;
    const job = this.jobs.get(slot)!;
    this.timers.clear(slot);
    this.jobs.release(slot);
    const { handler } = job;
    job.handler = null;
    if (handler === null) return;
    if (outcome === DROPPED) {
      const full = DROP_REASONS[reason] === "queue-full" ? `: must be at most ${this.queueMax} runs` : "";
      const estimateUs = lateByUs === 0 ? {} : { estimateUs: Math.ceil(job.deadline + lateByUs - job.askedAt) };
      handler.onError(this.errorOf(job, dropEnding(reason), DROP_REASONS[reason]!, full, estimateUs));
    } else if (reason === FAIL_NO_ACCELERATOR) handler.onError(this.downError(job));
    else {
      const cause = servedCause(reason, job.failCode);
      const ending = failEnding(cause);
      const code = reason === FAIL_MODEL_ERROR ? job.failCode : ending.code;
      const text = job.failText === "" ? "" : `: ${job.failText}`;
      handler.onError(this.errorOf(job, { ...ending, code }, SERVED_CAUSES[cause]!, text));
    }
  }

  private errorOf(
    { step }: Job,
    { code, text, retryAfter }: Ending,
    reason: string,
    more = "",
    estimate: Pick<ErrorDetails, "estimateUs"> = {},
    said = STEP_TEXTS[reason] ?? text,
  ): ServingError {
    return new ServingError(code, `step '${this.steps[step]!.reference}': ${said}${more}`, {
      reason,
      ...estimate,
      ...(retryAfter ? { retryAfterS: 1 } : {}),
    });
  }

  /** Its time passed while no thread was there. */
  private downError(job: Job): ServingError {
    const ending = failEnding(FAIL_WORKER_CRASHED);
    const reason = SERVED_CAUSES[FAIL_WORKER_CRASHED]!;
    return this.errorOf(
      job,
      ending,
      reason,
      `: ${this.lastEnd}`,
      {},
      "no thread of the pipeline's steps was up in time",
    );
  }

  private heard(event: StepEvent): void {
    if (this.isClosed) return;
    const { scheduler } = this;
    const at = this.clock.now();
    switch (event.kind) {
      case "up":
        this.isGone = false;
        scheduler.join(event.thread, 1, at);
        break;
      case "down":
        this.down(event);
        break;
      case "gone":
        this.isGone = true;
        this.lost(event.threads, FAIL_WORKER_CRASHED, event.message);
        if (this.health.ended(event.message)) this.failWaiting(this.health.fault);
        break;
      case "done":
        this.done(event, at);
        break;
      case "failed": {
        const { message, code } = event;
        Object.assign(this.next(event.thread, event.run), { failText: message, failCode: code });
        scheduler.failed(event.run, FAIL_MODEL_ERROR, at);
        this.health.survived();
        break;
      }
    }
    this.said();
  }

  private down({ thread, message, late }: StepEvent & { kind: "down" }): void {
    if (late === undefined) {
      this.lost([thread], FAIL_WORKER_CRASHED, message);
      return;
    }
    const step = this.steps[late]?.reference ?? "";
    const whose = step === "" ? "left behind when steps were loaded" : `left behind by an earlier run of '${step}'`;
    this.lost([thread], FAIL_WORKER_CRASHED, `${message} (${whose})`, { step });
  }

  private done({ thread, run, outputs, startedAt, finishedAt }: StepEvent & { kind: "done" }, at: number): void {
    const job = this.next(thread, run);
    const { handler } = job;
    job.handler = null;
    if (handler !== null && at > job.deadline) handler.onError(this.errorOf(job, LATE_ENDING, "late"));
    else handler?.onReply(outputs, startedAt);
    const end = Math.min(at, Math.max(finishedAt, startedAt + 1));
    this.scheduler.finished(run, Math.min(startedAt, end - 1), end, at);
    this.health.survived();
  }

  /** No thread will be there for a while. */
  private failWaiting(text: string): void {
    const { scheduler } = this;
    const at = this.clock.now();
    for (const key of this.keys) {
      const waiting = [...queuedHandles(scheduler, key)];
      for (const request of waiting) this.jobs.get(scheduler.requests.tag[request]!)!.failText = text;
      scheduler.failQueued(key, waiting, at, FAIL_WORKER_CRASHED);
    }
  }

  /** The first of what the thread holds is over. */
  private next(thread: number, run: BatchId): Job {
    const held = this.held[thread]!;
    if (held.shift() !== run) violated(`thread ${thread} ended run ${run} out of turn`);
    const watch = this.watches[thread]!;
    if (held.length > 0) watch.set(timeUs(this.clock.now() + this.timeoutUs));
    else watch.clear();
    return this.jobOf(run);
  }

  private jobOf(run: BatchId): Job {
    const { batches, requests } = this.scheduler;
    return this.jobs.get(requests.tag[batches.first[run]!]!)!;
  }

  /** What it runs takes too long. */
  private hung(thread: number): void {
    if (this.isClosed) return;
    this.pool.replace(thread);
    this.lost([thread], FAIL_WORKER_HUNG, `took more than ${this.timeoutUs / 1000} ms (steps.timeout_ms)`);
    this.said();
  }

  /**
   * Threads are gone, all before anything is given to others: what ran there failed, what waited there waits again.
   * @param other step that is at fault, not what ran there: that waits again, too, the first time.
   */
  private lost(
    threads: readonly number[],
    cause: number,
    message: string,
    other: { readonly step: string } | null = null,
  ): void {
    const { scheduler } = this;
    const at = this.clock.now();
    this.lastEnd = message;
    const held = threads.map((thread) => this.held[thread]!.splice(0));
    for (const thread of threads) {
      this.watches[thread]!.clear();
      scheduler.leave(thread, at);
    }
    for (const [running, ...waiting] of held) {
      const job = running === undefined ? null : this.jobOf(running);
      if (cause !== FAIL_DRAINING)
        this.losses.lost(cause, other?.step ?? (job === null ? "" : this.steps[job.step]!.reference), message);
      for (const run of waiting) {
        this.jobOf(run).isRunning = false;
        scheduler.failed(run, cause, at, false);
      }
      if (running === undefined || job === null) continue;
      const isSpared = other !== null && !job.wasSpared;
      job.failText = message;
      if (isSpared) Object.assign(job, { isRunning: false, wasSpared: true });
      scheduler.failed(running, cause, at, !isSpared);
    }
  }
}

/** What a step takes of which nobody said anything, until it was run. */
const UNKNOWN_US = 1000;

/** Where a step's ending reads otherwise than a model's. */
const STEP_TEXTS: Readonly<Record<string, string>> = {
  "model-error": "the step failed",
  "invalid-argument": "the step refused the request",
  "worker-hung": "the step hung, and its thread was ended",
  "worker-crashed": "the step's thread ended",
  "queue-full": "the step's queue holds its limit of runs",
};
