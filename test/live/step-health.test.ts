/** Steps that keep ending their process, in virtual time: who asks is told why at once, and it is tried again after growing pauses. */
import { afterEach, expect, test } from "vitest";
import type { ServingError } from "../../src/wire/serving-error.js";
import { group, modelSpec } from "../fakes/fake-server.js";
import type { StepFate } from "../fakes/virtual-steps.js";
import { fp32 } from "../support/specs.js";
import { VirtualPipeline } from "../support/virtual-pipeline.js";

const SECOND = 1_000_000;
const IO = "takes: { x: { datatype: FP32, shape: [-1, 1] } }, gives: { y: { datatype: FP32, shape: [-1, 1] } }";
const FILE = `
slo_ms: 500
steps: { threads: 2 }
modules:
  - { id: 0, name: judge, step: ./s.mjs, time_ms: 1, ${IO} }
`;
const GONE = "the process of the pipeline's steps ended: exit code 1";

let begun: World | null = null;
afterEach(async () => {
  const { world } = begun!;
  await world.end(world.clock.now() + SECOND);
});

class World {
  fate: StepFate = "ends";
  readonly world = new VirtualPipeline(
    [group(1, { name: "g" })],
    [modelSpec({ name: "a", group: "g", emulated: { alphaMs: 0, betaMs: 1, tableMs: null } })],
    FILE,
    () => this.fate,
  );

  async start(): Promise<this> {
    begun = this;
    await this.world.start();
    return this;
  }

  /** One request, now. @returns null: it was answered. */
  async ask(): Promise<ServingError | null> {
    const ends: (ServingError | null)[] = [];
    this.world.ask([fp32("x", [1, 1], [0])], (_, error) => ends.push(error));
    await this.pass(0.5);
    expect(ends).toHaveLength(1);
    return ends[0]!;
  }

  async pass(seconds: number): Promise<void> {
    await this.world.clock.run(this.world.clock.now() + seconds * SECOND);
  }

  get isReady(): boolean {
    return this.world.server.modelReady("p", "");
  }

  index() {
    return this.world.server.repositoryIndex(false).find(({ name }) => name === "p");
  }

  async ended(times: number): Promise<void> {
    this.fate = "ends-process";
    for (let each = 0; each < times; each++)
      expect((await this.ask())!.message).toContain(`module 'judge': step './s.mjs'`);
  }
}

test("ready says no while the process is started again", async () => {
  const p = await new World().start();
  p.fate = "ends-process";
  p.world.ask([fp32("x", [1, 1], [0])], () => {});
  await p.pass(0.002);
  expect(p.isReady).toBe(false);
  expect(await p.world.metric("rubato_pipeline_ready", 'pipeline="p"')).toBe(0);
  await p.pass(0.05);
  expect(p.isReady).toBe(true);
  expect(await p.world.metric("rubato_pipeline_ready", 'pipeline="p"')).toBe(1);
});

test("while no thread is there a request ends at its deadline by that, in words of steps", async () => {
  const p = await new World().start();
  p.fate = "is-gone";
  expect((await p.ask())!.message).toContain(`the step's thread ended: ${GONE}`);
  for (const _ of [1, 2]) {
    const error = await p.ask();
    expect(error).toMatchObject({ code: "unavailable", details: { reason: "worker-crashed", module: "judge" } });
    expect(error!.message).toBe(
      `pipeline 'p': module 'judge': step './s.mjs': no thread of the pipeline's steps was up in time: ${GONE}`,
    );
  }
  p.fate = "ends";
  await p.pass(3);
  expect(await p.ask()).toBeNull();
});

test("after five ends in a minute requests are refused by the cause, at the entrance; the pipeline is named unavailable", async () => {
  const p = await new World().start();
  await p.ended(5);
  const refused = await p.ask();
  expect(refused).toMatchObject({ code: "unavailable", details: { reason: "worker-crashed", retryAfterS: 10 } });
  expect(refused!.message).toBe(`pipeline 'p': its steps keep ending their process: ${GONE}; tried again in 9.5 s`);
  expect([p.isReady, p.index()]).toEqual([
    false,
    expect.objectContaining({ state: "UNAVAILABLE", reason: `its steps keep ending their process: ${GONE}` }),
  ]);
  expect(
    await p.world.metric("rubato_pipeline_requests_total", 'outcome="failed"', 'reason="worker-crashed"', 'module=""'),
  ).toBe(1);
  // Whoever asks only who is ready may send again after the pause, and one is tried.
  await p.pass(9.5);
  expect([p.isReady, p.index()]).toEqual([true, expect.objectContaining({ state: "READY", reason: "" })]);
  p.fate = "ends";
  expect(await p.ask()).toBeNull();
  expect(await p.ask()).toBeNull();
  expect(p.isReady).toBe(true);
});

test("pauses double while the one that is tried ends the process, too; others are refused meanwhile", async () => {
  const p = await new World().start();
  await p.ended(5);
  for (const pauseS of [10, 20, 40, 80, 160, 160]) {
    // The end was half a second ago.
    expect((await p.ask())!.message).toContain(`tried again in ${pauseS - 0.5} s`);
    await p.pass(pauseS - 1.5);
    expect((await p.ask())!.message).toContain("tried again in 0.5 s");
    await p.pass(0.1);
    await p.ended(1);
  }
});

test("ends that are far apart are no habit", async () => {
  const p = await new World().start();
  for (let each = 0; each < 8; each++) {
    await p.ended(1);
    await p.pass(15);
  }
  p.fate = "ends";
  expect(await p.ask()).toBeNull();
});

test("what waits for a thread when it comes to that is told so, too", async () => {
  const p = await new World().start();
  await p.ended(4);
  const ends: (ServingError | null)[] = [];
  for (let each = 0; each < 12; each++) p.world.ask([fp32("x", [1, 1], [0])], (_, error) => ends.push(error));
  await p.pass(0.01);
  expect(ends).toHaveLength(12);
  for (const error of ends)
    expect(error).toMatchObject({ code: "unavailable", details: { reason: "worker-crashed", module: "judge" } });
  expect(ends.filter((error) => error!.message.includes("its steps keep ending their process"))).not.toHaveLength(0);
});
