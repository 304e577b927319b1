/** One table of cause -> HTTP status, gRPC code, reason, over both protocols. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ERROR_CODES, type ErrorCode } from "../../src/wire/serving-error.js";
import { type Doors, fp32, grpcInfer, openDoors } from "./harness.js";

let doors: Doors;
beforeAll(async () => {
  doors = await openDoors();
});
afterAll(() => doors.close());

const STATUS: Record<ErrorCode, [http: number, grpc: number]> = {
  "invalid-argument": [400, 3],
  "permission-denied": [403, 7],
  "not-found": [404, 5],
  "method-not-allowed": [405, 12],
  "already-exists": [409, 6],
  "payload-too-large": [413, 8],
  "unsupported-encoding": [415, 12],
  "resource-exhausted": [429, 8],
  cancelled: [499, 1],
  internal: [500, 13],
  unimplemented: [501, 12],
  unavailable: [503, 14],
  "deadline-exceeded": [504, 4],
};
const causes = Object.keys(ERROR_CODES).flatMap((code) => [[code, false] as const, [code, true] as const]);

test.each(causes)("doors: %s has one status in each protocol, thrown at once: %s", async (code, throws) => {
  const [http, grpc] = STATUS[code as ErrorCode];
  const over = await doors.infer("error", {
    parameters: { code, throws, reason: "queue-full" },
    inputs: [{ name: "x", datatype: "FP32", shape: [1], data: [1] }],
  });
  expect(over.status).toBe(http);
  expect(over.headers["content-type"]).toBe("application/json");
  expect(over.headers["retry-after"]).toBe("3");
  expect(over.json).toEqual({
    error: `told to answer ${code}`,
    reason: "queue-full",
    estimate_us: 1234,
    estimate_spread_us: 56,
    deadline_us: 5678,
    module: "second",
  });

  const { error } = await grpcInfer(doors, {
    modelName: "error",
    parameters: {
      code: { parameterChoice: { $case: "stringParam", value: code } },
      throws: { parameterChoice: { $case: "boolParam", value: throws } },
      reason: { parameterChoice: { $case: "stringParam", value: "queue-full" } },
    },
    inputs: [{ name: "x", datatype: "FP32", shape: [1n] }],
    rawInputContents: [fp32(1)],
  });
  expect(error!.code).toBe(grpc);
  expect(error!.details).toBe(`told to answer ${code}`);
  const trailer = (name: string) => error!.metadata.get(name)[0];
  expect([trailer("rubato-reason"), trailer("rubato-estimate-us"), trailer("rubato-deadline-us")]).toEqual([
    "queue-full",
    "1234",
    "5678",
  ]);
  expect(trailer("rubato-estimate-spread-us")).toBe("56");
  expect([trailer("retry-after"), trailer("rubato-module")]).toEqual(["3", "second"]);
  expect(doors.answers.slice(-2)).toEqual([`http ${code} queue-full`, `grpc ${code} queue-full`]);
});

test("doors: a bug is 'internal', its cause reported and not shown", async () => {
  const seen: unknown[] = [];
  const other = await openDoors({ onInternalError: (error) => seen.push(error.details.cause) });
  try {
    other.gateway.infer = () => {
      throw new Error("secret");
    };
    const inputs = [{ name: "x", datatype: "FP32", shape: [1], data: [1] }];
    const over = await other.infer("identity_FP32", { inputs });
    expect([over.status, over.json.error, over.json.reason]).toEqual([500, "internal error", "internal"]);
    const { error } = await grpcInfer(other, {
      modelName: "identity_FP32",
      inputs: [{ name: "x", datatype: "FP32", shape: [1n] }],
      rawInputContents: [fp32(1)],
    });
    expect([error!.code, error!.details]).toEqual([13, "internal error"]);
    expect(seen.map(String)).toEqual(["Error: secret", "Error: secret"]);
  } finally {
    await other.close();
  }
});
