/** KEDA's external scaler with a client made from the proto by another tool than the server's: @grpc/proto-loader. */
import { fileURLToPath } from "node:url";
import { type ClientReadableStream, credentials, loadPackageDefinition, type ServiceError } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { GroupScaling } from "../../src/serve/group-scaling.js";
import { type Doors, openDoors, until } from "./harness.js";

const proto = fileURLToPath(new URL("../../src/wire/proto/externalscaler.proto", import.meta.url));
// biome-ignore lint/suspicious/noExplicitAny: a client made at run time has no types
let client: any;
let doors: Doors;

const scaling = (changes: Partial<GroupScaling> = {}): GroupScaling => ({
  group: "gpu",
  acts: false,
  advice: 7,
  serving: 4,
  configured: 4,
  isActive: true,
  last: null,
  raised: 0,
  lowered: 0,
  ...changes,
});

beforeAll(async () => {
  doors = await openDoors();
  const definition = loadSync(proto, { keepCase: true, longs: String, defaults: true });
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const { externalscaler } = loadPackageDefinition(definition) as any;
  client = new externalscaler.ExternalScaler(`127.0.0.1:${doors.grpc.port}`, credentials.createInsecure());
});
beforeEach(() => {
  doors.gateway.groups = [scaling()];
});
afterAll(async () => {
  client.close();
  await doors.close();
});

const ref = (scalerMetadata: Record<string, string> = {}) => ({ name: "rubato", namespace: "default", scalerMetadata });

function ask(method: string, request: object): Promise<{ error: ServiceError | null; response: unknown }> {
  return new Promise((resolve) =>
    client[method](request, (error: ServiceError | null, response: unknown) => resolve({ error, response })),
  );
}

test("keda: IsActive says whether the group has requests", async () => {
  expect((await ask("IsActive", ref())).response).toEqual({ result: true });
  doors.gateway.groups = [scaling({ isActive: false })];
  expect((await ask("IsActive", ref())).response).toEqual({ result: false });
});

test("keda: GetMetricSpec says what one replica stands for: the group's accelerators, or as the trigger says", async () => {
  const spec = async (metadata: Record<string, string>) => (await ask("GetMetricSpec", ref(metadata))).response;
  expect(await spec({ scalerAddress: "rubato:8001" })).toEqual({
    metricSpecs: [{ metricName: "rubato-accelerators", targetSize: "4", targetSizeFloat: 4 }],
  });
  expect(await spec({ acceleratorsPerReplica: "1.5" })).toEqual({
    metricSpecs: [{ metricName: "rubato-accelerators", targetSize: "2", targetSizeFloat: 1.5 }],
  });
});

test("keda: GetMetrics is what the group's load needs, or the advice where asked for; no group needed where there is one", async () => {
  const metrics = async (metadata: Record<string, string>) =>
    (await ask("GetMetrics", { scaledObjectRef: ref(metadata), metricName: "rubato-accelerators" })).response;
  const value = (accelerators: number) => ({
    metricValues: [
      { metricName: "rubato-accelerators", metricValue: String(accelerators), metricValueFloat: accelerators },
    ],
  });
  expect(await metrics({})).toEqual(value(7));
  doors.gateway.groups = [scaling(), scaling({ group: "cpu", advice: 2 })];
  expect(await metrics({ group: "cpu" })).toEqual(value(2));
  expect(await metrics({ group: "gpu" })).toEqual(value(7));
  const last = {
    needed: 5,
    advice: 7,
    change: 0,
    reason: "cooldown",
    badRate: 0,
    idleFraction: 0.4,
    demand: 4,
  } as const;
  doors.gateway.groups = [scaling({ last })];
  expect(await metrics({})).toEqual(value(5));
  expect(await metrics({ signal: "needed" })).toEqual(value(5));
  expect(await metrics({ signal: "advice" })).toEqual(value(7));
});

