import { describe, expect, it, test } from "vitest";
import { expandScenario, scenarioFrom } from "../config/scenario/scenario.js";
import { sourceOf } from "../config/source.js";
import { measuredTable } from "../core/latency/latency.js";
import { stream } from "../sim/random.js";
import { simulate } from "../sim/simulate.js";
import { clairvoyantPeakRps, fluidBoundRps } from "./bounds.js";
import { type ClairvoyantOptions, clairvoyantBound } from "./clairvoyant.js";
import { knownArrivals } from "./known-arrivals.js";

interface Tiny {
  readonly arrivalAt: number[];
  readonly timesUs: number[];
  readonly sloUs: number;
  readonly accelerators: number;
}

/** A tiny case of the seed: up to 6 requests, batches of up to 3, one or two accelerators. */
function tinyCase(seed: number): Tiny {
  const random = stream(seed, "clairvoyant/tiny");
  const integer = (max: number) => Math.floor(random() * max);
  const first = 2 + integer(6);
  const second = first + integer(4);
  const timesUs = [first, second, second + integer(4)];
  const arrivalAt = Array.from({ length: 3 + integer(4) }, () => integer(8)).sort((a, b) => a - b);
  return { arrivalAt, timesUs, sloUs: first + integer(14), accelerators: 1 + integer(2) };
}

/** Whether batches can all be in time: each order of starts, each next batch on the accelerator that is free first. */
function canBeInTime(batches: number[][], { arrivalAt, timesUs, sloUs, accelerators }: Tiny): boolean {
  const place = (left: number[][], freeAt: number[]): boolean => {
    if (left.length === 0) return true;
    const soonest = freeAt.indexOf(Math.min(...freeAt));
    return left.some((batch, index) => {
      const moments = batch.map((request) => arrivalAt[request]!);
      const endAt = Math.max(freeAt[soonest]!, ...moments) + timesUs[batch.length - 1]!;
      if (endAt > Math.min(...moments) + sloUs) return false;
      return place(
        left.filter((_, other) => other !== index),
        freeAt.map((at, other) => (other === soonest ? endAt : at)),
      );
    });
  };
  return place(
    batches,
    Array.from({ length: accelerators }, () => 0),
  );
}

/** Most requests in time of all schedules, or of those whose batches hold requests that follow each other. */
function optimum(tiny: Tiny, over: ClairvoyantOptions["over"]): number {
  const count = tiny.arrivalAt.length;
  let best = 0;
  const isInOrder = (batches: number[][]): boolean => {
    const served = batches.flat().sort((a, b) => a - b);
    return batches.every((batch) => served.indexOf(batch.at(-1)!) - served.indexOf(batch[0]!) === batch.length - 1);
  };
  const choose = (request: number, batches: number[][], served: number): void => {
    if (served + count - request <= best) return;
    if (request === count) {
      if ((over === "any" || isInOrder(batches)) && canBeInTime(batches, tiny)) best = served;
      return;
    }
    for (const batch of batches) {
      if (batch.length === tiny.timesUs.length) continue;
      batch.push(request);
      choose(request + 1, batches, served + 1);
      batch.pop();
    }
    batches.push([request]);
    choose(request + 1, batches, served + 1);
    batches.pop();
    choose(request + 1, batches, served);
  };
  choose(0, [], 0);
  return best;
}

describe.each(["in-order", "any"] as const)("clairvoyant bound, %s", (over) => {
  it("is never below the best of all schedules of tiny cases, and often equal to it", () => {
    let equal = 0;
    let hard = 0;
    for (let seed = 1; seed <= 300; seed++) {
      const tiny = tinyCase(seed);
      const { inTime } = clairvoyantBound(
        [
          {
            arrivalAt: Float64Array.from(tiny.arrivalAt),
            execUs: measuredTable(tiny.timesUs),
            sloUs: tiny.sloUs,
          },
        ],
        { scales: Array.from({ length: tiny.accelerators }, () => 1), over, steps: 60 },
      );
      const best = optimum(tiny, over);
      expect(inTime, `seed ${seed}`).toBeGreaterThanOrEqual(best - 1e-6);
      if (best === tiny.arrivalAt.length) continue;
      hard++;
      if (Math.floor(inTime + 1e-6) === best) equal++;
    }
    expect(hard).toBeGreaterThan(60);
    expect(equal / hard).toBeGreaterThan(0.9);
  });

  it("holds for every number of steps: more only make it tighter", () => {
    const tiny = tinyCase(7);
    const model = {
      arrivalAt: Float64Array.from(tiny.arrivalAt),
      execUs: measuredTable(tiny.timesUs),
      sloUs: tiny.sloUs,
    };
    const of = (steps: number) => clairvoyantBound([model], { scales: [1], over, steps }).inTime;
    expect(of(1)).toBeGreaterThanOrEqual(of(10));
    expect(of(10)).toBeGreaterThanOrEqual(of(100));
    expect(of(100)).toBeGreaterThanOrEqual(optimum({ ...tiny, accelerators: 1 }, over) - 1e-6);
  });
});

