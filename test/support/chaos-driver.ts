import { linearTable, ProfiledLatency } from "../../src/core/latency/latency.js";
import {
  DROP_CANCELLED,
  DROP_EXPIRED,
  DROP_INFEASIBLE,
  DROP_PREDICTED_LATE,
  DROPPED,
  FAIL_MODEL_ERROR,
  FAIL_WORKER_CRASHED,
  FAIL_WORKER_HUNG,
  FINISHED,
  LATE,
} from "../../src/core/outcome.js";
import type { NetworkDelays } from "../../src/core/policy.js";
import { type CommandSink, Scheduler } from "../../src/core/scheduler.js";
import { DISPATCHED, QUEUED } from "../../src/core/tables/request-table.js";
import { createPolicy } from "../../src/policies/registry.js";
import { stream, type Uniform } from "../../src/sim/random.js";

export interface ChaosOptions {
  readonly policy: string;
  readonly policyOptions: Readonly<Record<string, unknown>>;
  readonly seed: number;
  readonly network: NetworkDelays;
  /** Accelerators run exactly as declared; else they slow down, and batches end early and late. */
  readonly exact: boolean;
  readonly actions: number;
  /** Moments are multiples of this many µs: a coarse grid makes many events simultaneous. Default 1. */
  readonly gridUs?: number;
  /** The policy promises that planned ends hold the deadlines of all members. */
  readonly feasible: boolean;
  /** The policy promises that nothing is planned to start after a deadline. */
  readonly punctual: boolean;
  /** The policy promises an estimate of each request that it gives up for want of time, which is why: it would be late. */
  readonly estimates: boolean;
  /** The policy moves inputs when requests arrive: who waits needs no control and data delay any more. */
  readonly sendsAhead?: boolean;
  /** Mean offered load over capacity, roughly. Default 1. */
  readonly load?: number;
}

interface Run {
  readonly batch: number;
  readonly tags: readonly number[];
  readonly deadlines: readonly number[];
  readonly earliestAt: number;
  readonly latestAt: number;
  readonly declaredUs: number;
  startAt: number;
  endAt: number;
}

interface Accelerator {
  present: boolean;
  declared: number;
  slow: number;
  running: Run | null;
  /** What was sent behind it, in order. */
  readonly waiting: Run[];
}

interface Model {
  readonly table: Float64Array;
  readonly sloUs: number;
}

const MODELS: readonly Model[] = [
  { table: linearTable(1000, 5000, 12), sloUs: 25_000 },
  { table: linearTable(500, 9000, 40), sloUs: 60_000 },
  { table: linearTable(7000, 300, 4), sloUs: 40_000 },
  { table: linearTable(2000, 2000, 1), sloUs: 9000 },
];
const SCALES = [1, 1, 1.3, 4];
const ACCELERATORS = 5;
const QUEUE_LENGTH_MAX = 60;
const REQUESTS_MAX = 150;

/**
 * Drives a scheduler directly with a random script, and plays accelerators that hold the scheduler to its protocol:
 * an assertion throws with the seed and the step. Ends with a drain, after which nothing may be left.
 */
export class ChaosDriver implements CommandSink {
  readonly scheduler: Scheduler;
  readonly counts = {
    arrived: 0,
    refused: 0,
    finished: 0,
    late: 0,
    dropped: 0,
    failed: 0,
    dispatched: 0,
    tooLate: 0,
    preempted: 0,
    rejected: 0,
  };
  private readonly options: ChaosOptions;
  private readonly random: Uniform;
  /** Batches that an accelerator may hold. */
  private readonly depth: number;
  private readonly accelerators: Accelerator[];
  /** Model of each live queue key. */
  private readonly keys = new Map<number, number>();
  /** Ends per tag; undefined = never arrived. */
  private readonly ends: number[] = [];
  private readonly toCheck = new Set<number>();
  private now = 0;
  private step = 0;
  private hash = 0x811c9dc5;

  constructor(options: ChaosOptions) {
    this.options = options;
    this.random = stream(options.seed, "chaos");
    const policy = createPolicy(options.policy, options.policyOptions);
    this.depth = policy.depth ?? 2;
    this.scheduler = new Scheduler(policy, this, {
      network: options.network,
      acceleratorsMax: ACCELERATORS,
      requestsMax: REQUESTS_MAX,
      retriesMax: 1,
      learn: !options.exact,
    });
    this.accelerators = Array.from({ length: ACCELERATORS }, () => ({
      present: false,
      declared: 1,
      slow: 1,
      running: null,
      waiting: [],
    }));
    for (let model = 0; model < 2; model++) this.addQueue(model);
    for (let id = 0; id < 3; id++) this.join(id);
  }

