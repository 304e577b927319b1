import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { linearTable } from "../core/latency/latency.js";
import { SCALE_DEFAULTS, ScaleAdvisor, type ScaleOptions, type ScaleSample } from "./advisor.js";
import { addWork, type GroupWork, workPerRequestUs } from "./work.js";

const INTERVAL_US = 10_000_000;
const options = (changes: Partial<ScaleOptions> = {}): ScaleOptions => ({ ...SCALE_DEFAULTS, ...changes });

/** An interval on `serving` accelerators, busy to `busy` of their time; a share `bad` of 10,000 requests was dropped. */
function sample(serving: number, busy: number, bad = 0, changes: Partial<ScaleSample> = {}): ScaleSample {
  const presentUs = serving * INTERVAL_US;
  const busyUs = presentUs * busy;
  const arrivedWorkUs = busyUs / (1 - bad);
  return {
    intervalUs: INTERVAL_US,
    good: Math.round(10_000 * (1 - bad)),
    bad: Math.round(10_000 * bad),
    arrivedWorkUs,
    droppedWorkUs: arrivedWorkUs * bad,
    busyUs,
    presentUs,
    queuedAccelerators: 0,
    serving,
    starting: 0,
    ...changes,
  };
}

/** Decides every interval with the same sample. @returns the advice of each decision. */
function hold(advisor: ScaleAdvisor, of: ScaleSample, decisions: number, from = 0): number[] {
  return Array.from({ length: decisions }, (_, i) => advisor.decide(of, from + (i + 1) * INTERVAL_US).advice);
}

