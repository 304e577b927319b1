/**
 * The one rule of all that is learnt (core/release): after any history of stalls, crashes and hopeless deadlines, an idle
 * system serves a request that can be in time again, soon. In virtual time, with the scheduler and the meters of the server.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { linearTable, ProfiledLatency } from "../../src/core/latency/latency.js";
import { DROPPED, FAIL_WORKER_CRASHED, isRefusal } from "../../src/core/outcome.js";
import { type CommandSink, Scheduler } from "../../src/core/scheduler.js";
import { LIVE_DEFAULTS, livePolicy, liveWindow } from "../../src/policies/live.js";
import { DelayMeter } from "../../src/serve/groups/delay-meter.js";

const START = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };
/** The truth, once all is well. */
const ALPHA_US = 1000;
const BETA_US = 4000;
const DELAY_US = 100;
/** Plans follow delays by steps: who waits until the last moment is a few µs late. That is not what is tested here. */
const SLIP_US = 300;

/** What becomes of a batch. */
interface World {
  readonly execTimes: number;
  readonly startDelayUs: number;
  readonly answerDelayUs: number;
  readonly crashes: boolean;
}
const WELL: World = { execTimes: 1, startDelayUs: DELAY_US, answerDelayUs: DELAY_US, crashes: false };

/** One model on some accelerators that hold one batch at a time, and the driver's part in what is learnt. */
class Rig implements CommandSink {
  at = 0;
  /** Requests that were run and in time. */
  inTime = 0;
  world = WELL;
  readonly scheduler: Scheduler;
  readonly latency: ProfiledLatency;
  private readonly meter: DelayMeter;
  private readonly key: number;
  private readonly running: { batch: number; accelerator: number; startAt: number; endAt: number; world: World }[] = [];

  constructor(
    private readonly sloUs: number,
    policy: string,
    accelerators: number,
    profileTimes: number,
    hasSlo: boolean,
  ) {
    this.scheduler = new Scheduler(livePolicy(), this, {
      network: START,
      acceleratorsMax: accelerators,
      requestsMax: 1000,
      retriesMax: 0,
      learn: true,
    });
    this.latency = new ProfiledLatency(linearTable(ALPHA_US * profileTimes, BETA_US * profileTimes, 8));
    this.meter = new DelayMeter(START, hasSlo ? sloUs - this.latency.execUs[1]! : undefined);
    this.key = this.scheduler.addQueue({
      latency: this.latency,
      sloUs,
      lengthMax: 100,
      window: liveWindow(policy, {}, hasSlo ? sloUs : null, LIVE_DEFAULTS),
    } as never);
    for (let id = 0; id < accelerators; id++) this.scheduler.join(id, 1, 0);
  }

  request(deadlineUs: number): void {
    this.scheduler.arrive(this.key, 0, this.at, this.at + deadlineUs, this.at);
  }

  /** Time passes, and what is due happens. */
  until(end: number): void {
    for (;;) {
      const first = this.running.reduce((best, each) => Math.min(best, each.endAt), Number.POSITIVE_INFINITY);
      const next = Math.min(first, Math.max(this.at, this.scheduler.nextWakeAt));
      if (next > end) break;
      this.at = next;
      if (first <= next) this.ended(this.running.findIndex(({ endAt }) => endAt === first));
      else this.scheduler.wake(this.at);
    }
    this.at = end;
  }

  private ended(index: number): void {
    const [{ batch, startAt, endAt, world }] = this.running.splice(index, 1) as [(typeof this.running)[number]];
    if (world.crashes) {
      this.scheduler.failed(batch, FAIL_WORKER_CRASHED, this.at);
      return;
    }
    this.meter.answered(world.answerDelayUs);
    this.meter.started(world.startDelayUs);
    this.scheduler.finished(batch, startAt, endAt, this.at);
    if (this.meter.look(this.at)) this.scheduler.networkChanged(this.meter.current, this.at, this.key);
  }

