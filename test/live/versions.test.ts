/** Several versions of a model served at once, and what config.pbtxt says of requests, on the fake pool. */
import { expect, it } from "vitest";
import { durationUs } from "../../src/core/time.js";
import { ServingError } from "../../src/wire/serving-error.js";
import { FakeServer, group, modelSpec } from "../fakes/fake-server.js";

const versions = ["2", "10", "9223372036854775807"];
const newest = versions[2]!;
const specs = () => versions.map((version) => modelSpec({ version, versions }));

it("each version answers for itself, and the greatest for who names none", async () => {
  const fake = await new FakeServer(specs(), [group(1)]).start();
  for (const version of ["", ...versions]) {
    const { reply } = await fake.infer({ version });
    expect(reply?.version).toBe(version === "" ? newest : version);
    expect(fake.pool.runs.at(-1)!.batch.spec?.version).toBe(reply?.version);
    expect(fake.server.modelReady("m", version)).toBe(true);
    expect(fake.server.model("m", version).version).toBe(reply?.version);
  }
  const { error } = await fake.infer({ version: "3" });
  expect(error).toMatchObject({ code: "not-found", details: { reason: "unknown-version" } });
  expect(error?.message).toContain("versions 2, 10, 9223372036854775807 are served");
  await fake.stop();
});

it("requests of two versions never share a batch", async () => {
  const fake = await new FakeServer(specs(), [group(1)], { execMs: () => 20 }).start();
  const calls = Array.from({ length: 12 }, (_, i) => fake.infer({ version: versions[i % 3]! }));
  expect((await Promise.all(calls)).every(({ reply }, i) => reply?.version === versions[i % 3])).toBe(true);
  const members = new Map<string, number>();
  for (const { batch } of fake.pool.runs)
    members.set(batch.spec!.version, (members.get(batch.spec!.version) ?? 0) + batch.members.length);
  expect([...members.values()]).toEqual([4, 4, 4]);
  await fake.stop();
});

it("index, statistics and metrics tell the versions apart", async () => {
  const fake = await new FakeServer(specs(), [group(1)]).start();
  await fake.infer({ version: "2" });
  await fake.infer({ version: "2" });
  await fake.infer({ version: "10" });
  expect(fake.server.repositoryIndex(true).map(({ version, state }) => [version, state])).toEqual(
    versions.map((version) => [version, "READY"]),
  );
  const counts = (version: string) =>
    fake.server.statistics("m", version).map((row) => [row.version, row.success.count]);
  expect(counts("")).toEqual([
    ["2", 2],
    ["10", 1],
    [newest, 0],
  ]);
  expect(counts("10")).toEqual([["10", 1]]);
  expect(fake.server.modelNames()).toEqual(["m"]);
  await fake.stop();
});

it("a reload takes all at once; a version that cannot be loaded leaves what was served", async () => {
  const fake = await new FakeServer(specs(), [group(1)], { modelControl: "explicit" }).start();
  await fake.server.load("m", {});
  fake.specs.splice(
    0,
    3,
    modelSpec({ version: "11", versions: ["11", "12"] }),
    modelSpec({ version: "12", versions: ["11", "12"] }),
  );
  const before = fake.pool.loads;
  const load = fake.pool.loadBeside.bind(fake.pool);
  // The second of them fails: the first, loaded already, goes as well.
  fake.pool.loadBeside = async (spec) => {
    if (spec.version === "12") throw new ServingError("unavailable", "broken");
    await load(spec);
  };
  await expect(fake.server.load("m", {})).rejects.toThrow("broken");
  expect(fake.pool.loads).toBe(before + 1);
  expect(fake.pool.loaded.map(({ version }) => version)).toEqual(versions);
  expect((await fake.infer({ version: "10" })).reply?.version).toBe("10");
  fake.pool.loadBeside = load;
  await fake.server.load("m", {});
  await expect.poll(() => fake.pool.loaded.map(({ version }) => version)).toEqual(["11", "12"]);
  expect((await fake.infer({ version: "10" })).error?.message).toContain("versions 11, 12 are served");
  await fake.server.unload("m");
  expect(fake.pool.loaded).toEqual([]);
  expect(fake.server.repositoryIndex(false)).toMatchObject([{ name: "m", version: "", state: "UNAVAILABLE" }]);
  await fake.stop();
});

it("with reshape the model sees its own shape, and the client the one that metadata tells", async () => {
  const tensor = { datatype: "FP32", batchAxis: 0, variable: null, optional: false, shape: [-1, 1, 1] };
  const spec = modelSpec({
    inputs: [{ name: "x", ...tensor, clientShape: [-1, 1] }],
    outputs: [{ name: "y", ...tensor, clientShape: [-1] }],
  });
  const fake = await new FakeServer([spec], [group(1)]).start();
  const { reply } = await fake.infer({ rows: 3 });
  expect(fake.pool.runs[0]!.batch.members[0]![0]!.shape).toEqual([3, 1, 1]);
  expect(reply!.outputs[0]!.shape).toEqual([3]);
  await fake.stop();
});

const deadlineAfterMs = async (changes: Parameters<typeof modelSpec>[0], timeoutMs?: number): Promise<number> => {
  const spec = modelSpec({ defaultTimeoutUs: durationUs(50_000), policy: "eager", ...changes });
  const fake = await new FakeServer([spec], [group(1)], { execMs: () => 400 }).start();
  const { error } = await fake.infer(timeoutMs === undefined ? {} : { timeoutMs });
  await fake.stop();
  return Number(error?.details.deadlineUs) / 1000;
};

it("a default timeout may be shortened by a request, or not even that, as config.pbtxt says", async () => {
  expect(await deadlineAfterMs({ timeoutOverride: "shorten" })).toBe(50);
  expect(await deadlineAfterMs({ timeoutOverride: "shorten" }, 30)).toBe(30);
  expect(await deadlineAfterMs({ timeoutOverride: "shorten" }, 80)).toBe(50);
  expect(await deadlineAfterMs({ timeoutOverride: "never" }, 30)).toBe(50);
  expect(await deadlineAfterMs({ timeoutOverride: "never" }, 80)).toBe(50);
  expect(await deadlineAfterMs({}, 80)).toBe(80);
});
