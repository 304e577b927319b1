/** What the client of a pipeline is told of a part that could not be in time. */
import { describe, expect, test } from "vitest";
import { DROP_EXPIRED, DROP_REASONS } from "../../core/outcome.js";
import { ServingError } from "../../wire/serving-error.js";
import { dropEnding } from "../endings.js";
import { type PartBudget, partError, partsError } from "./part-needs.js";

const NUMBERS = " (deadline 700000 us, estimate 590456 us, give or take 66161)";
const { text: EXPIRED, code } = dropEnding(DROP_EXPIRED);
const expired = (estimateUs?: number): ServingError =>
  new ServingError(code, `model 'ocr-det': ${EXPIRED}${NUMBERS}`, {
    reason: DROP_REASONS[DROP_EXPIRED]!,
    ...(estimateUs === undefined ? {} : { estimateUs }),
  });

/** Received at 0, at its module at 20 ms, with 700 ms; what follows is kept 300 ms. */
const BUDGET: PartBudget = {
  rule: "staggered",
  askedAt: 0,
  cameAt: 20_000,
  dueBy: 400_000,
  deadline: 700_000,
  leastUs: 50_000,
  leastAfterUs: 100_000,
  allUs: 50_000,
  dueWith: (deadline) => deadline - 300_000,
  entryUs: 0,
};

describe("a part that was given up", () => {
  test("by its budget: its cause, what it takes, what is kept, and what the whole needed", () => {
    const { message, details } = partError(expired(590_456), BUDGET, 30_000);
    expect(message).toBe(
      "model 'ocr-det': the part could not be done in the module's budget: 380.0 ms of the 680.0 ms left when it came (budget: staggered); it would take at least 570.5 ms here, and 300.1 ms are kept for the modules after it: the request would need a deadline of at least 890.5 ms; was 700.0 ms",
    );
    expect(details.reason).toBe("budget");
    expect(details.estimateUs).toBeGreaterThanOrEqual(890_456);
    // Found to a tenth of a millisecond.
    expect(details.estimateUs).toBeLessThanOrEqual(890_556);
  });

  test("by a share: as long as its part of the time that is left is what it takes", () => {
    const dueWith = (deadline: number): number => 20_000 + (deadline - 20_000) / 4;
    const { details } = partError(expired(220_000), { ...BUDGET, dueBy: dueWith(700_000), dueWith }, 30_000);
    expect(details.estimateUs! / 1e5).toBeCloseTo(8.2, 2);
  });

  test("with nothing left of its own: said in words", () => {
    const { message } = partError(expired(), { ...BUDGET, deadline: 240_000, dueBy: -60_000 }, 20_000);
    expect(message).toContain(
      "nothing of the 220.0 ms left when it came was its own, as more is kept for the modules after it (budget: staggered); it would take at least 50.0 ms here",
    );
    expect(message).not.toContain(" -");
  });

  test("by a deadline that nothing could have held: what it needed all the same", () => {
    const { message, details } = partError(expired(), { ...BUDGET, deadline: 25_000, dueBy: -275_000 }, 25_001);
    expect(message).toMatch(
      /^model 'ocr-det': the deadline passed while the request was queued; it would take at least 55.1 ms here/,
    );
    expect(details).toMatchObject({ reason: "expired" });
    expect(details.estimateUs).toBeGreaterThanOrEqual(375_001);
  });

  test("as it was not let in", () => {
    const { message, details } = partError(expired(), { ...BUDGET, dueBy: 20_000, entryUs: 900_000 }, 20_000);
    expect(message).toContain("the request was not let in");
    expect(message).toContain("a deadline of at least 920.0 ms; was 700.0 ms");
    expect(details).toMatchObject({ reason: "budget", estimateUs: 920_000 });
  });

  test("where what the module says would have been in time: no number that contradicts its end", () => {
    const { message } = partError(expired(300_000), BUDGET, 30_000);
    expect(message).toMatch(/\(budget: staggered\)$/);
  });

  test("for anything but time: as its model says it", () => {
    const full = new ServingError("resource-exhausted", "model 'm': full", { reason: "queue-full" });
    expect(partError(full, BUDGET, 30_000)).toBe(full);
  });
});

test("parts that are too many: what deadline they needed", () => {
  const { message, details } = partsError("staggered", 40, 1_234_567);
  expect(message).toContain("40 parts cannot be done in time");
  expect(message).toMatch(/a deadline of at least 1234.6 ms$/);
  expect(details).toEqual({ reason: "budget", estimateUs: 1_234_567 });
});
