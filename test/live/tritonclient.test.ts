/** Triton's own Python client against both doors: a client that others wrote, with its default settings. */
import { execFile, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createGrpcDoor } from "../../src/serve/grpc/door.js";
import { createHttpDoor } from "../../src/serve/http/door.js";
import { FakeGateway } from "../fakes/fake-gateway.js";

const script = fileURLToPath(new URL("./tritonclient_check.py", import.meta.url));
const isRequired = (process.env.RUBATO_TEST_REQUIRE ?? "").split(",").includes("tritonclient");
const isThere = spawnSync("python3", ["-c", "import tritonclient.grpc, tritonclient.http"]).status === 0;
if (!isThere && !isRequired) console.log("SKIP tritonclient: install with pip install 'tritonclient[all]'");

test.skipIf(!isThere && !isRequired)("doors: serve Triton's Python client over HTTP and gRPC", async () => {
  expect(isThere, "tritonclient must be installed: pip install 'tritonclient[all]'").toBe(true);
  const gateway = new FakeGateway();
  const http = await createHttpDoor(gateway, { port: 0, version: "0.0.0" });
  const grpc = await createGrpcDoor(gateway, { port: 0, version: "0.0.0" });
  try {
    const args = [script, `127.0.0.1:${http.port}`, `127.0.0.1:${grpc.port}`];
    const { stdout } = await promisify(execFile)("python3", args, { timeout: 50_000 }).catch((error) => {
      throw new Error(`${error.stdout}\n${error.stderr}`);
    });
    const lines = stdout.trim().split("\n");
    expect(lines.filter((line) => !line.startsWith("ok - "))).toEqual([]);
    expect(lines.length).toBeGreaterThan(100);
    expect(gateway.inFlight).toBe(0);
    expect([http.inFlight, grpc.inFlight]).toEqual([0, 0]);
  } finally {
    await Promise.all([http.close(1000), grpc.close(1000)]);
  }
});
