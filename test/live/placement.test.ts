/** Models move between groups of accelerators while requests come: none is lost, refused, or run twice (Symphony 4.4). */
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { ModelSpec } from "../../src/config/model.js";
import type { PlacementConfig } from "../../src/config/server/server.js";
import { durationUs } from "../../src/core/time.js";
import { type PlanAnswer, Planner } from "../../src/planning/planner.js";
import type { Log } from "../../src/serve/observation/log.js";
import { type Ended, FakeServer, group, modelSpec, sleep } from "../fakes/fake-server.js";

const SEED = 20_260_303;
const placementConfig = (changes: Partial<PlacementConfig> = {}): PlacementConfig => ({
  groups: ["g0", "g1", "g2"],
  // Epochs come when the test calls for them.
  epochUs: durationUs(3_600_000_000),
  movesMax: 4,
  load: "busy",
  loadImbalanceMax: 0.2,
  memoryImbalanceMax: Number.POSITIVE_INFINITY,
  gainMin: 0.02,
  rateRpsMax: null,
  memoryMbMax: null,
  memoryWeight: 0.1,
  timeLimitUs: durationUs(500_000),
  ...changes,
});
const groupsOf = (config: PlacementConfig) => config.groups.map((name) => group(1, { name }));
/** l(b) = 2b + 3 ms: alone up to 200/s on one accelerator. */
const spec = (name: string, changes: Partial<ModelSpec> = {}): ModelSpec =>
  modelSpec({
    name,
    group: "auto",
    sloUs: durationUs(300_000),
    emulated: { alphaMs: 2, betaMs: 3, tableMs: null },
    ...changes,
  });

let fake: FakeServer;
afterEach(async () => {
  if (fake.server.live) await fake.stop();
  expect(fake.broken).toBeNull();
  expect(fake.extraAnswers).toBe(0);
});

async function start(specs: ModelSpec[], config: PlacementConfig, others: readonly string[] = []): Promise<void> {
  const groups = [...groupsOf(config), ...others.map((name) => group(1, { name }))];
  fake = new FakeServer(specs, groups, { placement: { config, planner: new Planner() } });
  await fake.start();
}

const groupOf = (name: string): string => fake.server.model(name, "").group;
const epochs = (outcome: string, reason = ""): Promise<number> =>
  fake.metric("rubato_placement_epochs_total", [
    `outcome="${outcome}"`,
    ...(reason === "" ? [] : [`reason="${reason}"`]),
  ]);
const moves = (outcome: string): Promise<number> =>
  fake.metric("rubato_placement_moves_total", [`outcome="${outcome}"`]);
const indexed = (name: string) => fake.server.repositoryIndex(false).find((entry) => entry.name === name)!;

/** Open loop: requests per second of each model, for `ms` or until it is enough. @returns how they ended. */
async function load(
  rates: Readonly<Record<string, number>>,
  ms: number,
  isEnough: () => boolean = () => false,
): Promise<Ended[]> {
  const startedAt = performance.now();
  const sent = new Map<string, number>();
  const calls: Promise<Ended>[] = [];
  for (let at = 0; at < ms && !isEnough(); at = performance.now() - startedAt) {
    for (const [model, perS] of Object.entries(rates)) {
      for (let n = sent.get(model) ?? 0; n < (at / 1000) * perS; n++) {
        sent.set(model, n + 1);
        calls.push(fake.infer({ model }));
      }
    }
    await sleep(1);
  }
  return Promise.all(calls);
}

const bad = (ended: readonly Ended[]): Ended[] => ended.filter(({ reply }) => reply === null);

/** None failed, was refused or lost; 1 in 100 may have missed its deadline. */
function expectServed(ended: readonly Ended[]): void {
  const reasons = bad(ended).map(({ error }) => error!.details.reason!);
  expect(reasons.filter((reason) => !["late", "expired", "infeasible", "predicted-late"].includes(reason))).toEqual([]);
  expect(reasons.length).toBeLessThanOrEqual(0.01 * ended.length);
}

