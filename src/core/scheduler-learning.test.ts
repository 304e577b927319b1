import { describe, expect, test } from "vitest";
import { deferred } from "../policies/registry.js";
import { stream } from "../sim/random.js";
import { violated } from "./invariant.js";
import { linearTable, ProfiledLatency } from "./latency/latency.js";
import { type CommandSink, NO_DELAYS, Scheduler } from "./scheduler.js";

/** Runs batches of one request, one at a time, each for as long as the test says. */
class Bench implements CommandSink {
  readonly scheduler = new Scheduler(deferred({ idle_dispatch: true }), this, {
    network: NO_DELAYS,
    acceleratorsMax: 2,
    requestsMax: 100,
    retriesMax: 0,
    learn: true,
  });
  readonly latencies: ProfiledLatency[] = [];
  private sent = -1;
  private at = 0;

  addModel(): number {
    const latency = new ProfiledLatency(linearTable(1000, 9000, 8));
    this.latencies.push(latency);
    return this.scheduler.addQueue({ latency, sloUs: 60_000, lengthMax: 10 });
  }

  /** @returns whether the request was executed. */
  serve(key: number, measuredUs: number, sloUs = 60_000): boolean {
    const { scheduler } = this;
    this.at += 100_000;
    this.sent = -1;
    scheduler.arrive(key, 0, this.at, this.at + sloUs, this.at);
    while (this.sent < 0 && scheduler.nextWakeAt < Number.POSITIVE_INFINITY) {
      this.at = Math.max(this.at, scheduler.nextWakeAt);
      scheduler.wake(this.at);
    }
    if (this.sent < 0) return false;
    this.at += measuredUs;
    scheduler.finished(this.sent, this.at - measuredUs, this.at, this.at);
    return true;
  }

  dispatch(batch: number): void {
    expect(this.sent).toBe(-1);
    this.sent = batch;
  }
  end(): void {}
  batchEnded(): void {}

  preempt(): void {
    violated("this policy does not preempt");
  }
}

