import { afterEach, describe, expect, it } from "vitest";
import { type Batcher, createScheduler } from "./library.js";

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
let batcher: Batcher<number, number>;
afterEach(() => batcher?.close());

describe("createScheduler", () => {
  it("gives each item its own result and puts waiting items together", async () => {
    const sizes: number[] = [];
    batcher = createScheduler({
      run: async (items: number[]) => {
        sizes.push(items.length);
        await sleep(20);
        return items.map((item) => item * 2);
      },
      profile: { alpha_ms: 1, beta_ms: 20 },
      slo_ms: 2000,
      batch_max: 8,
    });
    const results = await Promise.all([1, 2, 3, 4, 5].map((item) => batcher.submit(item)));
    expect(results).toEqual([2, 4, 6, 8, 10]);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(5);
    expect(sizes.length).toBeLessThan(5);
    expect(batcher.pending).toBe(0);
  });

  it("refuses at once what cannot be done in time, and names why", async () => {
    batcher = createScheduler({
      run: async (items: number[]) => items,
      profile: { alpha_ms: 1, beta_ms: 50 },
      slo_ms: 500,
    });
    await expect(batcher.submit(1, { timeout_ms: 10 })).rejects.toMatchObject({
      code: "deadline-exceeded",
      details: { reason: "infeasible" },
    });
  });

  it("fails only the bad item of a batch, with its error as cause", async () => {
    const bad = new Error("thirteen");
    batcher = createScheduler({
      run: async (items: number[]) => {
        await sleep(5);
        if (items.includes(13)) throw bad;
        return items;
      },
      profile: { alpha_ms: 1, beta_ms: 5 },
      slo_ms: 3000,
    });
    const ends = await Promise.allSettled([1, 12, 13, 14].map((item) => batcher.submit(item)));
    expect(ends.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
    expect((ends[2] as PromiseRejectedResult).reason).toMatchObject({ code: "internal", cause: bad });
  });

  it("gives up an aborted item without running it", async () => {
    const seen: number[] = [];
    batcher = createScheduler({
      run: async (items: number[]) => {
        seen.push(...items);
        await sleep(20);
        return items;
      },
      profile: { alpha_ms: 0, beta_ms: 20 },
      slo_ms: 2000,
      batch_max: 1,
    });
    const first = batcher.submit(1);
    const abort = new AbortController();
    const second = batcher.submit(2, { signal: abort.signal });
    abort.abort();
    await expect(second).rejects.toMatchObject({ code: "cancelled" });
    await first;
    await batcher.close();
    expect(seen).toEqual([1]);
    await expect(batcher.submit(3)).rejects.toMatchObject({ code: "unavailable" });
  });

  it("names field, bound and value of a wrong option", () => {
    const run = async (items: number[]) => items;
    const profile = { alpha_ms: 1, beta_ms: 1 };
    expect(() => createScheduler({ run, profile, slo_ms: 0 })).toThrow("slo_ms must be above 0; was 0");
    expect(() => createScheduler({ run, profile, slo_ms: 1, concurrency: 2000 })).toThrow(
      "concurrency must be a whole number in [1, 1024]; was 2000",
    );
    expect(() => createScheduler({ run, profile: { alpha_ms: -1, beta_ms: 1 }, slo_ms: 1 })).toThrow(
      "profile.alpha_ms must be at least 0; was -1",
    );
  });
});