  /** Runs the script. @returns a digest of every command with its time. */
  run(): string {
    try {
      const { actions, load = 1 } = this.options;
      let actAt = 0;
      for (let action = 0; action < actions; ) {
        const next = Math.min(this.nextEndAt(), actAt, Math.max(this.now, this.scheduler.nextWakeAt));
        this.now = this.grid(next);
        if (this.nextEndAt() <= this.now) this.endOne();
        else if (actAt <= this.now) {
          this.act();
          action++;
          // Bursts and lulls.
          actAt =
            this.now +
            this.grid(Math.floor((-Math.log1p(-this.random()) * 900 * (this.random() < 0.1 ? 12 : 1)) / load));
        } else this.wake();
        this.settled(actAt);
      }
      this.drain();
    } catch (error) {
      const { policy, policyOptions, seed, exact, network, gridUs } = this.options;
      const setting = JSON.stringify({ policy, policyOptions, seed, exact, network, gridUs });
      throw new Error(`${setting} step ${this.step} at ${this.now}: ${(error as Error).message}`, { cause: error });
    }
    return (this.hash >>> 0).toString(16);
  }

  // The script

  private act(): void {
    this.step++;
    const { scheduler, random, now } = this;
    const dice = random();
    if (dice < 0.8) this.arrive();
    else if (dice < 0.87) this.cancel();
    else if (dice < 0.9) {
      const id = this.pick(ACCELERATORS);
      // One that is there may also be declared anew, with another scale.
      if (this.accelerators[id]!.present && random() < 0.7) {
        this.accelerators[id]!.present = false;
        scheduler.leave(id, now);
      } else this.join(id);
    } else if (dice < 0.93) this.fail(this.pick(ACCELERATORS));
    else if (dice < 0.95) this.refuse(this.pick(ACCELERATORS));
    else if (dice < 0.97) {
      if (!this.options.exact)
        this.accelerators[this.pick(ACCELERATORS)]!.slow = random() < 0.5 ? 1 : 1 + 20 * random() ** 3;
    } else if (dice < 0.985) {
      const key = this.anyKey();
      if (this.keys.size > 1 && scheduler.queueLength(key) === 0) {
        scheduler.removeQueue(key);
        this.keys.delete(key);
      }
    } else if (this.keys.size < 6) this.addQueue(this.pick(MODELS.length));
  }

  private arrive(): void {
    const { scheduler, random, now, options } = this;
    const key = this.anyKey();
    const { sloUs } = MODELS[this.keys.get(key)!]!;
    const tag = this.ends.length;
    // Mostly the model's promise; some shorter, longer, hopeless or past.
    const dice = random();
    const us = dice < 0.6 ? sloUs : dice < 0.97 ? sloUs * 2 * random() : dice < 0.99 ? sloUs * 0.05 : 0;
    const receivedAt = Math.max(0, now - Math.floor(random() * 200));
    this.ends.push(0);
    this.counts.arrived++;
    if (
      scheduler.arrive(key, tag, receivedAt, receivedAt + this.grid(Math.floor(us)) + options.network.responseUs, now)
    )
      return;
    this.check(scheduler.requests.live === REQUESTS_MAX, "a request was refused though the table had room");
    this.ends[tag] = 1;
    this.counts.refused++;
  }

  /** Any live request, queued, waiting behind a batch or running; or one that is already cancelled. */
  private cancel(): void {
    const { requests } = this.scheduler;
    const live: number[] = [];
    for (let handle = 0; handle < requests.state.length; handle++) if (requests.state[handle] !== 0) live.push(handle);
    if (live.length === 0) return;
    const handle = live[this.pick(live.length)]!;
    const tag = requests.tag[handle]!;
    this.scheduler.cancel(handle, this.now);
    this.check(this.ends[tag] === 1, `cancelled request ${tag} must have ended`);
  }

  private join(id: number): void {
    const accelerator = this.accelerators[id]!;
    accelerator.present = true;
    accelerator.declared = SCALES[this.pick(SCALES.length)]!;
    if (this.options.exact) accelerator.slow = 1;
    this.scheduler.join(id, accelerator.declared, this.now);
  }