test("keda: StreamIsActive tells at once and at each change, and once only", async () => {
  const stream: ClientReadableStream<{ result: boolean }> = client.StreamIsActive(ref());
  const seen: boolean[] = [];
  stream.on("data", ({ result }) => seen.push(result));
  stream.on("error", () => {});
  await until(() => seen.length === 1, "the state at once");
  doors.gateway.groups = [scaling({ isActive: false })];
  await until(() => seen.length === 2, "the change");
  doors.gateway.groups = [scaling({ isActive: true })];
  await until(() => seen.length === 3, "the change back");
  expect(seen).toEqual([true, false, true]);
  stream.cancel();
});

test("keda: StreamMetricSpec tells the metric at once", async () => {
  const stream: ClientReadableStream<unknown> = client.StreamMetricSpec(ref({ acceleratorsPerReplica: "3" }));
  const seen: unknown[] = [];
  stream.on("data", (spec) => seen.push(spec));
  stream.on("error", () => {});
  await until(() => seen.length === 1, "the spec at once");
  expect(seen[0]).toMatchObject({ metricSpecs: [{ targetSizeFloat: 3 }] });
  stream.cancel();
});

test.each<[string, string, object, number, string]>([
  ["an unknown group", "IsActive", ref({ group: "tpu" }), 3, "metadata 'group' must be one of gpu, cpu; was 'tpu'"],
  ["no group where there are two", "GetMetricSpec", ref(), 3, "metadata 'group' must be one of gpu, cpu; was ''"],
  [
    "accelerators in words",
    "GetMetricSpec",
    ref({ group: "gpu", acceleratorsPerReplica: "four" }),
    3,
    "'acceleratorsPerReplica' must be a number in (0, 65536]; was 'four'",
  ],
  [
    "no accelerators at all",
    "GetMetricSpec",
    ref({ group: "gpu", acceleratorsPerReplica: "0" }),
    3,
    "must be a number in (0, 65536]; was '0'",
  ],
  [
    "an unknown metric",
    "GetMetrics",
    { scaledObjectRef: ref({ group: "gpu" }), metricName: "queue" },
    5,
    "metricName must be 'rubato-accelerators'; was 'queue'",
  ],
  [
    "an unknown signal",
    "GetMetrics",
    { scaledObjectRef: ref({ group: "gpu", signal: "queue" }), metricName: "rubato-accelerators" },
    3,
    "metadata 'signal' must be needed or advice; was 'queue'",
  ],
  ["no object at all", "GetMetrics", { metricName: "rubato-accelerators" }, 3, "must be one of gpu, cpu; was ''"],
])("keda: refuses %s", async (_what, method, request, code, says) => {
  doors.gateway.groups = [scaling(), scaling({ group: "cpu" })];
  const { error } = await ask(method, request);
  expect(error?.code).toBe(code);
  expect(error?.details).toContain(says);
});

test("keda: a stream for an unknown group ends with an error; open streams do not keep the door open", async () => {
  const bad: ClientReadableStream<unknown> = client.StreamIsActive(ref({ group: "tpu" }));
  const error = await new Promise<ServiceError>((resolve) => bad.on("error", resolve).on("data", () => {}));
  expect(error.code).toBe(3);
  const other = await openDoors();
  other.gateway.groups = [scaling()];
  const definition = loadSync(proto);
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const { externalscaler } = loadPackageDefinition(definition) as any;
  const second = new externalscaler.ExternalScaler(`127.0.0.1:${other.grpc.port}`, credentials.createInsecure());
  const stream: ClientReadableStream<unknown> = second.StreamIsActive(ref());
  await new Promise((resolve) => stream.once("data", resolve));
  const ended = new Promise((resolve) => stream.on("end", resolve).on("error", resolve));
  const startedAt = performance.now();
  await other.close();
  expect(performance.now() - startedAt).toBeLessThan(450);
  await ended;
  second.close();
});
