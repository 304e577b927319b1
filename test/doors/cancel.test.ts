/** Clients that leave at any instant, over both protocols: every place is given back and every call ends once. */
import http from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ModelInferRequest } from "../../src/wire/proto/inference.js";
import { type Doors, fp32, openDoors, until } from "./harness.js";

let doors: Doors;
beforeAll(async () => {
  doors = await openDoors();
});
afterAll(() => doors.close());

const COUNT = 200;
/** A third of the clients leave, spread over the life of their request (0 to 30 ms); the others stay. */
const leavesAfterMs = (index: number): number | null => (index % 3 === 0 ? (index * 7) % 31 : null);

async function settled(): Promise<void> {
  await until(() => doors.gateway.inFlight === 0, "the gateway is idle");
  await until(() => doors.http.inFlight === 0 && doors.grpc.inFlight === 0, "all places given back");
  expect([doors.http.inFlightBytes, doors.grpc.inFlightBytes]).toEqual([0, 0]);
}

test("http: clients that leave at any instant leave nothing behind", async () => {
  const body = JSON.stringify({
    parameters: { delay_ms: 15 },
    inputs: [{ name: "x", datatype: "FP32", shape: [1], data: [1] }],
  });
  const one = (index: number): Promise<string> =>
    new Promise((resolve) => {
      const request = http.request({ port: doors.http.port, method: "POST", path: "/v2/models/slow/infer" });
      request.on("response", (response) => {
        response.resume();
        response.on("end", () => resolve(String(response.statusCode)));
        response.on("error", () => resolve("gone"));
      });
      request.on("error", () => resolve("gone"));
      request.end(body);
      const leave = leavesAfterMs(index);
      if (leave !== null) setTimeout(() => request.destroy(), leave);
    });
  const results = await Promise.all(Array.from({ length: COUNT }, (_, index) => one(index)));
  await settled();
  const stayed = results.filter((_, index) => leavesAfterMs(index) === null);
  expect(stayed.every((result) => result === "200")).toBe(true);
  const ended = doors.answers.filter((answer) => answer.startsWith("http "));
  expect(ended.filter((answer) => answer.startsWith("http ok")).length).toBeGreaterThanOrEqual(stayed.length);
  expect(ended.length).toBeLessThanOrEqual(COUNT);
});

test("grpc: clients that leave at any instant leave nothing behind", async () => {
  const request = ModelInferRequest.fromPartial({
    modelName: "slow",
    parameters: { delay_ms: { parameterChoice: { $case: "int64Param", value: 15n } } },
    inputs: [{ name: "x", datatype: "FP32", shape: [1n] }],
    rawInputContents: [fp32(1)],
  });
  const one = (index: number): Promise<number> =>
    new Promise((resolve) => {
      const call = doors.client.modelInfer(request, (error) => resolve(error?.code ?? 0));
      const leave = leavesAfterMs(index);
      if (leave !== null) setTimeout(() => call.cancel(), leave);
    });
  const codes = await Promise.all(Array.from({ length: COUNT }, (_, index) => one(index)));
  await settled();
  codes.forEach((code, index) => {
    expect(leavesAfterMs(index) === null ? [0] : [0, 1]).toContain(code);
  });
});