  /** It dies with all it holds. */
  private fail(id: number): void {
    const accelerator = this.accelerators[id]!;
    const { running } = accelerator;
    if (!accelerator.present && running === null) return;
    const waiting = accelerator.waiting.splice(0).reverse();
    accelerator.present = false;
    accelerator.running = null;
    this.scheduler.leave(id, this.now);
    const cause = this.random() < 0.5 ? FAIL_WORKER_CRASHED : FAIL_WORKER_HUNG;
    for (const { batch } of waiting) this.scheduler.failed(batch, cause, this.now);
    if (running !== null) this.scheduler.failed(running.batch, cause, this.now);
  }

  /** The model refuses the running batch; the accelerator lives. */
  private refuse(id: number): void {
    const accelerator = this.accelerators[id]!;
    const { running } = accelerator;
    if (running === null) return;
    this.following(accelerator);
    this.scheduler.failed(running.batch, FAIL_MODEL_ERROR, this.now);
    this.refuseLate(accelerator);
  }

  private addQueue(model: number): void {
    const { table, sloUs } = MODELS[model]!;
    const key = this.scheduler.addQueue({ latency: new ProfiledLatency(table), sloUs, lengthMax: QUEUE_LENGTH_MAX });
    this.check(!this.keys.has(key), `queue key ${key} was given out twice`);
    this.keys.set(key, model);
  }

  // Accelerators

