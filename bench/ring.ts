/**
 * How long from a published record on the main thread to the thread's answer back on the main thread, by doorbell.
 *
 * For: choosing how the scheduler's thread wakes the main thread (Atomics.waitAsync or a MessagePort).
 * Not for: throughput of the ring, which copies twelve doubles and is never what limits.
 *
 * Run: `npx tsc -p tsconfig.json --outDir <folder>`, then `node <folder>/bench/ring.js [round trips]`.
 */
import { MessageChannel, Worker } from "node:worker_threads";
import { createRing, RING_WIDTH, RingReader, RingWriter } from "../src/wire/ring.js";

const rounds = Number(process.argv[2] ?? 5000);

const echo = `const { workerData } = require("node:worker_threads");
  const a = new Int32Array(workerData.to.control), b = new Int32Array(workerData.from.control);
  for (let seen = 0; ; ) {
    Atomics.wait(a, 0, seen);
    seen = Atomics.load(a, 0);
    Atomics.store(a, 16, seen);
    Atomics.store(b, 0, seen);
    if (workerData.port) workerData.port.postMessage(0);
    else Atomics.notify(b, 0);
    if (seen >= ${rounds}) break;
  }`;

async function measure(doorbell: "waitAsync" | "port", pauseMs: number): Promise<void> {
  const to = createRing(64);
  const from = createRing(64);
  const channel = new MessageChannel();
  const workerData = { to, from, port: doorbell === "port" ? channel.port2 : null };
  const thread = new Worker(echo, { eval: true, workerData, transferList: doorbell === "port" ? [channel.port2] : [] });
  const writer = new RingWriter(to);
  const reader = new RingReader(from);
  const times: number[] = [];
  let digest = 0;
  const rung = (): Promise<unknown> | null =>
    doorbell === "waitAsync" ? reader.waitAsync() : new Promise((resolve) => channel.port1.once("message", resolve));
  const keepAlive = setInterval(() => {}, 1000);
  const total = pauseMs > 0 ? Math.min(rounds, 500) : rounds;
  for (let round = 0; round < total; round++) {
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    const startedAt = process.hrtime.bigint();
    const answer = doorbell === "port" ? rung() : null;
    const offset = writer.claim();
    writer.cells[offset] = round;
    writer.publish();
    if (doorbell === "port") await answer;
    else while (reader.available === 0) await rung();
    times.push(Number(process.hrtime.bigint() - startedAt) / 1000);
    digest += reader.offsetAt(0) / RING_WIDTH;
    reader.release(reader.available);
  }
  clearInterval(keepAlive);
  channel.port1.close();
  await thread.terminate();
  times.sort((x, y) => x - y);
  const at = (q: number): string => times[Math.floor(q * (times.length - 1))]!.toFixed(1);
  console.log(
    `${doorbell.padEnd(9)} pause ${pauseMs} ms: p50 ${at(0.5)} p90 ${at(0.9)} p99 ${at(0.99)} max ${at(1)} us, digest ${digest}`,
  );
}

for (const pauseMs of [0, 5]) for (const doorbell of ["waitAsync", "port"] as const) await measure(doorbell, pauseMs);
