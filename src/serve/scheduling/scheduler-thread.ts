/**
 * The scheduler's own thread: sleeps in Atomics.wait until a record comes or something is due (setTimeout has steps of
 * 1 ms; a deferred batch leaves within 0.1 ms of its time), reads the clock after every wake-up, takes a turn.
 */
import { parentPort, workerData } from "node:worker_threads";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { recorderOf } from "./event-recorder.js";
import { SchedulerLoop } from "./scheduler-loop.js";
import type { SchedulerSetup } from "./scheduler-protocol.js";

const setup = workerData as SchedulerSetup;
// The port's only messages: warnings for the log.
const recorder = recorderOf(setup, (why) => parentPort?.postMessage(why));
const loop = new SchedulerLoop(setup, (writer) => writer.waitForRoom(1000), recorder);

let dueAt = Number.POSITIVE_INFINITY;
while (!loop.isStopped) {
  const now = monotonicNow();
  if (dueAt > now) {
    if (dueAt - now > 20_000) recorder?.flush();
    loop.sleep((dueAt - now) / 1000);
  }
  dueAt = loop.turn(monotonicNow());
}
recorder?.close();
