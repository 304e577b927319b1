/**
 * What does PARD cost a request? Its double-ended queue (put and get with so many queued), a decision of the Request Broker with all that
 * belongs to it (dispatcher, load factor, queue), and what the State Planner does once a second (§5.4, Overheads).
 *
 * For: comparing with what the paper says it costs, and with later versions. Not for: the latency of a server.
 */
import { linearTable, ProfiledLatency } from "../../core/latency/latency.js";
import { FINISHED } from "../../core/outcome.js";
import type { CommandSink } from "../../core/scheduler.js";
import { NO_DELAYS, Scheduler } from "../../core/scheduler.js";
import { PLAIN } from "../../core/tables/request-table.js";
import { median } from "../../measure/statistics.js";
import { Depq } from "../../policies/pard/depq.js";
import { pard } from "../../policies/pard/pard.js";
import { stream } from "../../sim/random.js";
import { CLASSES_MAX } from "../../system/ahead/request-classes.js";
import { Forecast } from "../../system/budget/forecast.js";
import { ModuleStates, STATE_INTERVAL_US } from "../../system/module-states.js";
import { Pipeline } from "../../system/pipeline.js";
import type { BenchResult } from "../bench-result.js";
import type { BenchOptions } from "../benches.js";
import { digestOf } from "../digest.js";

const QUEUED = [10, 100, 1000, 10_000];
const LOT = 1000;
const LOTS = 300;
const WORKERS = 16;
const MODULES = 5;
const CHAIN = new Pipeline(
  Array.from({ length: MODULES }, (_, id) => ({
    id,
    name: `m${id}`,
    pres: id === 0 ? [] : [id - 1],
    subs: id === MODULES - 1 ? [] : [id + 1],
  })),
);
/** One way of two, of which one goes through parts. */
const WAYS = new Pipeline([
  { id: 0, name: "fork", pres: [], subs: [1, 4], branches: true },
  { id: 1, name: "parts", pres: [0], subs: [2], fansOut: true },
  { id: 2, name: "each", pres: [1], subs: [3] },
  { id: 3, name: "join", pres: [2], subs: [4], joins: true },
  { id: 4, name: "end", pres: [0, 3], subs: [] },
]);

/** @param size Relative to 300 lots of 1,000 operations. */
export async function benchPard({
  size,
  onProgress,
}: Pick<BenchOptions, "size" | "onProgress">): Promise<BenchResult[]> {
  const lots = Math.max(3, Math.round(LOTS * size));
  measureDepq(1000, lots);
  const results = QUEUED.map((queued) => measureDepq(queued, lots));
  onProgress("double-ended queue measured\n");
  for (const waiting of [0, 1000]) {
    measureBroker(waiting, Math.min(lots, 20));
    results.push(measureBroker(waiting, lots));
  }
  onProgress("broker measured\n");
  results.push(measurePlanner("pard-planner", CHAIN, lots), measurePlanner("pard-planner-ways", WAYS, lots));
  return results;
}

const clockUs = (): number => Number(process.hrtime.bigint()) / 1000;

/** One is put and one is got, from either end in turn. */
function measureDepq(queued: number, lots: number): BenchResult {
  const random = stream(queued, "pard/depq");
  const depq = new Depq();
  for (let id = 0; id < queued; id++) depq.put(id, random());
  const got: number[] = [];
  const times: number[] = [];
  let free = queued;
  for (let lot = 0; lot < lots; lot++) {
    const priorities = Float64Array.from({ length: LOT }, random);
    const startUs = clockUs();
    for (let each = 0; each < LOT; each++) {
      depq.put(free, priorities[each]!);
      free = each % 2 === 0 ? depq.least : depq.most;
      depq.remove(free);
    }
    times.push((clockUs() - startUs) / LOT);
    got.push(free);
  }
  return {
    name: `pard-depq-${queued}`,
    value: median(times),
    unit: "us for a put and a get",
    detail: `${queued} queued`,
    digest: digestOf(got),
  };
}

