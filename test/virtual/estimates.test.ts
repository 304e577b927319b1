/** What a client is told of why it was dropped is what the scheduler dropped it by: whole servers in virtual time. */
import { expect, test } from "vitest";
import { VirtualServer } from "../support/virtual-server.js";

const SEEDS = 60;
const MS = 1000;

test("estimate_us of a request that was given up is never less than the scheduler's estimate, and is that one where it decides", async () => {
  let told = 0;
  let same = 0;
  for (let seed = 0; seed < SEEDS; seed++) {
    const world = new VirtualServer(seed);
    await world.start();
    const { requests } = world.server.driver;
    const ended = requests.ended.bind(requests);
    requests.ended = (slot, outcome, reason, at, lateByUs) => {
      const open = world.calls.filter(({ end }) => end === "open");
      ended(slot, outcome, reason, at, lateByUs);
      const details = open.find(({ end }) => end !== "open")?.details;
      if (lateByUs === 0 || details === undefined) return;
      const leastUs = Math.round(details.deadlineUs! + lateByUs);
      told++;
      if (details.estimateUs === leastUs) same++;
      expect(details.estimateUs, `seed ${seed}`).toBeGreaterThanOrEqual(leastUs);
      expect(leastUs, `seed ${seed}`).toBeGreaterThan(details.deadlineUs!);
    };
    world.traffic(100 * MS);
    await world.pass(300 * MS);
    world.heal();
    await world.until(world.server.driver.idle());
    await world.stop(1000);
  }
  expect(told).toBeGreaterThan(200);
  expect(same).toBeGreaterThan(20);
});
