import { expect, test } from "vitest";
import { LIVE_DEFAULTS, liveWindow } from "../../policies/live.js";
import { systemClock } from "../../wire/clock/clock.js";
import { QUEUES_MAX, ThreadsClient } from "./threads-client.js";

const network = { controlUs: 300, dataUsPerRequest: 0, responseUs: 200 };
const GROUP = { name: "g", network, acceleratorsMax: 2, requestsMax: 64, retriesMax: 1, learn: true };

function create(events: { broke(error: unknown): void }): ThreadsClient {
  return new ThreadsClient(
    { groups: [GROUP], slots: 64, clock: systemClock, eventLog: null, threads: 2 },
    { dispatched: () => {}, ended: () => {}, predicted: () => {}, warned: () => {}, ...events },
  );
}

test("adds as many queues as there can be and says no to one more, until one has closed", async () => {
  let broken: unknown = null;
  const client = create({
    broke: (error) => {
      broken = error;
    },
  });
  await client.start();
  const window = liveWindow("deferred", {}, 50_000, LIVE_DEFAULTS);
  const add = (queue: number): boolean =>
    client.addQueue({ group: 0, queue, sloUs: 50_000, lengthMax: 10, window, timesUs: [1000, 1500] });
  for (let queue = 0; queue < QUEUES_MAX; queue++) expect(add(queue)).toBe(true);
  expect(add(QUEUES_MAX)).toBe(false);
  client.removeQueue(7);
  await expect.poll(() => add(7), { timeout: 5000 }).toBe(true);
  await client.stop();
  expect(broken).toBeNull();
});

test("an event log is refused: threads see events in no one order", () => {
  const eventLog = { file: "e.log", bytesMax: 1 << 20 };
  const events = { dispatched: () => {}, ended: () => {}, predicted: () => {}, warned: () => {}, broke: () => {} };
  expect(
    () => new ThreadsClient({ groups: [GROUP], slots: 64, clock: systemClock, eventLog, threads: 1 }, events),
  ).toThrow(/event log/);
});