  private nextEndAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { running } of this.accelerators) if (running !== null) next = Math.min(next, running.endAt);
    return next;
  }

  private endOne(): void {
    const accelerator = this.accelerators.find(({ running }) => running !== null && running.endAt <= this.now)!;
    const { batch, startAt, endAt } = accelerator.running!;
    if (this.options.exact && (this.options.gridUs ?? 1) === 1) {
      const planned = this.scheduler.batches.finishAt[batch]!;
      this.check(planned === endAt, `batch ${batch} was planned to end at ${planned}, ended at ${endAt}`);
    }
    this.following(accelerator);
    this.scheduler.finished(batch, startAt, endAt, this.now);
    this.refuseLate(accelerator);
  }

  /** What begins too late by its own bound is refused. */
  private refuseLate(accelerator: Accelerator): void {
    for (;;) {
      const { running } = accelerator;
      if (running === null || running.startAt <= running.latestAt) return;
      this.following(accelerator);
      this.counts.rejected++;
      this.scheduler.rejected(running.batch, this.now);
    }
  }

  private following(accelerator: Accelerator): void {
    accelerator.running = accelerator.waiting.shift() ?? null;
    if (accelerator.running !== null) this.start(accelerator, accelerator.running);
  }

  private start(accelerator: Accelerator, run: Run): void {
    const { exact } = this.options;
    const noise = exact ? 1 : accelerator.slow * (0.7 + 0.6 * this.random());
    run.startAt = Math.max(this.now, run.earliestAt);
    run.endAt = this.grid(run.startAt + Math.ceil(run.declaredUs * noise));
    if (exact && this.options.punctual && (this.options.gridUs ?? 1) === 1) {
      for (const deadline of run.deadlines) if (run.startAt > deadline) this.counts.tooLate++;
    }
  }

  // CommandSink

  dispatch(batch: number, id: number, at: number): void {
    const { batches, requests } = this.scheduler;
    const accelerator = this.accelerators[id]!;
    const size = batches.size[batch]!;
    const key = batches.queue[batch]!;
    this.note(1, id, size, key, at);
    this.counts.dispatched++;
    this.check(at === this.now, `dispatched at ${at}, not now`);
    this.check(accelerator.present, `accelerator ${id} was sent a batch though it is absent`);
    const held = (accelerator.running === null ? 0 : 1) + accelerator.waiting.length;
    this.check(held < this.depth, `accelerator ${id} was sent a batch beyond ${this.depth}`);
    this.check(batches.accelerator[batch] === id, `batch ${batch} names accelerator ${batches.accelerator[batch]}`);
    const model = MODELS[this.keys.get(key)!]!;
    this.check(size >= 1 && size <= model.table.length - 2, `batch size ${size}`);
    const tags: number[] = [];
    const deadlines: number[] = [];
    for (let member = batches.first[batch]!; member >= 0; member = requests.next[member]!) {
      this.check(requests.state[member] === DISPATCHED, `member in state ${requests.state[member]}`);
      this.check(requests.queue[member] === key, `a member of queue ${requests.queue[member]} in a batch of ${key}`);
      this.check(
        this.ends[requests.tag[member]!] === 0,
        `request ${requests.tag[member]} was sent though it had ended`,
      );
      tags.push(requests.tag[member]!);
      deadlines.push(requests.latestEndAt[member]!);
      this.note(2, requests.tag[member]!);
    }
    this.check(tags.length === size, `${tags.length} members linked in a batch of ${size}`);
    const earliest = Math.min(...deadlines);
    const finishAt = batches.finishAt[batch]!;
    if (this.options.feasible) {
      this.check(finishAt <= earliest, `planned end ${finishAt} is after the earliest deadline ${earliest}`);
      this.toCheck.add(key);
    }
    this.check(
      !this.options.punctual || batches.execAt[batch]! <= earliest,
      `planned start ${batches.execAt[batch]} is after deadline ${earliest}`,
    );
    const run: Run = {
      batch,
      tags,
      deadlines,
      earliestAt: batches.execAt[batch]!,
      latestAt: batches.latestAt[batch]!,
      declaredUs: Math.ceil(model.table[batches.executedSize[batch]!]! * accelerator.declared),
      startAt: 0,
      endAt: 0,
    };
    if (accelerator.running === null) {
      accelerator.running = run;
      this.start(accelerator, run);
    } else accelerator.waiting.push(run);
  }

  preempt(batch: number, id: number, at: number): void {
    const accelerator = this.accelerators[id]!;
    this.note(5, batch, id, at);
    this.check(at === this.now, `preempted at ${at}, not now`);
    this.check(accelerator.running?.batch === batch, `batch ${batch} was preempted though it does not run on ${id}`);
    this.counts.preempted++;
    this.following(accelerator);
  }

  end(request: number, outcome: number, reason: number, execStartAt: number, at: number, lateByUs: number): void {
    const { requests } = this.scheduler;
    const tag = requests.tag[request]!;
    this.note(3, tag, outcome, reason, execStartAt, at);
    this.check(this.ends[tag] === 0, `request ${tag} ended ${this.ends[tag] === undefined ? "unborn" : "twice"}`);
    this.ends[tag] = 1;
    this.check(outcome === DROPPED || lateByUs === 0, `request ${tag} was not dropped, but was estimated`);
    if (outcome === FINISHED) {
      this.counts.finished++;
      this.check(
        at <= requests.latestEndAt[request]! + (this.options.gridUs ?? 1),
        `request ${tag} finished though late`,
      );
    } else if (outcome === LATE) this.counts.late++;
    else if (outcome === DROPPED) {
      this.counts.dropped++;
      const isCancelled = reason === DROP_CANCELLED;
      const isByTime = reason === DROP_EXPIRED || reason === DROP_INFEASIBLE || reason === DROP_PREDICTED_LATE;
      const isEstimated = isByTime && this.options.estimates;
      this.check(isEstimated ? lateByUs > 0 : isByTime || lateByUs === 0, `request ${tag} was late by ${lateByUs}`);
      this.check(isCancelled || requests.state[request] === QUEUED, `request ${tag} was dropped though dispatched`);
    } else this.counts.failed++;
  }

  batchEnded(batch: number, startAt: number, endAt: number): void {
    this.note(4, batch, startAt, endAt);
  }

  // What holds between events

  private wake(): void {
    let rounds = 0;
    do {
      this.scheduler.wake(this.now);
      this.check(++rounds < 1000, "wake is asked for again and again at one moment");
    } while (this.scheduler.nextWakeAt <= this.now);
  }

  private settled(actAt: number): void {
    const { scheduler } = this;
    const isQuiet = this.nextEndAt() > this.now && actAt > this.now && scheduler.nextWakeAt > this.now;
    const isIdle = this.accelerators.some(({ present, running }) => present && running === null);
    if (isQuiet && (isIdle || this.options.punctual)) {
      for (const key of this.keys.keys()) {
        if (scheduler.queueLength(key) === 0) continue;
        this.check(Number.isFinite(scheduler.nextWakeAt), `queue ${key} holds requests and nothing has a timer`);
      }
    }
    for (const key of this.toCheck) if (this.keys.has(key)) this.checkOrder(key);
    this.toCheck.clear();
    const held = this.accelerators.reduce(
      (sum, { running, waiting }) => sum + (running === null ? 0 : 1) + waiting.length,
      0,
    );
    this.check(scheduler.batches.live === held, `${scheduler.batches.live} batches live, accelerators hold ${held}`);
    this.accelerators.forEach(({ present, running, waiting }, id) => {
      const table = scheduler.accelerators;
      this.check((table.present[id] === 1) === present, `accelerator ${id} present: ${table.present[id]}`);
      this.check(table.running[id] === (running?.batch ?? -1), `accelerator ${id} runs ${running?.batch}`);
      this.check(table.waiting[id] === (waiting[0]?.batch ?? -1), `accelerator ${id} keeps ${waiting[0]?.batch}`);
      this.check(
        table.inFlight(id) === (running === null ? 0 : 1) + waiting.length,
        `accelerator ${id} holds ${table.inFlight(id)}`,
      );
    });
  }

  /** A batch was formed just now: nobody who cannot finish even alone may still stand before others. */
  private checkOrder(key: number): void {
    const { requests, accelerators } = this.scheduler;
    const { controlUs, dataUsPerRequest } = this.options.network;
    const leadUs = this.options.sendsAhead === true ? 0 : controlUs + dataUsPerRequest;
    const aloneUs = leadUs + Math.floor(MODELS[this.keys.get(key)!]!.table[1]! * accelerators.fastestScale);
    if (!this.options.exact) return;
    for (let handle = 0; handle < requests.state.length; handle++) {
      if (requests.state[handle] !== QUEUED || requests.queue[handle] !== key || requests.retries[handle]! > 0)
        continue;
      const deadline = requests.latestEndAt[handle]!;
      this.check(deadline >= this.now + aloneUs, `request with deadline ${deadline} cannot finish and still waits`);
    }
  }

  private drain(): void {
    this.step++;
    for (let rounds = 0; ; rounds++) {
      this.check(rounds < 100_000, "the drain does not end");
      const next = Math.min(this.nextEndAt(), Math.max(this.now, this.scheduler.nextWakeAt));
      if (next === Number.POSITIVE_INFINITY) {
        if (this.scheduler.requests.live === 0) break;
        // A policy that drops nobody, and nobody left to serve: the driver says so.
        this.check(!this.accelerators.some(({ present }) => present), "requests wait though accelerators are idle");
        const handles = Array.from(this.scheduler.requests.state.keys());
        for (const key of this.keys.keys()) this.scheduler.failQueued(key, handles, this.now);
        continue;
      }
      this.now = this.grid(next);
      if (this.nextEndAt() <= this.now) this.endOne();
      else this.wake();
      this.settled(Number.POSITIVE_INFINITY);
    }
    const { scheduler, counts } = this;
    this.check(scheduler.requests.live === 0, `${scheduler.requests.live} requests are left`);
    this.check(scheduler.batches.live === 0, `${scheduler.batches.live} batches are left`);
    for (const key of this.keys.keys()) this.check(scheduler.queueLength(key) === 0, `queue ${key} is not empty`);
    this.ends.forEach((ends, tag) => {
      this.check(ends === 1, `request ${tag} never ended`);
    });
    const ended = counts.finished + counts.late + counts.dropped + counts.failed + counts.refused;
    this.check(ended === counts.arrived, `arrived ${counts.arrived}, ended ${ended}`);
    this.check(counts.tooLate === 0, `${counts.tooLate} requests began to execute after their deadline`);
  }

  // Tools

  private grid(at: number): number {
    const { gridUs = 1 } = this.options;
    return Math.ceil(at / gridUs) * gridUs;
  }

  private pick(count: number): number {
    return Math.floor(this.random() * count);
  }

  private anyKey(): number {
    return [...this.keys.keys()][this.pick(this.keys.size)]!;
  }

  private note(...numbers: number[]): void {
    for (const number of numbers)
      this.hash = Math.imul(this.hash ^ (number | 0) ^ Math.floor(number / 2 ** 32), 0x01000193);
  }

  private check(holds: boolean, message: string): asserts holds {
    if (!holds) throw new Error(message);
  }
}

