/** KEDA's external scaler asked by a client that protoc generates for Python: a generator that shares nothing with the server. */
import { execFile, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createGrpcDoor } from "../../src/serve/grpc/door.js";
import { FakeGateway } from "../fakes/fake-gateway.js";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const isRequired = (process.env.RUBATO_TEST_REQUIRE ?? "").split(",").includes("grpcio-tools");
const isThere = spawnSync("python3", ["-c", "import grpc, grpc_tools"]).status === 0;
if (!isThere && !isRequired) console.log("SKIP keda with Python: install with pip install grpcio-tools");

test.skipIf(!isThere && !isRequired)("keda: a Python client generated from the proto file is served", async () => {
  expect(isThere, "grpcio-tools must be installed: pip install grpcio-tools").toBe(true);
  const gateway = new FakeGateway();
  const group = { acts: false, serving: 4, configured: 4, last: null, raised: 0, lowered: 0 };
  gateway.groups = [
    { ...group, group: "gpu", advice: 7, isActive: true },
    { ...group, group: "cpu", advice: 1, isActive: false },
  ];
  const grpc = await createGrpcDoor(gateway, { port: 0, version: "0.0.0" });
  try {
    const args = [at("./keda_check.py"), at("../../src/wire/proto/externalscaler.proto"), `127.0.0.1:${grpc.port}`];
    const { stdout } = await promisify(execFile)("python3", args, { timeout: 50_000 }).catch((error) => {
      throw new Error(`${error.stdout}\n${error.stderr}`);
    });
    const lines = stdout.trim().split("\n");
    expect(lines.filter((line) => !line.startsWith("ok - "))).toEqual([]);
    expect(lines.length).toBeGreaterThanOrEqual(10);
  } finally {
    await grpc.close(1000);
  }
});