  dispatch(batch: number, accelerator: number, at: number): void {
    const { world } = this;
    const before = this.running.filter((each) => each.accelerator === accelerator).map(({ endAt }) => endAt);
    const startAt = Math.max(at + world.startDelayUs, ...before);
    const us = (ALPHA_US * this.scheduler.batches.size[batch]! + BETA_US) * world.execTimes;
    this.running.push({ batch, accelerator, startAt, endAt: Math.ceil(startAt + us), world });
  }

  end(request: number, outcome: number, reason: number, execStartAt: number, at: number): void {
    const { requests } = this.scheduler;
    const deadline = requests.latestEndAt[request]! + this.scheduler.delaysOf(this.key).responseUs;
    if (outcome === DROPPED && isRefusal(reason, deadline, at) && this.meter.refused(at))
      this.late.push(() => this.scheduler.networkChanged(this.meter.current, this.at, this.key));
    if (execStartAt < 0) return;
    if (at + DELAY_US <= requests.arrivalAt[request]! + this.sloUs + SLIP_US) this.inTime++;
  }
  /** What the driver says once the scheduler has returned. */
  private readonly late: (() => void)[] = [];
  settle(): void {
    for (const say of this.late.splice(0)) say();
  }
  batchEnded(): void {}
  preempt(): void {}
}

const world = fc.record({
  execTimes: fc.oneof(fc.constant(1), fc.double({ min: 0.01, max: 1000, noNaN: true })),
  startDelayUs: fc.oneof(fc.constant(100), fc.integer({ min: 0, max: 2_000_000 })),
  answerDelayUs: fc.oneof(fc.constant(100), fc.integer({ min: 0, max: 2_000_000 })),
  crashes: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
});
const history = fc.array(
  fc.record({
    world,
    requests: fc.integer({ min: 1, max: 120 }),
    gapUs: fc.integer({ min: 100, max: 200_000 }),
    deadlineUs: fc.oneof(fc.constant(30_000), fc.integer({ min: 1, max: 3_000_000 })),
  }),
  { maxLength: 4 },
);

/** Within this long, whatever was learnt: three releases (1 + 2 + 4 s), an accelerator's longest pause, and a margin. */
const AGAIN_US = 15_000_000;
const GAP_US = 30_000;

describe("what is learnt never forbids its own measurement", () => {
  it("after any history an idle system serves what can be in time, within 15 s, and then all of it", () => {
    fc.assert(
      fc.property(
        // What can be in time: planned with the start's delays and a timer's slack it takes 5.6 ms.
        fc.integer({ min: 6000, max: 30_000 }),
        fc.constantFrom("auto", "deferred", "deferred+", "eager", "timeout"),
        fc.integer({ min: 1, max: 3 }),
        fc.double({ min: 0.2, max: 4, noNaN: true }),
        fc.boolean(),
        history,
        (sloUs, policy, accelerators, profileTimes, hasSlo, phases) => {
          const rig = new Rig(sloUs, policy, accelerators, profileTimes, hasSlo);
          for (const phase of phases) {
            rig.world = phase.world;
            for (let n = 0; n < phase.requests; n++) {
              rig.request(phase.deadlineUs);
              rig.settle();
              rig.until(rig.at + phase.gapUs);
              rig.settle();
            }
          }
          // What still runs ends.
          rig.world = WELL;
          rig.until(rig.at + 30_000_000);
          rig.settle();
          const serve = (us: number): number => {
            const before = rig.inTime;
            for (const end = rig.at + us; rig.at < end; ) {
              rig.request(sloUs);
              rig.settle();
              rig.until(rig.at + GAP_US);
              rig.settle();
            }
            return rig.inTime - before;
          };
          expect(serve(AGAIN_US), "served within 15 s").toBeGreaterThan(0);
          serve(15_000_000);
          expect(serve(3_000_000), "then all of them").toBeGreaterThanOrEqual(95);
        },
      ),
      { numRuns: 120, seed: 13 },
    );
  });
});
