/** A task deleted while its requests wait and run, over accelerators on timers. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FakeServer, group, modelSpec } from "../fakes/fake-server.js";
import { elasticSpec } from "../support/specs.js";

const ELASTIC = elasticSpec();

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-tasks-"));
  for (const name of ["a", "b"]) {
    const own = path.join(folder, "tasks", name);
    mkdirSync(own, { recursive: true });
    const accuracy = { "-1": 0.5, 0: 0.75 };
    writeFileSync(path.join(own, "task.json"), JSON.stringify({ name, classes: ["x", "y"], accuracy }));
    writeFileSync(path.join(own, "head.bin"), new Uint8Array(16));
  }
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const turns = async (isReached: () => boolean): Promise<void> => {
  while (!isReached()) await new Promise((resolve) => setImmediate(resolve));
};

for (const schedulerMode of ["inline", { threads: 1 }] as const)
  test(`what waits ends once, as task-deleted; what runs is answered, and others are: ${JSON.stringify(schedulerMode)}`, async () => {
    const spec = modelSpec({ elastic: ELASTIC, folder, batchSizeMax: 1, policy: "eager" });
    let batches = 0;
    // The first runs until it is told to end, however slow the machine.
    const execMs = (): number => (batches++ === 0 ? 1e6 : 1);
    const fake = await new FakeServer([spec], [group(1)], { schedulerMode, execMs }).start();
    const ask = (task: string) => fake.infer({ parameters: { task } });
    const ofA = Array.from({ length: 5 }, () => ask("a"));
    const ofB = Array.from({ length: 2 }, () => ask("b"));
    await turns(() => fake.pool.holds[0]! > 0);
    const removed = fake.server.tasks.remove("m", "a");
    const refused = await ask("a");
    expect(refused.error).toMatchObject({ code: "not-found", details: { reason: "unknown-task" } });
    fake.pool.finish(0);
    expect(await removed).toMatchObject({ name: "a", version: 1 });
    expect(existsSync(path.join(folder, "tasks", "a"))).toBe(false);
    const ends = await Promise.all(ofA);
    // An accelerator holds two: what was sent ahead of the first's end is answered, unless the deletion overtook it.
    const answered = ends.filter(({ error }) => error === null).length;
    expect([1, 2]).toContain(answered);
    expect(ends.map(({ error }) => error?.details.reason ?? "answered")).toEqual(
      ofA.map((_, at) => (at < answered ? "answered" : "task-deleted")),
    );
    expect(ends[2]!.error).toMatchObject({ code: "not-found" });
    for (const { reply } of await Promise.all(ofB)) expect(reply?.parameters).toEqual({ gamma: 0 });
    await fake.server.idle();
    expect(fake.extraAnswers).toBe(0);
    expect(await fake.metric("rubato_requests_total", ['outcome="failed"', 'reason="task-deleted"'])).toBe(
      5 - answered,
    );
    expect(await fake.metric("rubato_requests_total", ['outcome="finished"'])).toBe(answered + 2);
    expect(fake.server.tasks.list("m").map(({ name }) => name)).toEqual(["b"]);
    await fake.stop();
  });

test("requests say what they are worth, within bounds; policies are told kind and weight", async () => {
  const spec = modelSpec({ elastic: ELASTIC, folder });
  const fake = await new FakeServer([spec], [group(1)], { execMs: () => 1 }).start();
  const ends = await Promise.all([
    fake.infer({ parameters: { task: "b", utility: 0.5 } }),
    fake.infer({ parameters: { task: "a" } }),
  ]);
  expect(ends.map(({ error }) => error)).toEqual([null, null]);
  // One batch mixes tasks: kinds as they were read, a before b.
  expect(fake.pool.runs.flatMap(({ batch }) => batch.kinds).sort()).toEqual([1, 2]);
  await fake.stop();
});
