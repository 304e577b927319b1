import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { after, durationUs } from "../core/time.js";
import { monotonicNow } from "../wire/clock/monotonic-clock.js";
import { pace } from "./pacer.js";

const schedule = (times: readonly number[]) => {
  let at = 0;
  return () => times[at++] ?? Number.POSITIVE_INFINITY;
};

describe("pacer", () => {
  it.each([true, false])("sends all in order, none early, bursts together (spinning %s)", async (isSpinning) => {
    const times = [0, 0, 0, 500, 900, 3000, 3000, 20_000];
    const startAt = after(monotonicNow(), durationUs(3000));
    const sent: number[] = [];
    const early: number[] = [];
    const send = (intendedUs: number) => {
      if (monotonicNow() < startAt + intendedUs) early.push(intendedUs);
      sent.push(intendedUs);
    };
    const { unsent } = await pace({ next: schedule(times), startAt, giveUpUs: 60e6, isSpinning, send });
    expect([sent, early, unsent]).toEqual([times, [], 0]);
  });

  it("sends what is overdue at once, in turns that let answers in", async () => {
    const times = Array.from({ length: 600 }, (_, i) => i);
    const startAt = (monotonicNow() - 1_000_000) as ReturnType<typeof monotonicNow>;
    const sentBeforeTurn: number[] = [];
    let sent = 0;
    let isOver = false;
    const watch = () => {
      sentBeforeTurn.push(sent);
      if (!isOver) setImmediate(watch);
    };
    setImmediate(watch);
    await pace({ next: schedule(times), startAt, giveUpUs: 60e6, isSpinning: true, send: () => sent++ });
    isOver = true;
    expect(sent).toBe(600);
    expect(Math.max(...sentBeforeTurn.filter((count) => count < 600))).toBe(512);
  });

  it("sleeping, it keeps a process alive that does nothing else", () => {
    const file = new URL("../../dist/load/pacer.js", import.meta.url).href;
    // Moments less than 2 ms apart, which only the sleeping thread waits for.
    const program = `
      import { pace } from ${JSON.stringify(file)};
      const times = Array.from({ length: 20 }, (_, i) => 1000 * i);
      let sent = 0;
      const startAt = Math.floor(Number(process.hrtime.bigint() / 1000n)) + 1000;
      const next = () => times.shift() ?? Infinity;
      await pace({ next, startAt, giveUpUs: 60e6, isSpinning: false, send: () => sent++ });
      console.log("sent", sent);`;
    const child = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
    expect([child.stdout, child.status], child.stderr).toEqual(["sent 20\n", 0]);
  });

  it("gives up at its limit and counts what was still due", async () => {
    const startAt = (monotonicNow() - 5_000_000) as ReturnType<typeof monotonicNow>;
    const send = () => {
      throw new Error("sent past the limit");
    };
    expect(await pace({ next: schedule([1, 2, 3]), startAt, giveUpUs: 4e6, isSpinning: true, send })).toEqual({
      unsent: 3,
    });
  });

  it("a failing send ends it with that error", async () => {
    const send = () => {
      throw new Error("encode failed");
    };
    const startAt = monotonicNow();
    await expect(pace({ next: schedule([0]), startAt, giveUpUs: 1e6, isSpinning: true, send })).rejects.toThrow(
      "encode",
    );
  });
});
