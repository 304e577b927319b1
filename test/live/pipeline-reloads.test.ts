/** What a pipeline leaves behind that is loaded anew, or whose folder becomes a model's. */
import { expect, test } from "vitest";
import { parsePipelineFile } from "../../src/config/server/pipelines/pipeline-file.js";
import { FakeServer, fp32, group, modelSpec } from "../fakes/fake-server.js";
import { VirtualPipeline } from "../support/virtual-pipeline.js";

test("one that was replaced is kept until its last request has ended, and no longer", async () => {
  const spec = modelSpec({ name: "a", group: "g", emulated: { alphaMs: 0, betaMs: 50, tableMs: null } });
  const world = new VirtualPipeline(
    [group(1, { name: "g" })],
    [spec],
    "slo_ms: 500\nmodules: [{ id: 0, name: a, pres: [] }]\n",
  );
  const { clock } = world;
  const { pipelines } = world.server;
  await world.start();
  const ends: boolean[] = [];
  clock.in(10, () => world.ask([fp32("x", 1, 7)], (reply) => ends.push(reply !== null)));
  await clock.run(clock.now() + 1000);
  for (let load = 0; load < 5; load++) await pipelines.load("p", false);
  await clock.run(clock.now() + 1000);
  // The first one has a request on its accelerator, the others had none.
  expect([ends, pipelines.live, pipelines.leavingCount]).toEqual([[], 1, 1]);
  await clock.run(clock.now() + 100_000);
  expect([ends, pipelines.live, pipelines.leavingCount]).toEqual([[true], 0, 0]);
  await world.end(clock.now() + 1_000_000);
});

test("a folder that becomes a pipeline's, and a model's again, is what it is when it is loaded, and listed once", async () => {
  const model = (name: string) => modelSpec({ name, group: "g", emulated: { alphaMs: 0, betaMs: 1, tableMs: null } });
  const [a, b] = [model("a"), model("b")];
  let pipelines: string[] = [];
  let file = "";
  const fake = new FakeServer([a, b], [group(1, { name: "g" })], {
    modelControl: "explicit",
    pipelines: {
      pipelines: () => pipelines,
      isPipeline: (name) => pipelines.includes(name),
      readPipeline: () => ({ folder: "", read: parsePipelineFile(file, "b/pipeline.yaml") }),
    },
  });
  const { server } = fake;
  const become = (kind: "model" | "pipeline", text = ""): void => {
    fake.specs.splice(0, 2, a, ...(kind === "model" ? [b] : []));
    pipelines = kind === "model" ? [] : ["b"];
    file = text;
  };
  const states = () => server.repositoryIndex(false).map(({ name, state }) => `${name} ${state}`);
  const good = "slo_ms: 500\nmodules: [{ id: 0, name: a, pres: [] }]\n";
  await fake.start();
  await server.load("b", {});
  become("pipeline", good);
  // What is served stays what it is, whoever asks for the index or a load.
  await expect(server.load("b", {})).rejects.toThrow(
    "'b': its folder holds a pipeline now, and it is still there as a model (READY): unload it first",
  );
  expect(states()).toEqual(["a UNAVAILABLE", "b READY"]);
  expect((await fake.infer({ model: "b" })).error).toBeNull();
  await server.unload("b");
  become("pipeline", good.replace("name: a", "name: b"));
  await expect(server.load("b", {})).rejects.toThrow("was b: it is a pipeline, and pipelines do not nest");
  expect(states()).toEqual(["a UNAVAILABLE", "b UNAVAILABLE"]);
  become("model");
  await server.load("b", {});
  expect((await fake.infer({ model: "b" })).error).toBeNull();
  await server.unload("b");
  become("pipeline", good);
  await server.load("b", {});
  expect(states()).toEqual(["a READY", "b READY"]);
  expect((await fake.infer({ model: "b" })).error).toBeNull();
  become("model");
  await expect(server.load("b", {})).rejects.toThrow("holds a model now, and it is still there as a pipeline (READY)");
  await server.unload("b");
  await server.load("b", {});
  expect(states()).toEqual(["a READY", "b READY"]);
  // A folder that is gone is asked for as what it was.
  fake.specs.pop();
  await expect(server.load("b", {})).rejects.toThrow("no model 'b'");
  await fake.stop();
});
