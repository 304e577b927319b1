import { expect, test } from "vitest";
import { linearTable, ProfiledLatency } from "../../src/core/latency/latency.js";
import { FINISHED } from "../../src/core/outcome.js";
import { Scheduler } from "../../src/core/scheduler.js";
import { createSeparablePolicy } from "../../src/policies/registry.js";
import { stream } from "../../src/sim/random.js";
import { LocalHost } from "../../src/threads/hosts.js";
import { createMemory } from "../../src/threads/memory.js";
import { ThreadedScheduler } from "../../src/threads/threaded-scheduler.js";

const MODELS = [
  { table: linearTable(1053, 5072, 18), sloUs: 25_000 },
  { table: linearTable(300, 9000, 60), sloUs: 60_000 },
  { table: linearTable(5090, 18_368, 10), sloUs: 70_000 },
];

interface Ended {
  readonly batch: number;
  readonly id: number;
  readonly startAt: number;
  readonly endAt: number;
}

/** Accelerators that take as long as planned; commands as text, so that runs can be compared. */
class Log {
  readonly lines: string[] = [];
  /** By tag. */
  readonly modelOf: number[] = [];
  readonly running: Ended[] = [];
  private readonly freeAt = new Map<number, number>();

  run(
    batch: number,
    id: number,
    model: number,
    members: readonly number[],
    execAt: number,
    execUs: number,
    at: number,
  ) {
    const startAt = Math.max(execAt, at, this.freeAt.get(id) ?? 0);
    this.freeAt.set(id, startAt + execUs);
    this.running.push({ batch, id, startAt, endAt: startAt + execUs });
    this.lines.push(`${at} run ${members.join(",")} of ${model} on ${id} at ${execAt}`);
  }

  end(tag: number, outcome: number, reason: number, execStartAt: number, at: number, lateByUs: number) {
    this.lines.push(`${at} end ${tag} ${outcome} ${reason} ${execStartAt} ${lateByUs}`);
  }

  next(): Ended | undefined {
    let best: Ended | undefined;
    for (const each of this.running) if (best === undefined || each.endAt < best.endAt) best = each;
    return best;
  }

  take(ended: Ended) {
    this.running.splice(this.running.indexOf(ended), 1);
  }
}

interface Driven {
  readonly log: Log;
  readonly dueAt: () => number;
  join(id: number, scale: number, at: number): void;
  arrive(model: number, tag: number, at: number, deadline: number): void;
  finished(ended: Ended, at: number): void;
  wake(at: number): void;
}

function inOneThread(policy: string, options: object, network: typeof NETWORK, models = MODELS): Driven {
  const log = new Log();
  const scheduler: Scheduler = new Scheduler(
    createSeparablePolicy(policy, options as never),
    {
      dispatch: (batch, id, at) => {
        const { batches, requests } = scheduler;
        const members: number[] = [];
        for (let each = batches.first[batch]!; each >= 0; each = requests.next[each]!)
          members.push(requests.tag[each]!);
        log.run(batch, id, batches.queue[batch]!, members, batches.execAt[batch]!, batches.execUs[batch]!, at);
      },
      end: (request, outcome, reason, execStartAt, at, lateByUs) =>
        log.end(scheduler.requests.tag[request]!, outcome, reason, execStartAt, at, lateByUs),
      batchEnded: () => {},
      preempt: () => {},
    },
    { network, acceleratorsMax: 4, requestsMax: 10_000, retriesMax: 1, learn: false },
  );
  for (const { table, sloUs } of models)
    scheduler.addQueue({ latency: new ProfiledLatency(table), sloUs, lengthMax: 1000 });
  return {
    log,
    dueAt: () => scheduler.nextWakeAt,
    join: (id, scale, at) => scheduler.join(id, scale, at),
    arrive: (model, tag, at, deadline) => void scheduler.arrive(model, tag, at, deadline, at),
    finished: ({ batch, startAt, endAt }, at) => scheduler.finished(batch, startAt, endAt, at),
    wake: (at) => {
      while (scheduler.nextWakeAt <= at) scheduler.wake(at);
    },
  };
}

