/** One table of limits: each holds at both doors, with the same answer, and one below it both go on to the model. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BytesElements, INFER_LIMITS } from "../../src/wire/infer-limits.js";
import { type Doors, fp32, grpcInfer, openDoors } from "./harness.js";

let doors: Doors;
beforeAll(async () => {
  doors = await openDoors();
});
afterAll(() => doors.close());

type Parameters = Record<string, string | number>;
interface Request {
  readonly model?: string;
  readonly id?: string;
  readonly parameters?: Parameters;
  readonly inputs?: readonly { name?: string; datatype?: string; shape?: number[]; parameters?: Parameters }[];
  readonly outputs?: readonly { name: string; parameters?: Parameters }[];
}

const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const parameters = (count: number): Parameters => Object.fromEntries(many(count, (i) => [`p${i}`, 1]));

/** The reason of the refusal, "ok" for an answer. */
async function overHttp({ model = "identity_FP32", ...request }: Request): Promise<string> {
  const inputs = (request.inputs ?? [{}]).map((input) => ({
    name: "x",
    datatype: "FP32",
    shape: [1],
    data: [1],
    ...input,
  }));
  const { status, json } = await doors.infer(model, { ...request, inputs });
  return status === 200 ? "ok" : `${status} ${json.reason}`;
}

async function overGrpc({ model = "identity_FP32", ...request }: Request): Promise<string> {
  const proto = (plain: Parameters | undefined) =>
    Object.fromEntries(
      Object.entries(plain ?? {}).map(([key, value]) => [
        key,
        {
          parameterChoice:
            typeof value === "string" ? { $case: "stringParam", value } : { $case: "int64Param", value: BigInt(value) },
        },
      ]),
    );
  const inputs = request.inputs ?? [{}];
  const { error } = await grpcInfer(doors, {
    modelName: model,
    id: request.id ?? "",
    parameters: proto(request.parameters),
    inputs: inputs.map((input) => ({
      name: input.name ?? "x",
      datatype: input.datatype ?? "FP32",
      shape: (input.shape ?? [1]).map(BigInt),
      parameters: proto(input.parameters),
    })),
    outputs: (request.outputs ?? []).map((output) => ({ name: output.name, parameters: proto(output.parameters) })),
    rawInputContents: inputs.map(() => fp32(1)),
  });
  if (error === null) return "ok";
  return `${error.code === 3 ? 400 : error.code} ${error.metadata.get("rubato-reason")[0]}`;
}

const { inputs, outputs, nameLength, idLength, parameterLength, rank, bytesElements } = INFER_LIMITS;
const BEYOND = "400 request-limit";
/** What a request at the limit gets, where the model has to refuse it after all. */
const WRONG = "400 invalid-argument";
const CASES: [what: string, atMost: Request, expected: string, more: Request][] = [
  ["inputs", { inputs: many(inputs, () => ({})) }, WRONG, { inputs: many(inputs + 1, () => ({})) }],
  [
    "outputs",
    { outputs: many(outputs, (i) => ({ name: `y${i}` })) },
    WRONG,
    { outputs: many(outputs + 1, (i) => ({ name: `y${i}` })) },
  ],
  ["parameters", { parameters: parameters(256) }, "ok", { parameters: parameters(257) }],
  [
    "parameters of an input",
    { inputs: [{ parameters: parameters(256) }] },
    "ok",
    { inputs: [{ parameters: parameters(257) }] },
  ],
  [
    "parameters of an output",
    { outputs: [{ name: "y", parameters: parameters(256) }] },
    "ok",
    { outputs: [{ name: "y", parameters: parameters(257) }] },
  ],
  [
    "a parameter's text",
    { parameters: { p: "ä".repeat(parameterLength) } },
    "ok",
    { parameters: { p: "ä".repeat(parameterLength + 1) } },
  ],
  [
    "a parameter's name",
    { parameters: { ["k".repeat(nameLength)]: 1 } },
    "ok",
    { parameters: { ["k".repeat(nameLength + 1)]: 1 } },
  ],
  ["the id", { id: "i".repeat(idLength) }, "ok", { id: "i".repeat(idLength + 1) }],
  [
    "an input's name",
    { inputs: [{ name: "n".repeat(nameLength) }] },
    WRONG,
    { inputs: [{ name: "n".repeat(nameLength + 1) }] },
  ],
  [
    "an output's name",
    { outputs: [{ name: "n".repeat(nameLength) }] },
    WRONG,
    { outputs: [{ name: "n".repeat(nameLength + 1) }] },
  ],
  ["dimensions", { inputs: [{ shape: many(rank, () => 1) }] }, WRONG, { inputs: [{ shape: many(rank + 1, () => 1) }] }],
  [
    "BYTES elements",
    { inputs: [{ datatype: "BYTES", shape: [bytesElements] }] },
    WRONG,
    { inputs: [{ datatype: "BYTES", shape: [bytesElements + 1] }] },
  ],
];

test.each(CASES)("doors: %s have one limit at both", async (_, atMost, expected, more) => {
  expect([await overHttp(atMost), await overGrpc(atMost)]).toEqual([expected, expected]);
  expect([await overHttp(more), await overGrpc(more)]).toEqual([BEYOND, BEYOND]);
});

test("grpc: a model's name has the limit of all names", async () => {
  expect(await overGrpc({ model: "m".repeat(nameLength) })).toBe("5 unknown-model");
  expect(await overGrpc({ model: "m".repeat(nameLength + 1) })).toBe(BEYOND);
});

test("doors: a request that names hundreds of unknown inputs gets a text that fits the headers of an answer", async () => {
  const request = { inputs: many(300, (i) => ({ name: `${"n".repeat(900)}${i}` })) };
  expect([await overHttp(request), await overGrpc(request)]).toEqual([WRONG, WRONG]);
});

test("limits: BYTES elements are counted over all inputs, other elements are not", () => {
  const strings = new BytesElements();
  strings.add("BYTES", bytesElements - 1);
  strings.add("FP32", bytesElements);
  strings.add("BYTES", 1);
  expect(() => strings.add("BYTES", 1)).toThrow("must have at most 1048576 elements in all, got 1048577");
});
