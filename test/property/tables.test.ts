/** The core's data structures against naive twins. fast-check prints the seed and the smallest failing case. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DeadlineQueue } from "../../src/core/deadline-queue.js";
import { IndexedHeap } from "../../src/core/indexed-heap.js";
import { RateMeter, RecentRate } from "../../src/core/latency/rate-meter.js";
import { BatchTable } from "../../src/core/tables/batch-table.js";
import { RequestTable } from "../../src/core/tables/request-table.js";

describe("DeadlineQueue", () => {
  const operation = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("push" as const), deadline: fc.nat(40) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("remove" as const), index: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("removeAbsent" as const), deadline: fc.nat(45) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("removeFront" as const), count: fc.nat(6) }) },
  );
  test("is a stable sorted array: equal deadlines keep their order of arrival", () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 300 }), (operations) => {
        const queue = new DeadlineQueue(4);
        const twin: { handle: number; deadline: number }[] = [];
        let handles = 0;
        for (const op of operations) {
          if (op.kind === "push") {
            const handle = handles++;
            queue.push(handle, op.deadline);
            const at = twin.findIndex((each) => each.deadline > op.deadline);
            twin.splice(at < 0 ? twin.length : at, 0, { handle, deadline: op.deadline });
          } else if (op.kind === "remove" && twin.length > 0) {
            const [gone] = twin.splice(op.index % twin.length, 1);
            expect(queue.remove(gone!.handle, gone!.deadline)).toBe(true);
          } else if (op.kind === "removeAbsent") expect(queue.remove(-7, op.deadline)).toBe(false);
          else if (op.kind === "removeFront") {
            const count = Math.min(op.count, twin.length);
            twin.splice(0, count);
            queue.removeFront(count);
          }
          expect(queue.length).toBe(twin.length);
          for (const [index, { handle, deadline }] of twin.entries()) {
            if (queue.handleAt(index) !== handle || queue.deadlineAt(index) !== deadline)
              throw new Error(`at ${index}: ${queue.handleAt(index)}, not ${handle}`);
          }
          for (const deadline of [0, 7, 20, 41]) {
            const first = twin.findIndex((each) => each.deadline >= deadline);
            expect(queue.firstNotBefore(deadline)).toBe(first < 0 ? twin.length : first);
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  test("refuses to remove more than it holds", () => {
    expect(() => new DeadlineQueue().removeFront(1)).toThrow("cannot remove 1 of 0");
  });
});

describe("IndexedHeap", () => {
  const id = fc.nat(11);
  const operation = fc.oneof(
    fc.record({ kind: fc.constant("set" as const), id, priority: fc.integer({ min: -5, max: 5 }) }),
    fc.record({ kind: fc.constant("remove" as const), id }),
    fc.record({ kind: fc.constant("pop" as const) }),
  );
  test("top and pop give the smallest (priority, id)", () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 200 }), fc.nat(60), (operations, growAt) => {
        const heap = new IndexedHeap(12);
        const twin = new Map<number, number>();
        const smallest = () =>
          [...twin].sort((a, b) => a[1] - b[1] || a[0] - b[0])[0] ?? [-1, Number.POSITIVE_INFINITY];
        operations.forEach((op, index) => {
          if (index === growAt) heap.grow(40);
          if (op.kind === "set") {
            heap.set(op.id, op.priority);
            twin.set(op.id, op.priority);
          } else if (op.kind === "remove") {
            heap.remove(op.id);
            twin.delete(op.id);
          } else {
            const [top] = smallest();
            expect(heap.pop()).toBe(top);
            twin.delete(top);
          }
          expect([heap.top(), heap.topPriority()]).toEqual(smallest());
          expect(heap.size).toBe(twin.size);
          for (let each = 0; each < 12; each++) expect(heap.has(each)).toBe(twin.has(each));
        });
      }),
      { numRuns: 200 },
    );
  });

  test("an id beyond the capacity is a caller's bug, and absent", () => {
    const heap = new IndexedHeap(2);
    heap.set(1, 5);
    expect(() => heap.set(2, 1)).toThrow("heap id must be in [0, 2); was 2");
    heap.remove(2);
    expect([heap.top(), heap.size]).toEqual([1, 1]);
  });
});

describe("RateMeter", () => {
  test("is the mean of complete 50 ms samples over its window, brute force", () => {
    const gap = fc.oneof(fc.nat(3000), fc.nat(200_000), fc.constant(50_000), fc.nat(2_000_000));
    fc.assert(
      fc.property(fc.array(gap, { minLength: 1, maxLength: 200 }), fc.integer({ min: 1, max: 20 }), (gaps, samples) => {
        const meter = new RateMeter(samples * 50_000);
        const times: number[] = [];
        let now = 17;
        let endedBefore = 0;
        for (const each of gaps) {
          now += each;
          const crossed = meter.observe(now);
          times.push(now);
          const ended = Math.floor((now - times[0]!) / 50_000);
          expect(crossed).toBe(ended > endedBefore);
          endedBefore = ended;
          const used = Math.min(ended, samples);
          const to = times[0]! + ended * 50_000;
          const counted = times.filter((at) => at >= to - used * 50_000 && at < to).length;
          if (ended === 0) expect(meter.perUs).toBeNaN();
          else expect(meter.perUs).toBeCloseTo(counted / (used * 50_000), 12);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe("RecentRate", () => {
  test("counts the gaps among the last arrivals, up to now", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(5000), { maxLength: 60 }),
        fc.integer({ min: 2, max: 12 }),
        fc.nat(9000),
        (gaps, n, idle) => {
          const rate = new RecentRate(n);
          const times: number[] = [];
          let now = 5;
          for (const gap of gaps) {
            now += gap;
            rate.observe(now);
            times.push(now);
          }
          const last = times.slice(-n);
          const expected = last.length < 2 ? 0 : (last.length - 1) / Math.max(1, now + idle - last[0]!);
          expect(rate.perUs(now + idle)).toBeCloseTo(expected, 12);
        },
      ),
    );
  });
});

describe("RequestTable and BatchTable", () => {
  const traitsOf = ({ kind, weight, dueAt, part, headStartUs }: RequestTable, handle: number) =>
    [kind, weight, dueAt, part, headStartUs ?? []].map((column) => column[handle] ?? 0);

  test("reuse slots, keep columns, and never hand out a live one", () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.nat(), { freq: 2, nil: null }), { maxLength: 400 }), (operations) => {
        const table = new RequestTable(50, 2);
        const live = new Map<number, number>();
        let tag = 2 ** 40;
        for (const victim of operations) {
          if (victim === null) {
            const handle = table.add(3, ++tag, tag / 2, tag / 4);
            if (live.size === 50) expect(handle).toBe(-1);
            else {
              expect(live.has(handle)).toBe(false);
              expect(traitsOf(table, handle)).toEqual([0, 1, tag / 4, 0, 0]);
              if (tag % 3 > 0)
                table.describe(handle, { kind: tag % 7, weight: tag / 16, dueBy: 0, headStartUs: tag % 4 }, tag / 8);
              if (tag % 5 === 0) table.setPart(handle, tag % 11);
              expect([table.retries[handle], table.next[handle], table.queue[handle]]).toEqual([0, -1, 3]);
              table.retries[handle] = 1;
              live.set(handle, tag);
            }
          } else if (live.size > 0) {
            const handle = [...live.keys()][victim % live.size]!;
            live.delete(handle);
            table.release(handle);
            expect(() => table.release(handle)).toThrow(`request ${handle} ended twice`);
          }
          expect(table.live).toBe(live.size);
          for (const [handle, expected] of live) {
            expect([table.tag[handle], table.latestEndAt[handle]]).toEqual([expected, expected / 4]);
            const part = expected % 5 === 0 ? expected % 11 : 0;
            const traits = expected % 3 > 0 ? [expected % 7, expected / 16, expected / 8] : [0, 1, expected / 4];
            expect(traitsOf(table, handle)).toEqual([...traits, part, expected % 3 > 0 ? expected % 4 : 0]);
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  test("batches: at most the capacity, ids reused, never ended twice", () => {
    const table = new BatchTable(2);
    const first = table.add(0, 4, 1, 10, 5, 0);
    const second = table.add(1, 5, 2, 10, 7, 0);
    expect([table.finishAt[first], table.finishAt[second], table.live]).toEqual([15, 17, 2]);
    expect(() => table.add(0, 1, 1, 0, 1, 0)).toThrow("at most 2 batches");
    table.release(first);
    expect(() => table.release(first)).toThrow(`batch ${first} ended twice`);
    expect(table.add(2, 6, 3, 0, 1, 0)).toBe(first);
  });
});