/** Batches that run until they are told to end. */
class Workers implements CommandSink {
  readonly running: number[] = [];
  ended = 0;

  dispatch(batch: number): void {
    this.running.push(batch);
  }
  end(): void {
    this.ended++;
  }
  batchEnded(): void {}
  preempt(): void {}
}

/** Requests that come, are decided about and run, one lot after another, on 16 workers. @param waiting how many more than batches hold. */
function measureBroker(waiting: number, lots: number): BenchResult {
  const sink = new Workers();
  const scheduler = new Scheduler(pard({ batch_size: 8 }), sink, {
    network: NO_DELAYS,
    acceleratorsMax: WORKERS,
    requestsMax: 100_000,
    retriesMax: 1,
    learn: false,
  });
  scheduler.addQueue({ latency: new ProfiledLatency(linearTable(1000, 2000, 8)), sloUs: 1e9, lengthMax: 100_000 });
  for (let id = 0; id < WORKERS; id++) scheduler.join(id, 1, 0);
  const random = stream(1, "pard/broker");
  let now = 0;
  let tag = 0;
  const arrive = (): void => {
    scheduler.arrive(0, tag++, now, now + 1e9 + Math.floor(random() * 1e6), now, PLAIN);
  };
  const settle = (): void => {
    while (scheduler.nextWakeAt <= now) scheduler.wake(now);
  };
  for (let each = 0; each < WORKERS * 17 + waiting; each++) {
    arrive();
    settle();
  }
  const times: number[] = [];
  for (let lot = 0; lot < lots; lot++) {
    const startUs = clockUs();
    for (let done = 0; done < LOT; ) {
      now += 10_000 / WORKERS;
      const batch = sink.running.shift()!;
      const size = scheduler.batches.size[batch]!;
      scheduler.finished(batch, now - 1, now, now);
      settle();
      for (let each = 0; each < size; each++) arrive();
      settle();
      done += size;
    }
    times.push((clockUs() - startUs) / LOT);
  }
  return {
    name: `pard-request-${waiting}`,
    value: median(times),
    unit: "us a request",
    detail: `from its arrival to the end of its batch, ${WORKERS} workers, batches of 8, ${waiting} wait beyond the next batches`,
    digest: digestOf([sink.ended, tag, now]),
  };
}

/** What modules said becomes estimates: 10,000 samples; where they branch and make parts 2,048, for each class and number of parts. */
function measurePlanner(name: string, pipeline: Pipeline, lots: number): BenchResult {
  const states = new ModuleStates(MODULES, { ways: pipeline.ways });
  const random = stream(1, "pard/planner");
  for (let module = 0; module < MODULES; module++) {
    states.came(module, 0);
    for (let request = 0; request < 500; request++) {
      if (pipeline.ways[module]! > 0) states.took(module, request % CLASSES_MAX, random() < 0.3 ? 0 : 1);
      if (pipeline.modules[module]!.fansOut) states.made(module, request % 21);
    }
    for (let part = 0; part < 500; part++) {
      states.ran(module, 8, 900_000);
      states.ended(module, FINISHED, 840_000 - Math.floor(random() * 50_000), 850_000, 900_000);
    }
  }
  states.look(STATE_INTERVAL_US);
  const forecast = new Forecast(pipeline, new Float64Array(MODULES), { lambda: 0.1, seed: 1 });
  const times: number[] = [];
  for (let round = 0; round < Math.min(lots, 100); round++) {
    const startUs = clockUs();
    forecast.published(states.board, STATE_INTERVAL_US);
    times.push((clockUs() - startUs) / 1000);
  }
  const bytes = states.board.blank().numbers.byteLength;
  return {
    name,
    value: median(times),
    unit: "ms a second",
    detail: `estimates of ${MODULES} modules from what they said, a row of ${bytes} bytes each`,
    digest: digestOf(pipeline.modules.map((_, module) => Math.round(forecast.of(module, 0, null)))),
    figures: { row_bytes: bytes },
  };
}
