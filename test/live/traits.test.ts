/** What a request says of itself, from the gateway to the policy; what the policy decides of a batch, to the worker and the client. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { decodeLog, replay } from "../../src/core/event-log.js";
import { LOG_TRAITS, LOG_VARIANT, LOG_WIDTH } from "../../src/core/event-rows.js";
import { PLAIN, type RequestTraits } from "../../src/core/tables/request-table.js";
import { liveSpec } from "../../src/policies/live.js";
import { FakeServer, group, modelSpec } from "../fakes/fake-server.js";
import { byWeight } from "../support/by-weight.js";

vi.mock("../../src/policies/registry.js", async (original) => ({
  ...(await original<typeof import("../../src/policies/registry.js")>()),
  groupPolicy: () => byWeight(),
}));

const says = (kind: number, weight: number): RequestTraits => ({ ...PLAIN, kind, weight });

test("the parameter app names whose request it is: the batch says which", async () => {
  const fake = await new FakeServer([modelSpec({ apps: ["chat", "search"] })], [group(1)]).start();
  const apps = [{ app: "search" }, { app: "of no file" }, {}];
  for (const parameters of apps) await fake.infer({ parameters });
  expect(fake.pool.runs.map(({ batch }) => batch.kinds)).toEqual([[2], [3], []]);
  await fake.stop();
});

test("who weighs most goes first; worker and client are told the variant; the log replays", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-traits-"));
  const file = path.join(folder, "events.log");
  const spec = modelSpec({ batchSizeMax: 2, emulated: { alphaMs: 1, betaMs: 4, tableMs: null } });
  const fake = await new FakeServer([spec], [group(1)], { eventLog: { file, bytesMax: 1 << 20 } }).start();
  try {
    // In one tick: all are there before the first batch leaves.
    const calls = [
      fake.infer({ value: 1 }),
      fake.infer({ value: 2, traits: says(7, 1) }),
      fake.infer({ value: 3, traits: says(5, 9) }),
      fake.infer({ value: 4, traits: says(0, 9) }),
      fake.infer({ value: 5, traits: says(7, 3) }),
    ];
    const parameters = (await Promise.all(calls)).map(({ reply }) => reply!.parameters);
    const runs = fake.pool.runs.map(({ batch }) => ({
      values: batch.members.map(([tensor]) => new Float32Array(tensor!.data.slice().buffer)[0]),
      variant: batch.variant,
      kinds: batch.kinds,
    }));
    // The first finds the accelerator free, and is alone with whoever weighs most.
    expect(runs.flatMap(({ values }) => values).sort()).toEqual([1, 2, 3, 4, 5]);
    const rest = runs.slice(1);
    expect(rest[0]).toEqual({ values: [3, 4], variant: 5, kinds: [5, 0] });
    expect(rest[1]).toEqual({ values: [5, 2], variant: 7, kinds: [7, 7] });
    expect(runs[0]).toEqual({ values: [1], variant: 0, kinds: [] });
    expect(parameters).toEqual([{}, { variant: 7 }, { variant: 5 }, { variant: 5 }, { variant: 7 }]);
  } finally {
    await fake.stop();
  }
  const log = decodeLog(readFileSync(file));
  const kinds = Array.from({ length: log.rows.length / LOG_WIDTH }, (_, row) => log.rows[row * LOG_WIDTH]);
  expect(kinds.filter((kind) => kind === LOG_TRAITS)).toHaveLength(4);
  expect(kinds.filter((kind) => kind === LOG_VARIANT)).toHaveLength(2);
  expect(replay(log, byWeight, liveSpec).difference).toBeNull();
  // Cut in the middle of an arrival: the rest replays.
  const cut = kinds.lastIndexOf(LOG_TRAITS) + 1;
  const bytes = readFileSync(file);
  const head = bytes.indexOf(10) + 1;
  expect(decodeLog(bytes.subarray(0, head + cut * LOG_WIDTH * 8)).rows.length).toBe((cut - 1) * LOG_WIDTH);
  // What was said is what decided.
  for (let row = 0; row < log.rows.length; row += LOG_WIDTH) if (log.rows[row] === LOG_TRAITS) log.rows[row + 4] = 1;
  expect(replay(log, byWeight, liveSpec).difference).not.toBeNull();
  rmSync(folder, { recursive: true });
});