/** After every event the actors take turns until none has anything to do. */
function onThreads(
  policy: string,
  options: object,
  network: typeof NETWORK,
  threads: number,
  models = MODELS,
  oneAtATime = true,
): Driven {
  const log = new Log();
  const run = {
    network,
    acceleratorsMax: 4,
    queuesMax: 16,
    requestsMax: 10_000,
    tagsMax: 100_000,
    retriesMax: 1,
    learn: false,
    oneAtATime,
    threadsMax: 4,
  };
  const memory = createMemory(run);
  const create = () => createSeparablePolicy(policy, options as never);
  const host: LocalHost = new LocalHost({ options: run, memory, rowsMax: 0 }, create, (each) => front.pollThread(each));
  const front: ThreadedScheduler = new ThreadedScheduler(run, memory, host, {
    dispatch: (batch, model, { accelerator: id, size, members, execAt, execUs, at }) =>
      log.run(batch, id, model, [...members.subarray(0, size)], execAt, execUs, at),
    end: (tag, outcome, reason, execStartAt, at, lateByUs) => log.end(tag, outcome, reason, execStartAt, at, lateByUs),
    batchEnded: () => {},
  });
  const settle = (at: number): void => {
    for (let isBusy = true; isBusy; ) {
      front.show();
      isBusy = false;
      for (let thread = 0; thread < threads; thread++) if (host.turnThread(thread, at)) isBusy = true;
      if (host.turnRank(at)) isBusy = true;
      front.poll(at);
    }
  };
  for (let thread = 0; thread < threads; thread++) front.startThread();
  for (const [model, { table, sloUs }] of models.entries())
    front.addModel({ execUs: [...table.subarray(1, table.length - 1)], sloUs, lengthMax: 1000 }, [model % threads]);
  settle(0);
  return {
    log,
    dueAt: () => host.rank!.dueAt,
    join: (id, scale, at) => {
      front.join(id, scale);
      settle(at);
    },
    arrive: (model, tag, at, deadline) => void front.arrive(model, tag, at, deadline),
    finished: ({ batch, startAt, endAt }) => front.finished(batch, startAt, endAt),
    wake: (at) => settle(at),
  };
}

const NETWORK = { controlUs: 0, dataUsPerRequest: 0, responseUs: 0 };

function drive(
  driven: Driven,
  seed: number,
  load: number,
  models = MODELS,
  scales: readonly number[] = [1, 1, 1, 1],
): readonly string[] {
  const random = stream(seed, "lockstep");
  const { log } = driven;
  for (const [id, scale] of scales.entries()) driven.join(id, scale, id);
  let arrivalAt = 1000;
  let now = 1000;
  for (let tag = 0; ; ) {
    now = Math.max(
      now,
      Math.min(
        log.next()?.endAt ?? Number.POSITIVE_INFINITY,
        tag < 4000 ? arrivalAt : Number.POSITIVE_INFINITY,
        driven.dueAt(),
      ),
    );
    if (now === Number.POSITIVE_INFINITY) return byMoment(log.lines);
    // Simultaneous events before timers.
    for (let ended = log.next(); ended !== undefined && ended.endAt <= now; ended = log.next()) {
      log.take(ended);
      driven.finished(ended, now);
    }
    for (; tag < 4000 && arrivalAt <= now; arrivalAt += Math.ceil((-Math.log1p(-random()) * 650) / load)) {
      const model = Math.floor(random() * models.length);
      log.modelOf[tag] = model;
      driven.arrive(model, tag++, now, now + models[model]!.sloUs);
    }
    driven.wake(now);
  }
}

/** Threads speak in no order within a moment. */
function byMoment(lines: readonly string[]): string[] {
  const at = (line: string): number => Number.parseInt(line, 10);
  return [...lines].sort((a, b) => at(a) - at(b) || (a < b ? -1 : a > b ? 1 : 0));
}

const DELAYED = { controlUs: 100, dataUsPerRequest: 50, responseUs: 0 };

/** A thread rehearses nothing. */
const OWN = { rehearse: false };

