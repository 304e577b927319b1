import { expect, test } from "vitest";
import { createSeparablePolicy } from "../../src/policies/registry.js";
import { replayRun } from "../../src/threads/replay/replay.js";
import { ThreadedChaos } from "../support/threaded-chaos.js";

const POLICIES: readonly [string, Readonly<Record<string, unknown>>][] = [
  ["deferred", {}],
  ["deferred", { idle_dispatch: true }],
  ["eager", { drop: "expired" }],
  ["timeout", { timeout_fraction: 0.3 }],
  ["auto", {}],
  ["deferred+", { idle_dispatch: true }],
  ["auto", { isolation: true }],
];

test("every request ends exactly once while accelerators, models and threads come and go (1,000 seeds)", async () => {
  const total: Record<string, number> = {};
  for (let seed = 1; seed <= 1000; seed++) {
    const [policy, policyOptions] = POLICIES[seed % POLICIES.length]!;
    const chaos = new ThreadedChaos({ seed, actions: 120, policy, policyOptions, isRecording: false });
    await chaos.play();
    for (const [name, count] of Object.entries(chaos.counts)) total[name] = (total[name] ?? 0) + count;
  }
  const { arrived, finished, late, dropped, failed, cancelled, refused, stale, moved } = total as Record<
    string,
    number
  > &
    ThreadedChaos["counts"];
  expect(arrived).toBe(finished + late + dropped + failed + cancelled);
  // The script reaches what it is for.
  for (const count of [finished, late, dropped, failed, cancelled, refused, stale, moved])
    expect(count).toBeGreaterThan(100);
});

test("a record of who consumed what in which order replays to the same commands (50 seeds)", async () => {
  for (let seed = 1; seed <= 50; seed++) {
    const [policy, policyOptions] = POLICIES[seed % POLICIES.length]!;
    const chaos = new ThreadedChaos({ seed, actions: 250, policy, policyOptions, isRecording: true });
    const record = await chaos.play();
    const { difference, commands } = replayRun(record!, () => createSeparablePolicy(policy, policyOptions));
    expect(difference, `seed ${seed}`).toBeNull();
    expect(commands).toBeGreaterThan(100);
  }
});

test("the same with worker threads, each run replayed (4 short ones and a long one, more until requests finish)", async () => {
  let total = 0;
  // How far threads get between two actions is the machine's: in a short run on a slow or busy one nothing may finish.
  for (let seed = 1; seed <= 5 || (total === 0 && seed <= 40); seed++) {
    const [policy, policyOptions] = POLICIES[seed % POLICIES.length]!;
    const actions = seed <= 4 ? 200 : 2000;
    const chaos = new ThreadedChaos({ seed, actions, policy, policyOptions, isRecording: true, isReal: true });
    const record = await chaos.play();
    const { arrived, finished, late, dropped, failed, cancelled } = chaos.counts;
    expect(arrived).toBe(finished + late + dropped + failed + cancelled);
    total += finished;
    const { difference } = replayRun(record!, () => createSeparablePolicy(policy, policyOptions));
    expect(difference, `seed ${seed}`).toBeNull();
  }
  expect(total).toBeGreaterThan(0);
});