/** Each batch ran on its model's group; each request that was answered ran once. */
function expectExecutedOnce(answered: number): void {
  const names = fake.pool.groups.map(({ name }) => name);
  let members = 0;
  for (const { accelerator, batch } of fake.pool.runs) {
    expect(batch.spec!.group).toBe(names[accelerator]);
    members += batch.members.length;
  }
  expect(members).toBe(answered);
}

describe("placement", { retry: 2 }, () => {
  it("load shifts onto one group: the next epochs move models away, and no request is worse off", async () => {
    const config = placementConfig({ epochUs: durationUs(500_000), movesMax: 2 });
    await start(
      ["a", "b", "c", "d", "e", "f"].map((name) => spec(name)),
      config,
    );
    const names = fake.server.modelNames();
    for (const name of config.groups) expect(names.filter((model) => groupOf(model) === name)).toHaveLength(2);
    const busy = names.filter((model) => groupOf(model) === groupOf("a"));
    const rates = Object.fromEntries(names.map((name) => [name, busy.includes(name) ? 60 : 10]));
    let unready = 0;
    const watch = setInterval(() => {
      if (!fake.server.ready || names.some((name) => !fake.server.modelReady(name, ""))) unready++;
    }, 5);
    const isParted = (): boolean => groupOf(busy[0]!) !== groupOf(busy[1]!);
    const ended = [...(await load(rates, 5000, isParted)), ...(await load(rates, 700))];
    await fake.server.placement!.epoch();
    clearInterval(watch);
    expect(unready).toBe(0);
    expect(isParted()).toBe(true);
    const moved = await moves("moved");
    expect(moved).toBeGreaterThanOrEqual(1);
    expect(moved).toBeLessThanOrEqual(2 * (await epochs("moved")));
    expectServed(ended);
    expectExecutedOnce(ended.length - bad(ended).filter(({ error }) => error?.details.reason !== "late").length);
    // What moved away is gone there, and counts go on.
    expect(fake.pool.loaded.map(({ name }) => name).sort()).toEqual([...names].sort());
    expect(fake.server.statistics(busy[0]!, "")[0]!.inferenceCount).toBeGreaterThan(50);
    expect(await fake.metric("rubato_model_group", [`model="${busy[0]}"`])).toBe(1);
    expect(await fake.metric("rubato_placement_imbalance_ratio", ['of="load"'])).toBeLessThan(0.9);
  });

  it("an epoch moves no more than moves_max, the next ones go on from there", async () => {
    const config = placementConfig({ groups: ["g0", "g1"], movesMax: 1, gainMin: 0.01, loadImbalanceMax: 0.1 });
    // Four busy models of one group: two of them must go, one after the other.
    await start(
      [..."abcdefgh"].map((name) => spec(name)),
      config,
    );
    const where = () => Object.fromEntries(fake.server.modelNames().map((name) => [name, groupOf(name)]));
    let before = where();
    const busy = Object.keys(before).filter((name) => before[name] === before.a);
    expect(busy).toHaveLength(4);
    const rates = Object.fromEntries(Object.keys(before).map((name) => [name, busy.includes(name) ? 40 : 3]));
    for (let n = 0; n < 2; n++) {
      const [ended] = await Promise.all([load(rates, 450), sleep(350).then(() => fake.server.placement!.epoch())]);
      expectServed(ended);
      const after = where();
      expect(Object.keys(after).filter((name) => after[name] !== before[name])).toHaveLength(1);
      before = after;
    }
    expect(busy.filter((name) => groupOf(name) === groupOf(busy[0]!))).toHaveLength(2);
    expect(await moves("moved")).toBe(2);
  });

  it("groups that are even enough, or have no load, are left alone; so is a model that its owner placed", async () => {
    const config = placementConfig({ groups: ["g0", "g1"] });
    const pinned = [spec("p", { group: "g0" }), spec("q", { group: "g0" }), spec("z", { group: "other" })];
    await start([spec("a"), spec("b"), ...pinned], config, ["other"]);
    // The two that are pinned fill g0, so that both others go to g1.
    expect([groupOf("a"), groupOf("b")]).toEqual(["g1", "g1"]);
    // What another group does is no load of these.
    await load({ z: 50 }, 100);
    await fake.server.placement!.epoch();
    expect(await epochs("kept", "no-load")).toBe(1);
    await load({ a: 30, b: 30, p: 30, q: 30 }, 300);
    await fake.server.placement!.epoch();
    expect(await epochs("kept", "within-limits")).toBe(1);
    await load({ a: 5, b: 5, p: 60, q: 60 }, 300);
    await fake.server.placement!.epoch();
    expect([groupOf("p"), groupOf("q")]).toEqual(["g0", "g0"]);
    expect(await moves("moved")).toBe(0);
  });

  it("a load that fails on the new group leaves the model where it was, with the reason; it is tried again later", async () => {
    const config = placementConfig({ groups: ["g0", "g1"], movesMax: 1 });
    await start([spec("a"), spec("b"), spec("c"), spec("d")], config);
    const names = fake.server.modelNames();
    const before = groupOf("a");
    const busy = names.filter((name) => groupOf(name) === before);
    // 60 | 50 is better than 50 | 60 with more moved: the second of the busy ones is the one to go.
    const rates = Object.fromEntries(names.map((name) => [name, name === busy[0] ? 60 : name === busy[1] ? 40 : 5]));
    fake.pool.loadError = new Error("no such operator");
    const epoch = () =>
      Promise.all([load(rates, 450), sleep(350).then(() => fake.server.placement!.epoch())]).then(([ended]) => ended);
    expectServed(await epoch());
    expect(await moves("load-failed")).toBe(1);
    expect(await epochs("kept", "moves-failed")).toBe(1);
    expect(busy.map(groupOf)).toEqual([before, before]);
    expect(indexed(busy[1]!)).toMatchObject({
      state: "READY",
      reason: expect.stringMatching(/^cannot move to group 'g[01]': /),
    });
    // It is avoided for an epoch: the other one goes instead, and its load works.
    fake.pool.loadError = null;
    expectServed(await epoch());
    expect(groupOf(busy[1]!)).toBe(before);
    expect(groupOf(busy[0]!)).not.toBe(before);
    // Then it may be tried again, but is where it should be.
    expect(await moves("moved")).toBe(1);
  });

  it.each<[PlanAnswer, outcome: string, reason: string, level: string]>([
    [{ kind: "failed", message: "no answer" }, "failed", "", "error"],
    [
      {
        kind: "infeasible",
        conflicts: [
          { constraint: "memory", reach: "total", message: "S_max" },
          { constraint: "disruption", reach: "total", message: "C_max" },
        ],
      },
      "infeasible",
      "disruption+memory",
      "warn",
    ],
    [
      { kind: "not-found", violations: [{ constraint: "rate", cluster: 1, value: 3, bound: 2 }] },
      "not-found",
      "rate",
      "warn",
    ],
    [
      { kind: "planned", assignment: Int32Array.of(0, 0), objective: 0, search: "settled", elapsedMs: 1 },
      "kept",
      "settled",
      "info",
    ],
    [
      { kind: "planned", assignment: Int32Array.of(0, 1), objective: 0, search: "timed-out", elapsedMs: 1 },
      "moved",
      "timed-out",
      "info",
    ],
  ])("what the planner says is counted and logged: %o", async (answer, outcome, reason, level) => {
    const config = placementConfig({ groups: ["g0", "g1"] });
    const lines: [string, string][] = [];
    const line = (at: string) => (_fields: object, text: string) => void lines.push([at, text]);
    const log = {
      info: line("info"),
      warn: line("warn"),
      error: line("error"),
      debug: line("debug"),
    } as unknown as Log;
    const first = { kind: "planned", assignment: Int32Array.of(0, 0), objective: 0, search: "optimal", elapsedMs: 1 };
    const answers = [first as PlanAnswer, answer];
    const planner = { plan: async () => answers.shift()!, close: async () => {} };
    fake = new FakeServer([spec("a"), spec("b")], groupsOf(config), { log, placement: { config, planner } });
    await fake.start();
    expect(await epochs("placed", "optimal")).toBe(1);
    await load({ a: 20, b: 20 }, 100);
    lines.length = 0;
    await fake.server.placement!.epoch();
    expect(await epochs(outcome, reason)).toBe(1);
    expect(lines.map(([at]) => at)).toContain(level);
    expect([groupOf("a"), groupOf("b")]).toEqual(["g0", outcome === "moved" ? "g1" : "g0"]);
  });

  it("models loaded by request go where the groups stay even, come back to their place, and may go before a move", async () => {
    const config = placementConfig({ groups: ["g0", "g1"] });
    const planner = new Planner();
    let beforeAnswer = async (): Promise<void> => {};
    const options = {
      plan: async (job: Parameters<Planner["plan"]>[0]) => {
        const answer = await planner.plan(job);
        await beforeAnswer();
        return answer;
      },
      close: () => planner.close(),
    };
    const wrongKind = spec("o", { platform: "onnx_onnxv1", emulated: null });
    fake = new FakeServer(
      [..."abcd"].map((name) => spec(name)),
      groupsOf(config),
      {
        modelControl: "explicit",
        placement: { config, planner: options },
      },
    );
    fake.specs.push(wrongKind);
    await fake.start();
    for (const name of "abcd") await fake.server.load(name, {});
    expect([..."abcd"].map(groupOf)).toEqual(["g0", "g1", "g0", "g1"]);
    await expect(fake.server.load("o", {})).rejects.toThrow(
      "model 'o': group must name a group; was auto, but placement has groups of kind emulated",
    );
    await fake.server.unload("a");
    await fake.server.load("c", {});
    await fake.server.load("a", {});
    expect(groupOf("a")).toBe("g0");
    // From the second look on they were there for a whole epoch.
    await fake.server.placement!.epoch();
    await load({ a: 60, b: 5, c: 60, d: 5 }, 300);
    beforeAnswer = async () => {
      await Promise.all(["a", "c"].map((name) => fake.server.unload(name)));
    };
    await fake.server.placement!.epoch();
    expect(await moves("gone")).toBeGreaterThanOrEqual(1);
    expect(await moves("moved")).toBe(0);
    expect(fake.server.modelNames()).toEqual(["b", "d"]);
  });

  it("memory: what has no room is refused with the bound, a plan that cannot be says which constraint", async () => {
    const config = placementConfig({ groups: ["g0", "g1"], memoryMbMax: 100 });
    const specs = [..."abc"].map((name) => spec(name, { memoryMb: 60 }));
    await start(specs, config);
    expect(await epochs("infeasible", "memory")).toBe(1);
    expect(fake.server.modelNames()).toHaveLength(2);
    const refused = fake.server.repositoryIndex(false).filter(({ state }) => state === "UNAVAILABLE");
    expect(refused).toHaveLength(1);
    expect(refused[0]!.reason).toContain("memory_mb_max of a group is 100; it needs 60");
    expect(new Set(fake.server.modelNames().map(groupOf)).size).toBe(2);
  });

  it("memory: versions of a model are placed and moved as one, and need what all of them need", async () => {
    const config = placementConfig({ groups: ["g0", "g1"], memoryMbMax: 100, loadImbalanceMax: 0.05, gainMin: 0.001 });
    const versions = ["1", "2"];
    const both = (name: string, memoryMb: number) =>
      versions.map((version) => spec(name, { version, versions, memoryMb, dynamicMemoryMb: 5 }));
    await start([...both("a", 40), ...both("b", 60), spec("c", { memoryMb: 10 })], config);
    expect(indexed("b")).toMatchObject({
      state: "UNAVAILABLE",
      reason: expect.stringContaining("it needs 125 beside"),
    });
    expect(fake.server.modelNames()).toEqual(["a", "c"]);
    const from = groupOf("a");
    const to = from === "g0" ? "g1" : "g0";
    expect(await fake.server.models.move("a", from, to, () => true)).toBe(true);
    expect(versions.map((version) => fake.server.model("a", version).group)).toEqual([to, to]);
    expect(fake.pool.loaded.filter(({ name }) => name === "a").map(({ version }) => version)).toEqual(versions);
    expect(await fake.server.models.move("a", to, from, () => false)).toBe(false);
    expect(fake.pool.loaded.filter(({ name }) => name === "a").map(({ group }) => group)).toEqual([to, to]);
  });

  it("memory: an exchange that would hold too much in between is not made", async () => {
    const config = placementConfig({ groups: ["g0", "g1"], memoryMbMax: 100, loadImbalanceMax: 0.05, gainMin: 0.001 });
    // Each group holds 90 of 100 MB: models can only be exchanged.
    const specs = [..."abcd"].map((name) => spec(name, { memoryMb: 45 }));
    await start(specs, config);
    const names = fake.server.modelNames();
    const busy = names.filter((name) => groupOf(name) === groupOf("a"));
    const rates = Object.fromEntries(names.map((name) => [name, busy.includes(name) ? 50 : 5]));
    await load(rates, 300);
    await fake.server.placement!.epoch();
    expect(await moves("no-room")).toBeGreaterThanOrEqual(2);
    expect(await moves("moved")).toBe(0);
    expect(await fake.metric("rubato_placement_epochs_total", ['outcome="kept"'])).toBe(1);
    expect(busy.map(groupOf)).toEqual([groupOf("a"), groupOf("a")]);
  });

  it("while the old group ends what it has, new requests run on the new one, and the model is one series of each metric", async () => {
    const config = placementConfig({ groups: ["g0", "g1"] });
    await start([spec("a")], config);
    const from = groupOf("a");
    const to = config.groups.find((name) => name !== from)!;
    fake.pool.stall(config.groups.indexOf(from), 200);
    const old = fake.infer({ model: "a", timeoutMs: 1000 });
    await sleep(5);
    const move = fake.server.models.move("a", from, to, () => true);
    await expect.poll(() => groupOf("a"), { interval: 1 }).toBe(to);
    expect(fake.pool.loaded).toHaveLength(2);
    const young = await fake.infer({ model: "a", timeoutMs: 1000 });
    expect(fake.pool.holds[config.groups.indexOf(from)]).toBe(1);
    const text = await fake.server.metrics();
    expect(text.match(/^rubato_model_ready\{.*\} 1$/gm)).toHaveLength(1);
    expect(await fake.metric("rubato_requests_in_flight")).toBe(1);
    const [ended, hasMoved] = await Promise.all([old, move]);
    expect([young.reply, ended.reply]).not.toContain(null);
    expect(hasMoved).toBe(true);
    expect(fake.pool.runs.map(({ batch }) => batch.spec!.group)).toEqual([from, to]);
    expect(fake.pool.loaded.map(({ group: on }) => on)).toEqual([to]);
    expect(fake.server.statistics("a", "")[0]).toMatchObject({ inferenceCount: 2 });
    // It is not there any more: nothing to move.
    expect(await fake.server.models.move("a", from, to, () => true)).toBe(false);
  });

  it("shutdown while a model is being loaded on its new group: requests end, the move is given up", async () => {
    const config = placementConfig({ groups: ["g0", "g1"], movesMax: 1 });
    await start(
      [..."abcd"].map((name) => spec(name)),
      config,
    );
    const names = fake.server.modelNames();
    const busy = names.filter((name) => groupOf(name) === groupOf("a"));
    const rates = Object.fromEntries(names.map((name) => [name, busy.includes(name) ? 60 : 5]));
    await load(rates, 300);
    let release: () => void = () => {};
    const loading = new Promise<void>((resolve) => {
      const { pool } = fake;
      const loadBeside = pool.loadBeside.bind(pool);
      pool.loadBeside = async (model) => {
        resolve();
        await new Promise<void>((go) => {
          release = go;
        });
        return loadBeside(model);
      };
    });
    const epoch = fake.server.placement!.epoch();
    await loading;
    const calls = load(rates, 200);
    await sleep(100);
    const stopped = fake.server.stop(1000, 50, async () => {});
    const ended = await calls;
    release();
    await Promise.all([epoch, stopped]);
    expectServed(ended);
    expect(await moves("aborted")).toBe(1);
    expect(await moves("moved")).toBe(0);
    expect(fake.pool.loaded.map(({ name }) => name).sort()).toEqual(names);
    expect(await fake.metric("rubato_requests_in_flight")).toBe(0);
  });

  it(`conservation under moves, cancels, crashes, refusals and reloads (seed ${SEED})`, async () => {
    const action = fc.oneof(
      {
        weight: 12,
        arbitrary: fc.record({
          kind: fc.constant("infer" as const),
          model: fc.nat(3),
          timeoutMs: fc.integer({ min: 1, max: 60 }),
          cancelAfterMs: fc.option(fc.integer({ min: 0, max: 20 }), { freq: 3 }),
        }),
      },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant("pause" as const), ms: fc.integer({ min: 0, max: 6 }) }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant("move" as const), model: fc.nat(3), to: fc.nat(2) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("reload" as const), model: fc.nat(3) }) },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constant("crash" as const), accelerator: fc.nat(2), restartMs: fc.nat(20) }),
      },
    );
    const run = async (actions: readonly (typeof action extends fc.Arbitrary<infer T> ? T : never)[]) => {
      const config = placementConfig({ timeLimitUs: durationUs(0) });
      const specs = [..."abcd"].map((name, i) => spec(name, i === 0 ? { sloUs: null } : {}));
      await start(specs, config);
      let failing = 0;
      fake.pool.failure = () => (++failing % 9 === 0 ? { cause: "model-error", message: "refused by the test" } : null);
      const ends: Promise<Ended>[] = [];
      const work: Promise<unknown>[] = [];
      for (const step of actions) {
        const model = "model" in step ? specs[step.model]!.name : "";
        if (step.kind === "pause") await sleep(step.ms);
        else if (step.kind === "crash") fake.pool.crash(step.accelerator, step.restartMs);
        else if (step.kind === "reload") work.push(fake.server.models.load(model));
        else if (step.kind === "move")
          work.push(fake.server.models.move(model, groupOf(model), config.groups[step.to]!, () => true));
        else ends.push(fake.infer({ model, timeoutMs: step.timeoutMs }, step.cancelAfterMs));
      }
      const ended = await Promise.race([Promise.all(ends), fake.whenBroken]);
      await Promise.race([Promise.all(work), fake.whenBroken]);
      await Promise.race([fake.server.driver.idle(), fake.whenBroken]);
      await sleep(30);
      expect(fake.extraAnswers).toBe(0);
      expect(fake.pool.holds).toEqual([0, 0, 0]);
      expect(fake.pool.loaded.map(({ name }) => name).sort()).toEqual(["a", "b", "c", "d"]);
      for (const { name, group: on } of fake.pool.loaded) expect(on).toBe(groupOf(name));
      for (const name of ["rubato_scheduler_requests", "rubato_scheduler_batches", "rubato_requests_in_flight"])
        expect(await fake.metric(name)).toBe(0);
      const refused = await fake.metric("rubato_requests_refused_total");
      expect(await fake.metric("rubato_requests_total")).toBe(ended.length - refused);
      const replies = ended.filter(({ reply }) => reply !== null).length;
      expect(await fake.metric("rubato_requests_total", ['outcome="finished"'])).toBe(replies);
      await fake.stop();
    };
    await fc.assert(fc.asyncProperty(fc.array(action, { minLength: 20, maxLength: 120 }), run), {
      seed: SEED,
      numRuns: 8,
      endOnFailure: true,
    });
  });
});