describe("scale advisor", () => {
  it("asks for N r / (1 - r) more when nobody idles, at the target utilization (Symphony §3.5)", () => {
    const advisor = new ScaleAdvisor(options(), 24, 0);
    const advice = advisor.decide(sample(24, 1, 0.4), INTERVAL_US);
    expect(advice.demand).toBeCloseTo(24 + (24 * 0.4) / 0.6, 6);
    expect(advice).toMatchObject({ advice: 50, needed: 50, change: 26, reason: "bad-rate" });
  });

  it("gives N f back when nothing is lost, at the target utilization, after the cooldown (Symphony §3.5)", () => {
    const advisor = new ScaleAdvisor(options(), 24, 0);
    const advices = hold(advisor, sample(24, 0.5), 30);
    expect(advices.slice(0, 29)).toEqual(new Array(29).fill(24));
    expect(advices[29]).toBe(15);
  });

  it("what waits needs as many as finish it in the time that it has, whatever its model promises (a pipeline's parts have more)", () => {
    const execUs = linearTable(2000, 5000, 8);
    const queued = (allowedUs?: number): number => {
      const sums = { arrivedWorkUs: 0, droppedWorkUs: 0, queuedAccelerators: 0 };
      const counts = { execUs, sloUs: 30_000, arrived: 100, dropped: 0, waiting: 100 };
      addWork(sums, allowedUs === undefined ? counts : { ...counts, allowedUs }, INTERVAL_US, 1);
      return sums.queuedAccelerators;
    };
    const each = workPerRequestUs(execUs, 30_000, Number.NaN);
    expect(queued()).toBeCloseTo((100 * each) / 30_000, 9);
    expect(queued(300_000)).toBeCloseTo((100 * each) / 300_000, 9);
  });

  it("reaches the needed number in one decision when the queue goes from 1 to 1,000 (D10)", () => {
    // 1,000 requests of 12.5 ms in full batches, to be done within 500 ms: 25 accelerators at full use.
    const execUs = linearTable(10_000, 40_000, 16);
    const work = (waiting: number): GroupWork => {
      const sums = { arrivedWorkUs: 0, droppedWorkUs: 0, queuedAccelerators: 0 };
      addWork(sums, { execUs, sloUs: 500_000, arrived: waiting, dropped: 0, waiting }, INTERVAL_US, 1);
      return sums;
    };
    const advisor = new ScaleAdvisor(options(), 1, 0);
    const quiet = sample(1, 0.1, 0, { good: 1, ...work(1) });
    expect(advisor.decide(quiet, INTERVAL_US).advice).toBe(1);
    const burst = advisor.decide(sample(1, 0.1, 0, { good: 0, ...work(1000) }), 2 * INTERVAL_US);
    const needed = Math.ceil((1000 * workPerRequestUs(execUs, 500_000, Number.NaN)) / 500_000 / 0.8);
    expect(needed).toBe(32);
    expect(burst).toMatchObject({ advice: needed, reason: "queued" });
    // While they start, the same need is found and not added to.
    for (let i = 3; i < 10; i++) {
      const again = advisor.decide(sample(1, 1, 0, { good: 0, starting: 31, ...work(1000) }), i * INTERVAL_US);
      expect(again.advice).toBe(needed);
    }
  });

  it("does not ask for more than 512 accelerators at 1 % bad, nor for ever at 1.5 %", () => {
    const atOne = new ScaleAdvisor(options(), 512, 0);
    expect(hold(atOne, sample(512, 0.75, 0.01), 1000)).toEqual(new Array(1000).fill(512));
    const above = new ScaleAdvisor(options({ downCooldownUs: 60_000_000 }), 512, 0);
    // However many there are, 390 of them are busy and 1.5 % are lost.
    let now = 512;
    const reasons = new Set<string>();
    let most = 0;
    for (let i = 1; i <= 1000; i++) {
      const advice = above.decide(sample(now, 390 / now, 0.015), i * INTERVAL_US);
      now = advice.advice;
      most = Math.max(most, now);
      reasons.add(advice.reason);
    }
    // Three probes of at most 9, given back, and the same again when ten minutes have passed.
    expect(most).toBeLessThanOrEqual(512 + 3 * 9);
    expect(reasons).toContain("not-capacity");
  });

  it("asks for no more than what the arrivals cost when accelerators are busy with small batches", () => {
    const advisor = new ScaleAdvisor(options({ downCooldownUs: 10_000_000 }), 8, 0);
    // 8 accelerators, 70 % busy, with work that takes 1 in full batches.
    const idleDispatch = sample(8, 0.7, 0, { arrivedWorkUs: INTERVAL_US });
    expect(hold(advisor, idleDispatch, 5).at(-1)).toBe(2);
  });

  it("learns what work really costs when accelerators are pressed, within a factor of 4", () => {
    const slow = new ScaleAdvisor(options(), 4, 0);
    // The profile says 2 accelerators of work, half of it was lost, and 4 are busy with the other half: it costs 8.
    const advice = slow.decide(
      sample(4, 1, 0.5, { arrivedWorkUs: 2 * INTERVAL_US, droppedWorkUs: INTERVAL_US }),
      INTERVAL_US,
    );
    expect(advice.demand).toBeCloseTo(8, 6);
    const stuck = new ScaleAdvisor(options(), 4, 0);
    // One batch of a hundred ended: a transient, not a cost of 100.
    const transient = sample(4, 1, 0.99, { arrivedWorkUs: 4 * INTERVAL_US, droppedWorkUs: 3.96 * INTERVAL_US });
    expect(stuck.decide(transient, INTERVAL_US).demand).toBeLessThanOrEqual(16);
  });

  it("keeps what helped: at the same load it does not go back to the size that lost requests", () => {
    const advisor = new ScaleAdvisor(options({ downCooldownUs: 30_000_000 }), 4, 0);
    let at = 0;
    const step = (serving: number, bad: number) => {
      at += INTERVAL_US;
      return advisor.decide(sample(serving, 2 / serving, bad), at);
    };
    let serving = 4;
    const sizes: number[] = [];
    // Bursts: 3 accelerators lose 3 %, 4 none.
    for (let i = 0; i < 55; i++) {
      serving = step(serving, serving < 4 ? 0.03 : 0).advice;
      if (sizes.at(-1) !== serving) sizes.push(serving);
    }
    expect(sizes).toEqual([4, 3, 4]);
  });

  it("shrinks when the load is gone, also right after losses that no probe could help", () => {
    const advisor = new ScaleAdvisor(options({ max: 4, downCooldownUs: 30_000_000 }), 4, 0);
    // At its bound, with losses and idle time.
    expect(hold(advisor, sample(4, 0.5, 0.3), 8).at(-1)).toBe(4);
    const nothing = sample(4, 0, 0, { good: 0 });
    expect(hold(advisor, nothing, 8, 8 * INTERVAL_US).at(-1)).toBe(1);
  });

  it("waits for the cooldown upwards where one is given", () => {
    const advisor = new ScaleAdvisor(options({ upCooldownUs: 60_000_000 }), 4, 0);
    expect(advisor.decide(sample(4, 1, 0.3), INTERVAL_US).change).toBe(4);
    const second = advisor.decide(sample(8, 1, 0.3), 2 * INTERVAL_US);
    expect(second).toMatchObject({ change: 0, reason: "cooldown" });
    expect(advisor.decide(sample(8, 1, 0.3), 7 * INTERVAL_US).change).toBe(7);
  });

  it("keeps the bounds, gives one sign at a time, and the same samples give the same advice", () => {
    const samples = fc.array(
      fc.record({
        intervalUs: fc.integer({ min: 1, max: 60_000_000 }),
        good: fc.nat(100_000),
        bad: fc.nat(100_000),
        arrivedWorkUs: fc.double({ min: 0, max: 1e12, noNaN: true }),
        droppedWorkUs: fc.double({ min: 0, max: 1e12, noNaN: true }),
        busyUs: fc.double({ min: 0, max: 1e12, noNaN: true }),
        presentUs: fc.double({ min: 0, max: 1e12, noNaN: true }),
        queuedAccelerators: fc.double({ min: 0, max: 1e6, noNaN: true }),
        serving: fc.nat(512),
        starting: fc.nat(512),
      }),
      { minLength: 1, maxLength: 60 },
    );
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 8, max: 600 }),
        fc.nat(700),
        samples,
        (min, max, initial, all) => {
          const set = options({ min, max, downCooldownUs: 20_000_000 });
          const advisors = [new ScaleAdvisor(set, initial, 0), new ScaleAdvisor(set, initial, 0)];
          let at = 0;
          let before = advisors[0]!.advice;
          for (const each of all) {
            at += each.intervalUs;
            const [one, other] = advisors.map((advisor) => advisor.decide(each, at));
            expect(one).toEqual(other);
            expect(one!.advice).toBeGreaterThanOrEqual(min);
            expect(one!.advice).toBeLessThanOrEqual(max);
            expect(one!.change).toBe(one!.advice - before);
            if (one!.change > 0)
              expect(one!.needed >= one!.advice || one!.reason === "probe" || one!.reason === "bad-rate").toBe(true);
            if (one!.change < 0) expect(one!.needed).toBeLessThanOrEqual(one!.advice);
            before = one!.advice;
          }
        },
      ),
      { seed: 20_261_128, numRuns: 200 },
    );
  });
});

describe("work per request", () => {
  const execUs = linearTable(10_000, 40_000, 16);
  it("is that of the target batch: alone at a rate that fills none, l(b)/b of a large one at a high rate", () => {
    expect(workPerRequestUs(execUs, 300_000, 1e-7)).toBe(50_000);
    expect(workPerRequestUs(execUs, 300_000, 1e-3)).toBeLessThan(13_500);
    // No rate: the largest batch within half the SLO, l(11) = 150 ms.
    expect(workPerRequestUs(execUs, 300_000, Number.NaN)).toBeCloseTo(150_000 / 11, 6);
  });
});