const IN_ORDER = ["deferred", "deferred+", "eager", "timeout"] as const;
const OTHERS = ["clockwork", "shepherd", "triton"] as const;

/** A small scenario of the seed, loaded near or past what it can do. */
function smallScenario(seed: number) {
  const random = stream(seed, "clairvoyant/small");
  const accelerators = 1 + Math.floor(random() * 4);
  const betaMs = 1 + random() * 8;
  const model = (name: string) => ({
    name,
    profile: { alpha_ms: 1, beta_ms: betaMs },
    slo_ms: (1 + betaMs) * (2 + random() * 3),
  });
  const models = random() < 0.5 ? [model("a")] : [model("a"), model("b")];
  const text = {
    name: "small",
    duration_s: 0.5,
    warmup_s: 0,
    seed,
    accelerators,
    models,
    arrivals: { process: "poisson", rate_rps: accelerators * (100 + random() * 500) },
    policy: "deferred",
  };
  return expandScenario(scenarioFrom(sourceOf(text, "small.yaml")));
}

test("no policy has more requests in time than the bounds, on the same arrivals", () => {
  let near = 0;
  for (let seed = 1; seed <= 12; seed++) {
    const scenario = smallScenario(seed);
    const rateRps = scenario.models.reduce((all, model) => all + model.rateRps, 0);
    const known = knownArrivals(scenario, rateRps, seed, (rateRps * scenario.durationUs) / 1e6);
    const scales = scenario.accelerators.map((each) => each.scale);
    const inOrder = clairvoyantBound(known, { scales, over: "in-order", steps: 80 });
    const any = clairvoyantBound(known, { scales, over: "any", steps: 80 });
    for (const policy of [...IN_ORDER, ...OTHERS]) {
      const report = simulate(scenario, {
        policy,
        policyOptions: policy === "timeout" ? { timeout_fraction: 0.2 } : {},
      });
      expect(report.arrived).toBe(any.arrived);
      expect(report.finished, `${policy}, seed ${seed}`).toBeLessThanOrEqual(any.inTime + 1e-6);
      if ((OTHERS as readonly string[]).includes(policy)) continue;
      expect(report.finished, `${policy}, seed ${seed}`).toBeLessThanOrEqual(inOrder.inTime + 1e-6);
      if (report.finished > 0.97 * inOrder.inTime) near++;
    }
  }
  expect(near).toBeGreaterThan(0);
});

describe("peaks", () => {
  const resnet = expandScenario(
    scenarioFrom(
      sourceOf(
        {
          name: "resnet50",
          duration_s: 10,
          accelerators: 8,
          models: [{ name: "m", profile: { alpha_ms: 1.053, beta_ms: 5.072 }, slo_ms: 25 }],
          arrivals: { process: "poisson", rate_rps: 5000 },
          policy: "deferred",
        },
        "resnet50.yaml",
      ),
    ),
  );

  it("fluid: ResNet50 runs batches of 18 in 24.026 ms on 8 accelerators, until 25 ms after the last of 10 s, with 1 % to spare", () => {
    expect(fluidBoundRps(resnet)).toBeCloseTo(((8 * 18) / 0.024026 / 0.99) * 1.0025, 6);
  });

  it("fluid: an accelerator twice as slow counts half", () => {
    const mixed = {
      ...resnet,
      accelerators: resnet.accelerators.map((each, i) => ({ ...each, scale: i < 4 ? 1 : 2 })),
    };
    expect(fluidBoundRps(mixed)).toBeCloseTo(fluidBoundRps(resnet) * 0.75, 6);
  });

  it("clairvoyant: between what deferred+ reaches and the fluid bound; any above in-order", () => {
    const of = (over: "in-order" | "any") =>
      clairvoyantPeakRps(resnet, { over, seeds: [1], requests: 1000, steps: 20 });
    expect(of("in-order")).toBeGreaterThan(5530);
    expect(of("any")).toBeGreaterThanOrEqual(of("in-order"));
    expect(of("any")).toBeLessThanOrEqual(fluidBoundRps(resnet));
  });
});

test("says what is wrong with arrivals", () => {
  const model = { arrivalAt: Float64Array.of(3, 2), execUs: measuredTable([1]), sloUs: 5 };
  expect(() => clairvoyantBound([model], { scales: [1], over: "any" })).toThrow("arrivals must ascend; 1 does not");
  expect(() => clairvoyantBound([], { scales: [], over: "any" })).toThrow("at least 1 accelerator; was 0");
});
