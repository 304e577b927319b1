/** Recorded runs give the same commands when they are replayed: event logs of servers and a record of threads in this folder, and fresh ones. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, it, test } from "vitest";
import { decodeLog, type EventLog, type ReplayResult, replay } from "../../src/core/event-log.js";
import { LOG_ARRIVED, LOG_WIDTH } from "../../src/core/event-rows.js";
import { durationUs } from "../../src/core/time.js";
import { liveSpec } from "../../src/policies/live.js";
import { createSeparablePolicy, groupPolicy } from "../../src/policies/registry.js";
import { replayRun } from "../../src/threads/replay/replay.js";
import type { RunRecord } from "../../src/threads/run-record.js";
import { FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

const replayLog = (log: EventLog): ReplayResult => replay(log, groupPolicy, liveSpec);

const replayFile = (file: string | URL): ReplayResult => replayLog(decodeLog(readFileSync(file)));

/** Two models, crashes, cancels, more load than fits: some of everything. */
async function record(file: string): Promise<void> {
  const fake = await new FakeServer(
    [
      modelSpec({ name: "slo", sloUs: durationUs(60_000), emulated: { alphaMs: 1, betaMs: 4, tableMs: null } }),
      modelSpec({ name: "plain", emulated: { alphaMs: 1, betaMs: 2, tableMs: null }, queueRequestsMax: 10 }),
    ],
    [group(2, { scales: [1, 2] })],
    { eventLog: { file, bytesMax: 1 << 20 } },
  ).start();
  const ends = [];
  for (let n = 0; n < 150; n++) {
    const model = n % 3 === 0 ? "plain" : "slo";
    ends.push(fake.infer({ model, timeoutMs: 20 + (n % 7) * 10, rows: 1 + (n % 2) }, n % 11 === 0 ? 5 : null));
    if (n === 60) fake.pool.crash(0, 10);
    if (n % 2 === 0) await sleep(1);
  }
  await Promise.all(ends);
  await fake.server.driver.idle();
  await fake.stop();
  expect(fake.broken).toBeNull();
}

/** Both deferred on up to three threads that come and go, one learning, one with an isolation that did nothing then. */
test.each([
  ["threads-learn.json.gz", 3819],
  ["threads-isolation.json.gz", 2386],
])("a record of threads from before their records were wider replays to its commands: %s", (file, count) => {
  const text = gunzipSync(readFileSync(new URL(file, import.meta.url))).toString();
  const { policyOptions, record } = JSON.parse(text) as {
    policyOptions: Record<string, unknown>;
    record: { threads: { turns: number[] }[][]; rank: { turns: number[] } };
  };
  const turnsOf = <T extends { turns: number[] }>(run: T) => ({ ...run, turns: Float64Array.from(run.turns) });
  const threads = record.threads.map((runs) => runs.map(turnsOf));
  const run = { ...record, threads, rank: turnsOf(record.rank) } as unknown as RunRecord;
  const { difference, commands } = replayRun(run, () => createSeparablePolicy("deferred", policyOptions));
  expect(difference).toBeNull();
  expect(commands).toBe(count);
});

describe("recorded event logs", () => {
  it("mixed.log: old events give the same commands as when they were recorded", () => {
    const result = replayFile(new URL("./mixed.log", import.meta.url));
    expect(result.difference).toBeNull();
    expect(result.commands).toBeGreaterThan(100);
  });

  it("a log recorded now replays", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "rubato-log-"));
    const file = path.join(folder, "events.log");
    try {
      await record(process.env.RUBATO_RECORD ?? file);
      const result = replayFile(process.env.RUBATO_RECORD ?? file);
      expect(result.difference).toBeNull();
      expect(result.commands).toBeGreaterThan(100);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("a change of behaviour is noticed: with deadlines 5 ms later the commands differ", () => {
    const log = decodeLog(readFileSync(new URL("./mixed.log", import.meta.url)));
    for (let row = 0; row < log.rows.length; row += LOG_WIDTH)
      if (log.rows[row] === LOG_ARRIVED) log.rows[row + 6] = log.rows[row + 6]! + 5000;
    expect(replayLog(log).difference).not.toBeNull();
  });

  it("says what is wrong with a file that is none", () => {
    expect(() => decodeLog(new Uint8Array(10))).toThrow("event log must start with a line of JSON; found no line");
  });
});
