import { describe, expect, test } from "vitest";
import { type DurationUs, NEVER, type TimeUs } from "../../core/time.js";
import { EmulatedAccelerator, type EmulatedBatch } from "./emulated-accelerator.js";

const at = (us: number) => us as TimeUs;
const us = (length: number) => length as DurationUs;
const batch = (id: number, arrivedAt: number, execUs: number, earliestStartAt = 0): EmulatedBatch => ({
  batch: id,
  arrivedAt: at(arrivedAt),
  earliestStartAt: at(earliestStartAt),
  execUs: us(execUs),
});

describe("emulated accelerator", () => {
  test("takes as long as its profile and its scale say, from the arrival", () => {
    const device = new EmulatedAccelerator(2.5);
    device.accept(batch(1, 1000, 400));
    expect(device.complete(at(1999))).toBeNull();
    expect(device.complete(at(2000))).toMatchObject({ startedAt: 1000, finishedAt: 2000 });
  });

  test("starts no earlier than it was told", () => {
    const device = new EmulatedAccelerator(1);
    device.accept(batch(1, 1000, 100, 5000));
    expect(device.dueAt).toBe(5100);
  });

  test("one runs and one waits; the next begins when the first was due, not when that was noticed", () => {
    const device = new EmulatedAccelerator(1);
    device.accept(batch(1, 0, 100));
    device.accept(batch(2, 10, 50));
    expect(() => device.accept(batch(3, 20, 50))).toThrow("one batch that runs and one that waits");
    expect(device.complete(at(140))).toMatchObject({ work: { batch: 1 }, finishedAt: 100 });
    expect(device.complete(at(140))).toBeNull();
    expect(device.complete(at(150))).toMatchObject({ work: { batch: 2 }, startedAt: 100, finishedAt: 150 });
    expect(device.idle).toBe(true);
  });

  test("cancel takes back what has not begun, and nothing else", () => {
    const device = new EmulatedAccelerator(1);
    device.accept(batch(1, 0, 100));
    device.accept(batch(2, 0, 100));
    expect(device.cancel(1, at(50))).toBeNull();
    expect(device.cancel(2, at(50))).toMatchObject({ batch: 2 });
    device.complete(at(100));
    device.accept(batch(3, 110, 100, 500));
    expect(device.cancel(3, at(499))).toMatchObject({ batch: 3 });
    expect(device.idle).toBe(true);
  });

  test("a stall delays what runs and what follows, once", () => {
    const device = new EmulatedAccelerator(1);
    device.accept(batch(1, 0, 100));
    device.stall(us(1000), at(50));
    expect(device.dueAt).toBe(1100);
    device.complete(at(1100));
    device.accept(batch(2, 1200, 100));
    expect(device.dueAt).toBe(1300);
  });

  test("slow and hang change what comes", () => {
    const device = new EmulatedAccelerator(1);
    device.slow(5);
    device.accept(batch(1, 0, 100));
    expect(device.dueAt).toBe(500);
    device.hang();
    expect(device.dueAt).toBe(NEVER);
    expect(device.complete(at(1e12))).toBeNull();
  });
});
