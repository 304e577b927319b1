import { afterEach, describe, expect, it } from "vitest";
import { ConfigError } from "../config/config-error.js";
import { type Batcher, createScheduler } from "./create-scheduler.js";

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
      message: expect.stringMatching(/\(deadline 10000 us, an item alone takes 51000 us\)$/),
      details: { reason: "infeasible", deadlineUs: 10_000 },
    });
  });

  it.each<[string, unknown, string]>([
    ["misspelt", { timeout: 5 }, "submit: timeout: unknown key; did you mean timeout_ms?"],
    ["a text", { timeout_ms: "5" }, 'submit: timeout_ms: must be a number; was "5"'],
    ["no time", { timeout_ms: 0 }, "submit: timeout_ms: must be greater than 0; was 0"],
    ["for ever", { timeout_ms: Number.POSITIVE_INFINITY }, "submit: timeout_ms: must be a number"],
    ["no signal", { signal: 1 }, "submit: signal: must be an AbortSignal; was 1"],
    ["a number", 5, "submit: must be a mapping; was 5"],
    ["null", null, "submit: must be a mapping; was null"],
  ])("refuses options of an item, and holds nothing of it: %s", async (_what, options, message) => {
    batcher = createScheduler({ ...right });
    const refused = batcher.submit(1, options as never);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toThrow(message);
    expect(batcher.pending).toBe(0);
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

  const run = async (items: number[]) => items;
  const right = { run, profile: { alpha_ms: 1, beta_ms: 1 }, slo_ms: 100 };
  it.each<[string, unknown, string]>([
    ["none", undefined, "must be a mapping"],
    ["run missing", { ...right, run: undefined }, "run: is required: must be a function of a batch"],
    ["run no function", { ...right, run: [] }, "run: must be a function of a batch; was []"],
    ["profile missing", { ...right, profile: undefined }, "profile: is required: must be a mapping of"],
    ["profile half", { ...right, profile: { alpha_ms: 1 } }, "profile.beta_ms: is required: must be a number"],
    ["profile misspelt", { ...right, profile: { alpha: 1, beta_ms: 1 } }, "unknown key; did you mean alpha_ms?"],
    ["negative", { ...right, profile: { alpha_ms: -1, beta_ms: 1 } }, "profile.alpha_ms: must be at least 0; was -1"],
    ["no time", { ...right, profile: { alpha_ms: 0, beta_ms: 0 } }, "alpha_ms + beta_ms must be greater than 0; was 0"],
    ["empty table", { ...right, profile: { table_ms: [] } }, "profile.table_ms: must be at least 1 long; was []"],
    [
      "past the table",
      { ...right, profile: { table_ms: [1, 2] }, batch_max: 3 },
      "batch_max: must be at most the length",
    ],
    ["misspelt", { ...right, slo: 5 }, "slo: unknown key; did you mean slo_ms?"],
    ["SLO missing", { ...right, slo_ms: undefined }, "slo_ms: is required: must be a number"],
    ["SLO a text", { ...right, slo_ms: "100" }, 'slo_ms: must be a number; was "100"'],
    ["SLO no time", { ...right, slo_ms: 0 }, "slo_ms: must be greater than 0; was 0"],
    ["SLO not a number", { ...right, slo_ms: Number.NaN }, "slo_ms: must be a number; was NaN"],
    ["SLO below l(1)", { ...right, slo_ms: 2.9 }, "slo_ms: must be at least 3, one item's run by the profile and 1 ms"],
    [
      "SLO below l(1), eager",
      { ...right, slo_ms: 1.9, policy: "eager" },
      "slo_ms: must be at least 2, one item's run by the profile; was 1.9",
    ],
    ["a batch and a half", { ...right, batch_max: 1.5 }, "batch_max: must be a whole number; was 1.5"],
    ["too many at once", { ...right, concurrency: 2000 }, "concurrency: must be at most 1024; was 2000"],
    ["no queue", { ...right, queue_max: 0 }, "queue_max: must be at least 1; was 0"],
    ["policy misspelt", { ...right, policy: "defered" }, "did you mean deferred?"],
    ["policy option misspelt", { ...right, policy_options: { idle_dispach: true } }, "did you mean idle_dispatch?"],
  ])("refuses options by field, bound and value: %s", (_what, options, message) => {
    expect(() => createScheduler(options as never)).toThrow(ConfigError);
    expect(() => createScheduler(options as never)).toThrow(message);
  });

  it("says all that is wrong at once, and takes an SLO of just what one item takes", () => {
    expect(() => createScheduler({ ...right, slo_ms: -1, concurrency: 0 } as never)).toThrow(
      /slo_ms[\s\S]*concurrency/,
    );
    batcher = createScheduler({ ...right, slo_ms: 3 });
    expect(batcher.pending).toBe(0);
  });

  it.each<[string, (items: number[]) => unknown, string]>([
    ["nothing", () => undefined, "run must resolve with an array of 2 results; resolved with nothing"],
    ["one result", () => 7, "run must resolve with an array of 2 results; resolved with 7"],
    ["too few", () => [1], "run must resolve with an array of 2 results; resolved with 1"],
    ["too many", () => [1, 2, 3], "run must resolve with an array of 2 results; resolved with 3"],
  ])("a wrong result of run says so, and is not asked for again: %s", async (_what, answer, message) => {
    let calls = 0;
    batcher = createScheduler({
      run: async (items: number[]) => {
        await sleep(20);
        if (calls++ === 0) return items;
        return answer(items) as number[];
      },
      profile: { alpha_ms: 0, beta_ms: 20 },
      slo_ms: 5000,
    });
    const first = batcher.submit(0);
    const ends = await Promise.allSettled([batcher.submit(1), batcher.submit(2)]);
    await first;
    expect(ends.map((end) => (end as PromiseRejectedResult).reason.message)).toEqual([message, message]);
    expect(calls).toBe(2);
  });

  it("a run that rejects or throws says why in the message", async () => {
    batcher = createScheduler({
      run: (items: number[]): Promise<number[]> => {
        if (items[0] === 1) throw new Error("no such table");
        return Promise.reject("plain text");
      },
      profile: { alpha_ms: 0, beta_ms: 5 },
      slo_ms: 5000,
      batch_max: 1,
    });
    await expect(batcher.submit(1)).rejects.toThrow("run failed: no such table");
    await expect(batcher.submit(2)).rejects.toThrow("run failed: plain text");
  });
});