export const CLOCKWORK_EQUAL_CARE = {
  schedule_ahead_ms: 0,
  slo_margin_ms: 0,
  action_window_ms: 0,
  control_delay_ms: 0,
} as const;

/** Options of each policy to be put through the contract; a policy not named here is tried with its defaults. */
export function variantsOf(
  policy: string,
): (Pick<ChaosOptions, "feasible" | "punctual" | "estimates" | "sendsAhead"> & { options: Record<string, unknown> })[] {
  const of = (options: Record<string, unknown>, feasible = true, punctual = true) => ({
    options,
    feasible,
    punctual,
    // Servers count the wait alone; Clockwork keeps earlier deadlines of its own, and gives up whom another accelerator passed;
    // Shepherd's preempted requests may find their queue removed.
    estimates: !["tfserving", "triton", "clockwork", "shepherd"].includes(policy),
  });
  switch (policy) {
    case "deferred":
      return [
        of({}),
        of({ idle_dispatch: true }),
        of({ head_drop: false }),
        of({ target: 4, timer_slack_us: 300, idle_dispatch: true }),
      ];
    case "auto":
    case "deferred+":
      return [
        of({}),
        of({ early: 3, early_per_idle: 4 }),
        of({
          target: "auto",
          early: 0,
          early_per_idle: 0,
          early_by_gap: 0,
          feedback: false,
          look_ahead: false,
          leave_when_enough: false,
          fastest_first: false,
          timer_slack_us: 300,
        }),
      ];
    case "eager":
      return [of({}), of({ drop: "window" }), of({ drop: "expired" }, false)];
    case "timeout":
      return [
        of({ timeout_fraction: 0.2 }),
        of({ timeout_ms: 1000, drop: "window" }),
        of({ timeout_ms: 3, drop: "expired" }, false),
      ];
    case "triton":
      return [
        of({}, false, false),
        of({ max_queue_delay_microseconds: 3000, preferred_batch_size: [3, 4] }, false, false),
        of({ max_queue_size: 20, default_timeout_microseconds: 20_000, timeout_action: "DELAY" }, false, false),
      ];
    case "tfserving":
      return [of({}, false, false), of({ batch_timeout_micros: 2000, max_batch_size: 8 }, false, false)];
    // Neither promise: whoever has not expired when a batch is taken goes with it, whatever it takes.
    case "clipper":
      return [
        of({}, false, false),
        of({ cap: "regression", slack_factor: 0.5, seed: 7 }, false, false),
        of({ batch_size: 3 }, false, false),
      ];
    // Neither promise: it tests the first in order of arrival alone, and stretches deadlines to what its horizon needs.
    case "clockwork":
      return [
        of({}, false, false),
        of({ schedule_ahead_ms: 60, batch_sizes: [1, 2, 4, 8, 16], first: "lowest-id" }, false, false),
        of({ ...CLOCKWORK_EQUAL_CARE }, false, false),
        of({ estimate: "last-10", batch_sizes: [1, 2, 4, 8, 16] }, false, false),
      ];
    // Inputs travel when requests arrive, so a plan needs no control or data delay.
    case "nexus":
      return [
        of({}),
        of({ plan: "static", static_batch: 4, frontends: 3, drop: "earliest" }),
        of({ plan: "epochs", epoch_s: 1, epoch_min_s: 1, frontends: 2, profile_multiplier: 1.15 }),
      ].map((variant) => ({ ...variant, sendsAhead: true }));
    case "clipper++":
    case "naive":
      return [of({}, false, false), of({ batch_size: 3 }, false, false)];
    // In order of coming, who cannot finish stands behind who can.
    case "pard":
      return [
        of({}),
        of({ priority: "hbf", dispatch: "soonest", batch_size: 5 }),
        of({ priority: "lbf", dispatch: "round-robin" }),
        of({ priority: "instant", interval_ms: 20 }),
        of({ priority: "fcfs" }, false),
      ];
    // As published whoever cannot finish still waits: that is its quirk.
    case "shepherd":
      return [
        of({}),
        of({ size_from: "latest", preemption_factor: 1.5 }),
        of({ preemption: false }),
        of({ drop: "newest" }, false),
      ];
    case "otas":
      return [
        of({}),
        of({ allocator: "frontier", states_max: 1000, beta: 0, initial_s: 0, delta_ms: 5 }),
        of({ beta: 0, initial_s: 0, epsilon: 3, eta_ms: 10, mu: 0 }),
        of({ evict: "expired" }, false),
      ];
    case "otas+":
      return [
        of({}),
        of({ dispatch: "deferred" }),
        of({ grouping: "arrival", mu: 0.25, epsilon: 3 }),
        of({ price: "none" }),
      ];
    case "pets":
    case "tome":
    case "vpt":
      return [of({ eta_ms: 5 }), of({ evict: "expired" }, false)];
    // It evicts nobody but the expired.
    case "infaas":
      return [of({}, false), of({ evict: "late" })];
    case "fixed-gamma":
    case "queue-gamma":
      return [of({}), of({ dispatch: "eager" })];
    default:
      return [of({}, false, false)];
  }
}
