/** The online profiler of the live server, in virtual time under faults: what it does is a function of the seed, and its log replays. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { decodeLog, replay } from "../../src/core/event-log.js";
import { LOG_SHADOW_ADDED, LOG_WIDTH } from "../../src/core/event-rows.js";
import { liveSpec } from "../../src/policies/live.js";
import { groupPolicy } from "../../src/policies/registry.js";
import { VirtualServer } from "../support/virtual-server.js";

const MS = 1000;
const SEEDS = [8, 25, 36, 43];

/** @returns what clients saw, and how requests fared that were run again. */
async function serve(seed: number, file: string): Promise<{ calls: string; again: Map<string, number> }> {
  const world = new VirtualServer(seed, false, { profiledPart: 1, eventLog: { file, bytesMax: 1 << 26 } });
  await world.start();
  world.traffic(500 * MS);
  await world.pass(8500 * MS);
  await world.stop(1000);
  return { calls: JSON.stringify(world.calls), again: (await world.counted()).again };
}

test(`requests are run again alike for a seed, and the log replays (seeds ${SEEDS})`, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-profiler-"));
  const file = path.join(folder, "events.log");
  let ran = 0;
  try {
    for (const seed of SEEDS) {
      const first = await serve(seed, file);
      const log = decodeLog(readFileSync(file));
      const kinds = Array.from({ length: log.rows.length / LOG_WIDTH }, (_, row) => log.rows[row * LOG_WIDTH]);
      const again = [...first.again.values()].reduce((sum, each) => sum + each, 0);
      expect(kinds.filter((kind) => kind === LOG_SHADOW_ADDED)).toHaveLength(again);
      const { difference, commands } = replay(log, groupPolicy, liveSpec);
      expect(difference, `seed ${seed}`).toBeNull();
      expect(commands).toBeGreaterThan(100);
      expect(await serve(seed, file), `seed ${seed}`).toEqual(first);
      ran += first.again.get("ran") ?? 0;
    }
    expect(ran).toBeGreaterThan(0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
