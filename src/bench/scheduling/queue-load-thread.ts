/**
 * A queue thread with its own load, as in the benchmark of Symphony's public code: requests and accelerators are objects of
 * its process. Poisson arrivals go through the ring to the queues, batches come back through the other and end exactly as
 * planned; only the rank is in another thread.
 */
import { parentPort, workerData } from "node:worker_threads";
import { IndexedHeap } from "../../core/indexed-heap.js";
import { FINISHED } from "../../core/outcome.js";
import { createSeparablePolicy } from "../../policies/registry.js";
import { stream } from "../../sim/random.js";
import { Bell } from "../../threads/bell.js";
import { FREE_PACE } from "../../threads/channel.js";
import { createQueueActor, type HostSetup } from "../../threads/hosts.js";
import { rankBell } from "../../threads/memory.js";
import * as is from "../../threads/messages.js";
import { SHOWN_RANK } from "../../threads/queues/queue-outbox.js";
import { QueuePort } from "../../threads/queues/queue-port.js";
import { threadCpuUs } from "../../threads/thread-cpu.js";
import { monotonicNow } from "../../wire/clock/monotonic-clock.js";
import { RingReader, RingWriter } from "../../wire/ring.js";

export interface QueueLoadData {
  readonly thread: number;
  readonly setup: HostSetup;
  readonly originUs: number;
  /** l(1), l(2), ..., µs. */
  readonly execUs: readonly number[];
  readonly sloUs: number;
  readonly keys: readonly number[];
  readonly rateRps: number;
  readonly lotUs: number;
  /** The rate rises to its value in the first half of it; then it is measured. */
  readonly warmupS: number;
  readonly seconds: number;
}

export interface QueueLoadReport {
  readonly arrived: number;
  readonly finished: number;
  readonly batches: number;
  /** Processor time of this thread in the measured time, µs. */
  readonly cpuUs: number | null;
}

const WARMING = 0;
const MEASURED = 1;
const OVER = 2;
const PHASES = 3;

const data = workerData as QueueLoadData;
parentPort?.postMessage(run());

function run(): QueueLoadReport {
  const { thread, setup, originUs, execUs, sloUs, keys, rateRps, lotUs, warmupS, seconds } = data;
  const { options, memory } = setup;
  const { tagsMax, acceleratorsMax } = options;
  const clock = (): number => monotonicNow() - originUs;
  const rank = new Bell(memory.bells, rankBell(options));
  const bell = new Bell(memory.bells, thread);
  const uniform = stream(thread + 1, "bench/arrivals");
  const freeTags = Int32Array.from({ length: tagsMax }, (_, tag) => tag);
  let freeCount = tagsMax;
  // Before, within and after the measured time the same code runs: a branch that is new then is compiled anew then.
  const phaseOf = new Uint8Array(tagsMax);
  const arrived = new Float64Array(PHASES);
  const finished = new Float64Array(PHASES);
  const batches = new Float64Array(PHASES);
  const ends = new IndexedHeap(acceleratorsMax * 2);
  const startOf = new Float64Array(acceleratorsMax * 2);
  let phase = WARMING;
  let live = 0;
  let isClosed = 0;
  let isStopped = false;
  const { fromFront, toFront } = memory.threads[thread]!;
  const port: QueuePort = new QueuePort(
    thread,
    new RingWriter(fromFront),
    new RingReader(toFront),
    execUs.length,
    {
      isTurn: () => true,
      dispatch: (_thread, batch, _key, { execAt, execUs: us }) => {
        batches[phase] = batches[phase]! + 1;
        startOf[batch] = execAt;
        ends.set(batch, execAt + us);
      },
      end: (_thread, tag, outcome) => {
        const of = phaseOf[tag]!;
        finished[of] = finished[of]! + (outcome === FINISHED ? 1 : 0);
        live--;
        freeTags[freeCount++] = tag;
      },
      batchEnded: () => {},
      handed: () => {},
      closed: () => {
        isClosed++;
      },
      stopped: () => {
        isStopped = true;
      },
    },
    null,
  );
  const policy = createSeparablePolicy("deferred", {});
  const actor = createQueueActor(setup, thread, policy, FREE_PACE, (writer) => {
    port.poll();
    rank.ring();
    if (writer.free <= 0) bell.pause(0.05);
  });
  for (const key of keys) {
    port.send([is.ADD_QUEUE, key, sloUs, tagsMax, execUs.length]);
    for (let at = 0; at < execUs.length; at += is.IN_WIDTH - 1)
      port.send([is.TABLE, ...execUs.slice(at, at + is.IN_WIDTH - 1)]);
  }
  const turn = (now: number): void => {
    port.show();
    if ((actor.turn(now) & SHOWN_RANK) !== 0) rank.ring();
    port.poll();
  };
  const gap = (): number => (-Math.log1p(-uniform()) * 1e6) / rateRps;
  const startAt = clock();
  const rampUs = (warmupS * 1e6) / 2;
  const measureAt = startAt + warmupS * 1e6;
  const endAt = measureAt + seconds * 1e6;
  let exactAt = startAt + gap();
  // Functions of their own: the loop below is compiled anew when it first takes the branches of a new phase.
  let next = 0;
  const generate = (now: number): void => {
    // A lot is bounded, so that a thread that falls behind still turns.
    for (let lot = 0; exactAt <= now && lot < 8192; lot++) {
      const arrivalAt = Math.floor(exactAt);
      arrived[phase] = arrived[phase]! + 1;
      exactAt += gap() / Math.min(1, 0.1 + (0.9 * (exactAt - startAt)) / rampUs);
      if (freeCount === 0) continue;
      const tag = freeTags[freeCount - 1]!;
      if (!port.arrive(keys[next]!, tag, arrivalAt, arrivalAt + sloUs)) continue;
      next = next + 1 === keys.length ? 0 : next + 1;
      freeCount--;
      live++;
      phaseOf[tag] = phase;
    }
  };
  const endDue = (now: number): void => {
    while (ends.topPriority() <= now) {
      const at = ends.topPriority();
      const batch = ends.pop();
      port.finished(batch, startOf[batch]!, at);
    }
  };
  let cpuUs = threadCpuUs();
  let isOver = false;
  while (!isOver || live > 0) {
    const now = clock();
    if (phase === WARMING && now >= measureAt) {
      phase = MEASURED;
      cpuUs = threadCpuUs();
    }
    if (!isOver && now >= endAt) {
      isOver = true;
      phase = OVER;
      cpuUs = cpuUs === null ? null : threadCpuUs()! - cpuUs;
    }
    if (!isOver) generate(now);
    endDue(now);
    turn(now);
    const restUs = now + lotUs - clock();
    if (restUs > 0) bell.pause(restUs / 1000);
  }
  for (const key of keys) port.send([is.CLOSE_QUEUE, key]);
  while (isClosed < keys.length) {
    turn(clock());
    bell.pause(1);
  }
  port.send([is.STOP]);
  while (!isStopped) turn(clock());
  return { arrived: arrived[MEASURED]!, finished: finished[MEASURED]!, batches: batches[MEASURED]!, cpuUs };
}