/** With `auto` a thread knows what its own queues share at once, what others' share with its next question. */
test.each([
  ["deferred", {}, NETWORK, [1, 3]],
  ["deferred", {}, DELAYED, [1, 3]],
  ["eager", {}, NETWORK, [1, 3]],
  ["timeout", { timeout_fraction: 0.3 }, NETWORK, [1, 3]],
  ["auto", OWN, NETWORK, [1]],
  ["auto", OWN, DELAYED, [1]],
  ["deferred+", {}, NETWORK, [1]],
  ["deferred", { isolation: true }, NETWORK, [1, 3]],
  ["deferred", { isolation: true }, DELAYED, [1, 3]],
  ["auto", { ...OWN, isolation: true }, NETWORK, [1]],
])(
  "lockstep: threads give the commands of a Scheduler (%s %j, network %j, %j threads)",
  (policy, options, network, counts) => {
    for (let seed = 1; seed <= 9; seed++) {
      const load = [0.5, 1, 1.6][seed % 3]!;
      const one = drive(inOneThread(policy, options, network), seed, load);
      expect(one.length).toBeGreaterThan(4000);
      for (const threads of counts)
        expect(drive(onThreads(policy, options, network, threads), seed, load), `seed ${seed}`).toEqual(one);
    }
  },
);

test.each([
  ["auto", OWN],
  ["deferred+", {}],
] as const)(
  "lockstep: a model alone looks ahead on a thread as in a Scheduler, unlike accelerators included (%s)",
  (policy, own) => {
    for (const [seed, scales] of [
      [1, [1, 1, 1, 1]],
      [2, [1, 1.3, 1, 2.6]],
      [3, [1]],
    ] as const) {
      const [alone] = [MODELS.slice(0, 1)];
      const one = drive(inOneThread(policy, own, NETWORK, alone), seed, 0.9 * scales.length, alone, scales);
      // It would not be the same without: the rest of the rules do not make it so.
      const blind = drive(
        inOneThread(policy, { ...own, look_ahead: false }, NETWORK, alone),
        seed,
        0.9 * scales.length,
        alone,
        scales,
      );
      expect(blind).not.toEqual(one);
      for (const threads of [1, 3])
        expect(
          drive(onThreads(policy, own, NETWORK, threads, alone), seed, 0.9 * scales.length, alone, scales),
        ).toEqual(one);
    }
  },
);

test.each([
  ["auto", OWN],
  ["deferred+", {}],
] as const)(
  "three threads finish as many as a Scheduler under %s, within half a point of the requests; each ends once",
  (policy, own) => {
    let difference = 0;
    for (let seed = 1; seed <= 12; seed++) {
      const load = [0.5, 0.8, 1, 1.6][seed % 4]!;
      const one = drive(inOneThread(policy, own, NETWORK), seed, load);
      const three = drive(onThreads(policy, own, NETWORK, 3), seed, load);
      expect(new Set(endsIn(three)).size).toBe(4000);
      expect(endsIn(three)).toHaveLength(4000);
      difference += finishedIn(three).length - finishedIn(one).length;
    }
    expect(Math.abs(difference / (12 * 4000))).toBeLessThan(0.005);
  },
);

test("isolation holds where others are served while a queue answers: a short SLO beside long batches, a thread each", () => {
  const models = [
    { table: linearTable(50, 950, 32), sloUs: 16_000 },
    { table: linearTable(10_000, 1000, 32), sloUs: 250_000 },
  ];
  const shares = (driven: Driven): number[] => {
    const finished = finishedIn(drive(driven, 1, 0.118, models, [1, 1]));
    const { modelOf } = driven.log;
    const count = (tags: readonly number[], model: number): number =>
      tags.filter((tag) => modelOf[tag] === model).length;
    return models.map((_, model) => count(finished, model) / count([...modelOf.keys()], model));
  };
  for (const policy of ["deferred", "auto"]) {
    const on = (isolation: boolean): number[] =>
      shares(onThreads(policy, { isolation, idle_dispatch: true }, NETWORK, 2, models, false));
    const [short, long] = on(true);
    expect(on(false)[0]).toBeLessThan(0.91);
    const [one] = shares(inOneThread(policy, { isolation: true, idle_dispatch: true }, NETWORK, models));
    expect(Math.abs(short! - one!)).toBeLessThan(0.01);
    expect(one).toBeGreaterThan(0.96);
    expect(long).toBeGreaterThan(0.99);
  }
});

const endsIn = (lines: readonly string[]): string[] =>
  lines.filter((line) => line.includes(" end ")).map((line) => line.split(" ")[2]!);
/** Tags of requests that finished in time. */
const finishedIn = (lines: readonly string[]): number[] =>
  lines.flatMap((line) => {
    const [, tag] = new RegExp(` end (\\d+) ${FINISHED} `).exec(line) ?? [];
    return tag === undefined ? [] : [Number(tag)];
  });
