/** Target size and head dropping, against straight readings of their definitions. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { violated } from "../../src/core/invariant.js";
import { linearTable, measuredTable, ProfiledLatency } from "../../src/core/latency/latency.js";
import { type CommandSink, Scheduler } from "../../src/core/scheduler.js";
import { targetSize } from "../../src/policies/deferred/target-size.js";
import { createPolicy } from "../../src/policies/registry.js";

const table = fc.oneof(
  fc
    .tuple(fc.integer({ min: 1, max: 5000 }), fc.integer({ min: 1, max: 20_000 }), fc.integer({ min: 1, max: 40 }))
    .map(([alpha, beta, size]) => linearTable(alpha, beta, size)),
  fc
    .array(fc.integer({ min: 1, max: 8000 }), { minLength: 1, maxLength: 40 })
    .map((steps) => measuredTable(steps.map((_, i) => steps.slice(0, i + 1).reduce((a, b) => a + b, 0)))),
);

/** The doc comment of targetSize, word for word, over all sizes. */
function targetTwin(l: Float64Array, sloUs: number, budgetUs: number, dataUs: number, r: number): number {
  const sizes = Array.from({ length: l.length - 2 }, (_, index) => index + 1);
  const largest = (holds: (b: number) => boolean) => Math.max(1, ...sizes.filter(holds));
  if (Number.isNaN(r)) return largest((b) => l[b]! <= sloUs / 2);
  const n = (b: number) => (r * l[b]!) / b;
  return largest((b) =>
    n(b) > 1
      ? l[b]! * (1 + 1 / n(b)) + b * dataUs <= budgetUs
      : l[b]! + Math.max(l[b]!, n(b) === 0 ? Infinity : b / r) + b * dataUs <= budgetUs,
  );
}

describe("targetSize", () => {
  test("is the largest size that its definition allows", () => {
    const rate = fc.oneof(fc.constant(Number.NaN), fc.constant(0), fc.double({ min: 1e-7, max: 0.1, noNaN: true }));
    fc.assert(
      fc.property(
        table,
        fc.integer({ min: 1000, max: 200_000 }),
        fc.nat(3000),
        fc.nat(60),
        rate,
        (l, slo, delays, data, r) => {
          const got = targetSize(l, slo, slo - delays, data, r);
          const expected = targetTwin(l, slo, slo - delays, data, r);
          // At n = 1 the two formulas meet: rounding may decide either way.
          const n = (r * l[got]!) / got;
          if (Math.abs(n - 1) > 1e-9) expect(got).toBe(expected);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

interface Gathered {
  readonly dropped: number[];
  readonly size: number;
}

/**
 * Head rule of Symphony's public code, O(n^2): while the head could not finish if the whole remaining window ran as one
 * batch, it is set aside; those set aside that cannot finish with min(target, window) are dropped; survivors go
 * first; then the batch grows by one while its earliest deadline holds.
 */
function gatherTwin(
  deadlines: readonly number[],
  plan: (size: number) => number,
  sizeMax: number,
  target: number,
  now: number,
): Gathered {
  const window = deadlines.map((deadline, tag) => ({ deadline, tag }));
  const aside: { deadline: number; tag: number }[] = [];
  while (window.length > 0 && window[0]!.deadline < now + plan(Math.min(window.length, sizeMax)))
    aside.push(window.shift()!);
  const size = Math.max(1, Math.min(target, window.length));
  const dropped = aside.filter(({ deadline }) => deadline < now + plan(size)).map(({ tag }) => tag);
  const rest = [...aside.filter(({ tag }) => !dropped.includes(tag)), ...window];
  let grown = rest.length === 0 ? 0 : 1;
  while (grown < Math.min(rest.length, sizeMax) && now + plan(grown + 1) <= rest[0]!.deadline) grown++;
  return { dropped, size: grown };
}

class Driver implements CommandSink {
  readonly dropped: number[] = [];
  readonly scheduler: Scheduler;
  constructor(
    policy: string,
    options: Record<string, unknown>,
    network: { controlUs: number; dataUsPerRequest: number; responseUs: number },
  ) {
    this.scheduler = new Scheduler(createPolicy(policy, options), this, {
      network,
      acceleratorsMax: 1,
      requestsMax: 1000,
      retriesMax: 0,
      learn: false,
    });
  }
  dispatch(): void {}
  batchEnded(): void {}
  preempt(): void {
    violated("this policy does not preempt");
  }
  /** No accelerator is there, so nothing is dispatched and every end is a request given up. */
  end(request: number): void {
    this.dropped.push(this.scheduler.requests.tag[request]!);
  }
}

describe("head dropping", () => {
  test("finds the batch and the victims of the naive rule", () => {
    fc.assert(
      fc.property(
        table,
        fc.array(fc.integer({ min: 0, max: 120_000 }), { minLength: 1, maxLength: 80 }),
        fc.integer({ min: 1, max: 45 }),
        fc.nat(60_000),
        fc.constantFrom(
          { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 },
          { controlUs: 90, dataUsPerRequest: 40, responseUs: 700 },
        ),
        (l, relative, target, later, network) => {
          const sizeMax = l.length - 2;
          const driver = new Driver("deferred", { target }, network);
          const { scheduler } = driver;
          const key = scheduler.addQueue({ latency: new ProfiledLatency(l), sloUs: 60_000, lengthMax: 1000 });
          const plan = (size: number) => l[size]! + network.controlUs + size * network.dataUsPerRequest;
          // Sorted, so that tags follow the order of the queue; far in the future, so that nothing is dropped on arrival.
          const deadlines = [...relative].sort((a, b) => a - b).map((each) => 10_000_000 + each);
          deadlines.forEach((deadline, tag) => {
            scheduler.arrive(key, tag, 0, deadline + network.responseUs, 0);
          });
          expect(driver.dropped).toEqual([]);
          // Time passes unserved; one more arrival, of the far future, makes the queue look.
          const now = 10_000_000 - 30_000 + later;
          deadlines.push(99_000_000);
          scheduler.arrive(key, deadlines.length - 1, now, 99_000_000 + network.responseUs, now);
          const expected = gatherTwin(deadlines, plan, sizeMax, Math.min(target, sizeMax), now);
          expect(driver.dropped).toEqual(expected.dropped);
          expect(scheduler.offers.size[key]).toBe(expected.size);
        },
      ),
      { numRuns: 1500 },
    );
  });
});
