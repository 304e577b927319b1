/**
 * Entry of a thread that sleeps until a moment and says so.
 *
 * setTimeout has steps of a millisecond; Atomics.wait in a thread is within 0.1 ms of what it was asked. The shared
 * words: [0] a counter that the owner bumps and notifies after it wrote a new moment; moment in a Float64.
 */
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { monotonicNow } from "./monotonic-clock.js";

const { counter, moment } = workerData as { counter: Int32Array; moment: Float64Array };
const port = parentPort as MessagePort;

for (;;) {
  const seen = Atomics.load(counter, 0);
  if (seen < 0) break;
  const wakeAt = moment[0]!;
  const leftMs = (wakeAt - monotonicNow()) / 1000;
  if (leftMs > 0) {
    // "ok" and "not-equal" mean that the moment changed: look again.
    if (Atomics.wait(counter, 0, seen, leftMs) !== "timed-out") continue;
  }
  port.postMessage(null);
  Atomics.wait(counter, 0, seen);
}