describe("learning from measured batches", () => {
  test("drift of one model moves its curve, all sizes, and not another's", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const [m, n] = [bench.addModel(), bench.addModel()];
    for (let round = 0; round < 200; round++) {
      bench.serve(m, 13_000);
      bench.serve(n, 10_000);
    }
    const scale = bench.scheduler.accelerators.scale[0]!;
    expect(bench.latencies[0]!.execUs[1]! * scale).toBeGreaterThan(12_400);
    expect(bench.latencies[0]!.execUs[1]! * scale).toBeLessThan(13_600);
    expect(bench.latencies[1]!.execUs[1]! * scale).toBeGreaterThan(9500);
    expect(bench.latencies[1]!.execUs[1]! * scale).toBeLessThan(10_500);
    expect(bench.latencies[0]!.execUs[8]! / bench.latencies[1]!.execUs[8]!).toBeCloseTo(1.3, 1);
  });

  test("a profile that is 3 times too fast is put down to the model once another model contradicts it", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const [m, n] = [bench.addModel(), bench.addModel()];
    for (let round = 0; round < 60; round++) {
      bench.serve(m, 30_000);
      bench.serve(n, 10_000);
    }
    const scale = bench.scheduler.accelerators.scale[0]!;
    expect(bench.latencies[0]!.execUs[1]! * scale).toBeGreaterThan(27_000);
    expect(bench.latencies[0]!.execUs[1]! * scale).toBeLessThan(33_000);
    expect(bench.latencies[1]!.execUs[1]! * scale).toBeGreaterThan(9000);
    expect(bench.latencies[1]!.execUs[1]! * scale).toBeLessThan(11_000);
    expect(bench.scheduler.accelerators.isOnTrial(0)).toBe(false);
  });

  test("a slow accelerator is its own fault: the model's curve stays", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const m = bench.addModel();
    for (let round = 0; round < 20; round++) bench.serve(m, 50_000);
    expect(bench.scheduler.accelerators.measuredScale(0)).toBeCloseTo(5, 1);
    expect(bench.latencies[0]!.execUs[1]).toBe(10_000);
  });

  test("a model that crept beyond its own promise gets its profile back after a second", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const m = bench.addModel();
    // Each step is too small to be a surprise; accelerator and model share the blame.
    for (let us = 10_000; us < 90_000; us *= 1.02) bench.serve(m, Math.round(us), 1_000_000);
    let served = 0;
    for (let round = 0; round < 50; round++) if (bench.serve(m, 10_000)) served++;
    expect(served).toBeGreaterThan(30);
    expect(bench.serve(m, 10_000)).toBe(true);
  });

  test("a profile that was made too slow is found out though every request is refused by it", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const m = bench.addModel();
    let served = 0;
    // 10 ms by the profile, 4 ms in truth.
    for (let round = 0; round < 40; round++) if (bench.serve(m, 4000, 7000)) served++;
    expect(served).toBeGreaterThan(20);
    // And where the profile is right, one request in a while is run in vain.
    const n = bench.addModel();
    served = 0;
    for (let round = 0; round < 100; round++) if (bench.serve(n, 10_000, 7000)) served++;
    expect(served).toBeGreaterThan(0);
    expect(served).toBeLessThanOrEqual(10);
  });

  test("requests with hopeless deadlines do not take back that a model is faster than its profile", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const m = bench.addModel();
    for (let round = 0; round < 60; round++) bench.serve(m, 4000);
    expect(bench.serve(m, 4000, 7000)).toBe(true);
    let probes = 0;
    for (let round = 0; round < 12; round++) if (bench.serve(m, 4000, 3000)) probes++;
    expect(probes).toBeLessThanOrEqual(1);
    // The profile, 10 ms, would refuse all of these, for ever.
    for (let round = 0; round < 20; round++) expect(bench.serve(m, 4000, 7000)).toBe(true);
  });

  test("an accelerator a little slower than declared is as declared again where that refuses", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const [m, n] = [bench.addModel(), bench.addModel()];
    for (let round = 0; round < 60; round++) bench.serve(round % 2 === 0 ? m : n, 14_000, 1_000_000);
    expect(bench.scheduler.accelerators.measuredScale(0)).toBeGreaterThan(1.05);
    const o = bench.addModel();
    let served = 0;
    for (let round = 0; round < 30; round++) if (bench.serve(o, 10_000, 10_300)) served++;
    expect(served).toBeGreaterThan(15);
  });

  test("delays of one queue are no other's, and go with it", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const [m, n] = [bench.addModel(), bench.addModel()];
    const slow = { controlUs: 20_000, dataUsPerRequest: 0, responseUs: 20_000 };
    bench.scheduler.networkChanged(slow, 0, m);
    expect(bench.scheduler.delaysOf(m)).toBe(slow);
    expect(bench.serve(m, 10_000, 45_000)).toBe(false);
    expect(bench.serve(n, 10_000, 45_000)).toBe(true);
    bench.scheduler.removeQueue(m);
    expect(bench.addModel()).toBe(m);
    expect(bench.serve(m, 10_000, 45_000)).toBe(true);
  });

  test("noise of one model does not take the accelerator's scale away from another model", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const [m, n] = [bench.addModel(), bench.addModel()];
    const random = stream(1, "noise");
    const planned = (key: number): number =>
      bench.latencies[key]!.execUs[1]! * bench.scheduler.accelerators.measuredScale(0);
    for (let round = 0; round < 5000; round++) bench.serve(m, Math.round(10_000 * 8 ** (random() - 0.5)), 1_000_000);
    expect(planned(n)).toBeLessThan(20_000);
    expect(planned(n)).toBeGreaterThan(5000);
    expect(bench.serve(n, 10_000)).toBe(true);
    // Times from a third to three times the profile: the plan covers more than their mean, and not the worst.
    expect(planned(m)).toBeGreaterThan(11_000);
    expect(planned(m)).toBeLessThan(60_000);
  });

  test("a model found too slow for its clients' own deadlines gets its profile back after a second", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const m = bench.addModel();
    for (let us = 10_000; us < 40_000; us *= 1.02) bench.serve(m, Math.round(us), 1_000_000);
    // Far within the model's promise of 60 ms, so only what is given up tells.
    expect(bench.serve(m, 10_000, 20_000)).toBe(false);
    let served = 0;
    for (let round = 0; round < 50; round++) if (bench.serve(m, 10_000, 20_000)) served++;
    expect(served).toBeGreaterThan(30);
  });

  test("differences of a few microseconds are the machine's, however many times the profile", () => {
    const bench = new Bench();
    bench.scheduler.join(0, 1, 0);
    const latency = new ProfiledLatency(linearTable(1, 15, 8));
    const tiny = bench.scheduler.addQueue({ latency, sloUs: 60_000, lengthMax: 10 });
    for (let round = 0; round < 100; round++) bench.serve(tiny, 100 + (round % 7) * 20);
    expect(bench.scheduler.accelerators.measuredScale(0)).toBe(1);
    expect(latency.execUs[1]).toBeGreaterThan(160);
    expect(latency.execUs[1]).toBeLessThan(240);
  });
});
