/** Malformed requests: each answer names the field, what was expected and what was got, and the server serves on. */
import zlib from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { binaryBody, type Doors, fp32, grpcInfer, openDoors, until } from "./harness.js";
import { connect, framed, open } from "./raw-grpc.js";

let doors: Doors;
beforeAll(async () => {
  doors = await openDoors();
});
afterAll(() => doors.close());

async function servesOn(): Promise<void> {
  const inputs = [{ name: "x", datatype: "FP32", shape: [1], data: [1] }];
  expect((await doors.infer("identity_FP32", { inputs })).status).toBe(200);
  await until(() => doors.http.inFlight === 0, "places given back");
  expect([doors.gateway.inFlight, doors.http.inFlightBytes]).toEqual([0, 0]);
}

/** A request that would be right, with members replaced. */
const body = (input: object = {}, top: object = {}) =>
  JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1], data: [1], ...input }], ...top });
const binary = (input: object, tensor: Buffer, top: object = {}) =>
  binaryBody({ inputs: [{ name: "x", datatype: "FP32", shape: [2], ...input }], ...top }, tensor);
const size = (bytes: unknown) => ({ parameters: { binary_data_size: bytes } });

type Case = [
  what: string,
  text: string | RegExp,
  model: string,
  body: string | Buffer,
  headers?: Record<string, string | number>,
  status?: number,
];
const withHeaders = (
  what: string,
  text: string | RegExp,
  { body: bytes, headers }: ReturnType<typeof binaryBody>,
  more: Record<string, string | number> = {},
  model = "identity_FP32",
): Case => [what, text, model, bytes, { ...(headers as Record<string, number>), ...more }];

const CASES: Case[] = [
  ["an empty body", "must be JSON", "identity_FP32", ""],
  ["half a JSON", /must be JSON: .*end of JSON/, "identity_FP32", '{"inputs": ['],
  ["bytes that are no UTF-8", "valid UTF-8", "identity_FP32", Buffer.from([0x22, 0xff, 0x22])],
  ["an array", "must be a JSON object, got an array of 0", "identity_FP32", "[]"],
  ["null", "must be a JSON object, got null", "identity_FP32", "null"],
  [
    "a literal NaN",
    /must be JSON: .*NaN/,
    "identity_FP32",
    '{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[NaN]}]}',
  ],
  ["a tower of brackets", "at most 128 levels of nesting", "identity_FP32", "[".repeat(100_000)],
  ["no inputs", "inputs must be an array of tensors, got nothing", "identity_FP32", "{}"],
  [
    "empty inputs",
    "missing input 'x' for model 'identity_FP32': expected ['x'], got []",
    "identity_FP32",
    '{"inputs":[]}',
  ],
  ["inputs of another type", "inputs must be an array of tensors, got an object", "identity_FP32", '{"inputs":{}}'],
  ["an input that is a number", "inputs[0] must be an object, got 7", "identity_FP32", '{"inputs":[7]}'],
  [
    "an input without a name",
    "name of inputs[0] must be a non-empty string, got nothing",
    "identity_FP32",
    body({ name: undefined }),
  ],
  [
    "a name that is a number",
    "name of inputs[0] must be a non-empty string, got 5",
    "identity_FP32",
    body({ name: 5 }),
  ],
  [
    "a wrong name",
    "unexpected inference input 'z' for model 'identity_FP32': expected ['x']",
    "identity_FP32",
    body({ name: "z" }),
  ],
  [
    "no datatype",
    /datatype of input 'x' must be one of BOOL, .*BYTES, got nothing/,
    "identity_FP32",
    body({ datatype: undefined }),
  ],
  ["an unknown datatype", /must be one of .*, got the string "FLOAT"/, "identity_FP32", body({ datatype: "FLOAT" })],
  ["a prototype's member as datatype", /got the string "toString"/, "identity_FP32", body({ datatype: "toString" })],
  [
    "another datatype",
    "data-type is 'INT32', but model 'identity_FP32' expects 'FP32'",
    "identity_FP32",
    body({ datatype: "INT32" }),
  ],
  [
    "no shape",
    "shape of input 'x' must be an array of whole numbers, got nothing",
    "identity_FP32",
    body({ shape: undefined }),
  ],
  ["a shape that is a number", "must be an array of whole numbers, got 1", "identity_FP32", body({ shape: 1 })],
  ["a negative extent", "whole numbers >= 0, got -1 at dimension 0", "identity_FP32", body({ shape: [-1] })],
  ["a broken extent", "whole numbers >= 0, got 1.5 at dimension 0", "identity_FP32", body({ shape: [1.5] })],
  ["too many dimensions", "at most 32 dimensions, got 40", "identity_FP32", body({ shape: Array(40).fill(1) })],
  [
    "too many elements",
    "at most 2147483647 elements, got [100000,100000]",
    "grid",
    body({ datatype: "INT32", shape: [100000, 100000] }),
  ],
  ["a wrong rank", "Expected [-1], got [1,1]", "identity_FP32", body({ shape: [1, 1], data: [[1]] })],
  ["a wrong extent", "Expected [-1,4], got [1,3]", "echo", body({ shape: [1, 3], data: [1, 2, 3] })],
  [
    "too large a batch",
    "batch-size must be <= 8 for 'echo' and at least 1, got 9",
    "echo",
    body({ shape: [9, 4], data: Array(36).fill(0) }),
  ],
  [
    "no data",
    "must have data or parameter 'binary_data_size', got neither",
    "identity_FP32",
    body({ data: undefined }),
  ],
  [
    "data that is a string",
    "data of input 'x' must be an array, got the string \"1\"",
    "identity_FP32",
    body({ data: "1" }),
  ],
  [
    "too few elements",
    "must have 3 elements for shape [3], got 2",
    "identity_FP32",
    body({ shape: [3], data: [1, 2] }),
  ],
  [
    "too many elements for the shape",
    "must have 1 elements for shape [1], got 2",
    "identity_FP32",
    body({ data: [1, 2] }),
  ],
  [
    "ragged data",
    "must have 2 items at dimension 1 for shape [2,2], got 1",
    "grid",
    body({ datatype: "INT32", shape: [2, 2], data: [[1, 2], [3]] }),
  ],
  [
    "a string among numbers",
    "element 1 of input 'x' must be a number",
    "identity_FP32",
    body({ shape: [2], data: [1, "2"] }),
  ],
  ["a number beyond FP32", "for datatype FP32, got 1e+300", "identity_FP32", body({ data: [1e300] })],
  [
    "a number beyond INT8",
    "a whole number in [-128, 127] for datatype INT8, got 128",
    "identity_INT8",
    body({ datatype: "INT8", data: [128] }),
  ],
  [
    "a number beyond UINT64",
    "in [0, 18446744073709551615] for datatype UINT64, got 18446744073709551616",
    "identity_UINT64",
    '{"inputs":[{"name":"x","datatype":"UINT64","shape":[1],"data":[18446744073709551616]}]}',
  ],
  ["a fraction as INT64", "for datatype INT64, got 0.5", "identity_INT64", body({ datatype: "INT64", data: [0.5] })],
  [
    "a nest deeper than any shape",
    "levels of nesting",
    "identity_INT64",
    `{"inputs":[{"name":"x","datatype":"INT64","shape":[1],"data":${"[".repeat(5000)}1e30${"]".repeat(5000)}}]}`,
  ],
  ["FP16 as JSON", "FP16 data via JSON is not supported; use binary data", "identity_FP16", body({ datatype: "FP16" })],
  [
    "a number as BYTES",
    "element 0 of input 'x' must be a string",
    "identity_BYTES",
    body({ datatype: "BYTES", data: [1] }),
  ],
  [
    "a missing input",
    "missing input 'b' for model 'sum': expected ['a', 'b'], got ['a']",
    "sum",
    body({ name: "a", shape: [1, 2], data: [1, 2] }),
  ],
  [
    "an input given twice",
    "input 'x' for model 'identity_FP32' must be given once",
    "identity_FP32",
    JSON.stringify({ inputs: [1, 2].map(() => ({ name: "x", datatype: "FP32", shape: [1], data: [1] })) }),
  ],
  ["an id that is a number", "id must be a string, got 4", "identity_FP32", body({}, { id: 4 })],
  [
    "parameters that are an array",
    "parameters of the request must be an object, got an array of 1",
    "identity_FP32",
    body({}, { parameters: [1] }),
  ],
  [
    "a parameter that is an object",
    "parameter 'app' of the request must be a string, a number or a boolean, got an object",
    "identity_FP32",
    body({}, { parameters: { app: {} } }),
  ],
  [
    "a negative timeout",
    "parameter 'timeout' must be a whole number of microseconds in [0, 2^53), got -5",
    "identity_FP32",
    body({}, { parameters: { timeout: -5 } }),
  ],
  [
    "a timeout that is no number of JavaScript's",
    "parameter 'timeout' must be a whole number of microseconds in [0, 2^53), got Infinity",
    "identity_FP32",
    body({}, { parameters: { timeout: 12345 } }).replace("12345", "1e400"),
  ],
  ["a timeout in words", 'got "soon"', "identity_FP32", body({}, { parameters: { timeout: "soon" } })],
  [
    "binary_data_output as a string",
    "'binary_data_output' of the request must be a boolean, got the string \"yes\"",
    "identity_FP32",
    body({}, { parameters: { binary_data_output: "yes" } }),
  ],
  [
    "outputs of another type",
    'outputs must be an array of tensors, got the string "y"',
    "identity_FP32",
    body({}, { outputs: "y" }),
  ],
  [
    "an unknown output",
    "unexpected inference output 'q' for model 'identity_FP32': expected ['y']",
    "identity_FP32",
    body({}, { outputs: [{ name: "q" }] }),
  ],
  [
    "an output asked for twice",
    "output 'y' must be asked for once",
    "identity_FP32",
    body({}, { outputs: [{ name: "y" }, { name: "y" }] }),
  ],
  [
    "binary_data as a number",
    "parameter 'binary_data' of output 'y' must be a boolean, got 1",
    "identity_FP32",
    body({}, { outputs: [{ name: "y", parameters: { binary_data: 1 } }] }),
  ],
  [
    "classification",
    "classification is not supported",
    "identity_FP32",
    body({}, { outputs: [{ name: "y", parameters: { classification: 3 } }] }),
    {},
    501,
  ],
  [
    "shared memory",
    "shared memory is not supported",
    "identity_FP32",
    body({ parameters: { shared_memory_region: "r" } }),
    {},
    501,
  ],
  ["a result that JSON cannot carry", /element 1 of output 'y' is NaN.*binary_data/, "nan", body()],
  withHeaders("a header length that is no number", "must be a whole number in [0, ", binary(size(8), fp32(1, 2)), {
    "Inference-Header-Content-Length": "ten",
  }),
  withHeaders("a negative header length", "the length of the body, got '-1'", binary(size(8), fp32(1, 2)), {
    "Inference-Header-Content-Length": "-1",
  }),
  withHeaders("a header length beyond the body", "got '100000'", binary(size(8), fp32(1, 2)), {
    "Inference-Header-Content-Length": 100000,
  }),
  withHeaders("a header length that cuts the JSON", "must be JSON", binary(size(8), fp32(1, 2)), {
    "Inference-Header-Content-Length": 5,
  }),
  withHeaders(
    "more binary data than said",
    "must add up to the 8 bytes after the JSON, got 4",
    binary({ ...size(4), shape: [1] }, fp32(1, 2)),
  ),
  withHeaders("less binary data than said", "says binary_data_size 8, but only 4 bytes", binary(size(8), fp32(1))),
  withHeaders("a size that the shape contradicts", "shape [2] must have 8 bytes, got 4", binary(size(4), fp32(1))),
  withHeaders(
    "a size that is a string",
    'must be a whole number >= 0, got the string "8"',
    binary(size("8"), fp32(1, 2)),
  ),
  withHeaders(
    "data and binary data",
    "either data or parameter 'binary_data_size', got both",
    binary({ ...size(8), data: [1, 2] }, fp32(1, 2)),
  ),
  withHeaders(
    "BYTES that end in a length",
    "element 1 of BYTES data needs 4 bytes of length, got 2",
    binary({ ...size(7), datatype: "BYTES" }, Buffer.from([1, 0, 0, 0, 65, 0, 0])),
    {},
    "identity_BYTES",
  ),
  withHeaders(
    "BYTES that say too much",
    "element 0 of BYTES data says 4294967295 bytes, got 2",
    binary({ ...size(6), datatype: "BYTES" }, Buffer.from([255, 255, 255, 255, 65, 65])),
    {},
    "identity_BYTES",
  ),
  withHeaders(
    "BYTES of another count",
    "shape [2] must have 2 elements, got 1",
    binary({ ...size(5), datatype: "BYTES" }, Buffer.from([1, 0, 0, 0, 65])),
    {},
    "identity_BYTES",
  ),
  [
    "raw bytes for two inputs",
    "needs a model with one input; model 'sum' has 2",
    "sum",
    fp32(1),
    { "Inference-Header-Content-Length": 0 },
  ],
  [
    "raw bytes for two variable dimensions",
    "at most one variable dimension; input 'x' of model 'grid' has shape [-1,-1]",
    "grid",
    fp32(1),
    { "Inference-Header-Content-Length": 0 },
  ],
  [
    "raw bytes of a broken length",
    "must have a multiple of 4 bytes",
    "identity_FP32",
    Buffer.alloc(6),
    { "Inference-Header-Content-Length": 0 },
  ],
  [
    "raw bytes of a wrong length",
    "must have 16 bytes, got 12",
    "echo",
    fp32(1, 2, 3),
    { "Inference-Header-Content-Length": 0 },
  ],
  [
    "an unknown encoding",
    "Content-Encoding must be gzip, deflate or identity, got 'br'",
    "identity_FP32",
    body(),
    { "content-encoding": "br" },
    415,
  ],
  ["gzip that is none", "must be valid gzip data", "identity_FP32", body(), { "content-encoding": "gzip" }],
  [
    "gzip cut short",
    "must be valid gzip data",
    "identity_FP32",
    zlib.gzipSync(body()).subarray(0, 30),
    { "content-encoding": "gzip" },
  ],
  ["an unknown model", "Request for unknown model: 'nobody' is not found", "nobody", body(), {}, 404],
];

describe("http: malformed requests", () => {
  test.each(CASES)("%s", async (_, text, model, bytes, headers = {}, status = 400) => {
    const reply = await doors.infer(model, bytes, headers);
    expect(reply.json?.error).toEqual(
      text instanceof RegExp ? expect.stringMatching(text) : expect.stringContaining(text),
    );
    expect(reply.status).toBe(status);
    await servesOn();
  });
});

const input = (more: object = {}) => ({ name: "x", datatype: "FP32", shape: [1n], ...more });
const GRPC_CASES: [what: string, text: string, code: number, request: object][] = [
  ["no inputs", "missing input 'x' for model 'identity_FP32': expected ['x'], got []", 3, { inputs: [] }],
  ["no data", "must have 1 elements in fp32_contents, got 0", 3, { inputs: [input()] }],
  [
    "too few raw entries",
    "raw_input_contents must have one entry per input, expected 2, got 1",
    3,
    { inputs: [input(), input()], rawInputContents: [fp32(1)] },
  ],
  ["too many raw entries", "expected 1, got 2", 3, { inputs: [input()], rawInputContents: [fp32(1), fp32(1)] }],
  [
    "raw and typed at once",
    "must have either raw_input_contents or contents, got both",
    3,
    { inputs: [input({ contents: { fp32Contents: [1] } })], rawInputContents: [fp32(1)] },
  ],
  [
    "typed in another field",
    "must have 1 elements in fp32_contents, got 0 there and 1 in int_contents",
    3,
    { inputs: [input({ contents: { intContents: [1] } })] },
  ],
  [
    "a raw entry of a wrong size",
    "shape [1] must have 4 bytes, got 8",
    3,
    { inputs: [input()], rawInputContents: [fp32(1, 2)] },
  ],
  [
    "an unknown datatype",
    'got the string "FLOAT"',
    3,
    { inputs: [input({ datatype: "FLOAT" })], rawInputContents: [fp32(1)] },
  ],
  ["a negative extent", "got -1 at dimension 0", 3, { inputs: [input({ shape: [-1n] })], rawInputContents: [fp32(1)] }],
  [
    "an absurd extent",
    "whole numbers >= 0, got 9223372036854776000",
    3,
    { inputs: [input({ shape: [2n ** 63n - 1n] })], rawInputContents: [fp32(1)] },
  ],
  [
    "a name missing",
    "name of inputs[0] must be a non-empty string",
    3,
    { inputs: [input({ name: "" })], rawInputContents: [fp32(1)] },
  ],
  [
    "a wrong shape",
    "Expected [-1], got [1,1]",
    3,
    { inputs: [input({ shape: [1n, 1n] })], rawInputContents: [fp32(1)] },
  ],
  [
    "FP16 typed",
    "FP16 data in contents is not supported; use raw_input_contents",
    3,
    { modelName: "identity_FP16", inputs: [input({ datatype: "FP16", contents: { fp32Contents: [1] } })] },
  ],
  [
    "INT8 out of range",
    "element 0 of input 'x' must fit datatype INT8 (1 bytes), got 300",
    3,
    { modelName: "identity_INT8", inputs: [input({ datatype: "INT8", contents: { intContents: [300] } })] },
  ],
  [
    "a parameter without a value",
    "parameter 'app' of the request must have a value",
    3,
    { inputs: [input()], rawInputContents: [fp32(1)], parameters: { app: {} } },
  ],
  [
    "a timeout in words",
    "parameter 'timeout' must be a whole number",
    3,
    {
      inputs: [input()],
      rawInputContents: [fp32(1)],
      parameters: { timeout: { parameterChoice: { $case: "stringParam", value: "soon" } } },
    },
  ],
  [
    "an output asked for twice",
    "output 'y' must be asked for once",
    3,
    { inputs: [input()], rawInputContents: [fp32(1)], outputs: [{ name: "y" }, { name: "y" }] },
  ],
  [
    "an unknown output",
    "unexpected inference output 'q'",
    3,
    { inputs: [input()], rawInputContents: [fp32(1)], outputs: [{ name: "q" }] },
  ],
  [
    "shared memory",
    "shared memory is not supported",
    12,
    {
      inputs: [
        input({ parameters: { shared_memory_region: { parameterChoice: { $case: "stringParam", value: "r" } } } }),
      ],
    },
  ],
  [
    "an unknown model",
    "unknown model: 'nobody'",
    5,
    { modelName: "nobody", inputs: [input()], rawInputContents: [fp32(1)] },
  ],
  [
    "an unknown version",
    "version 7 is not found",
    5,
    { modelVersion: "7", inputs: [input()], rawInputContents: [fp32(1)] },
  ],
];

describe("grpc: malformed requests", () => {
  test.each(GRPC_CASES)("%s", async (_, text, code, request) => {
    const { error } = await grpcInfer(doors, { modelName: "identity_FP32", ...request });
    expect([error!.details, error!.code]).toEqual([expect.stringContaining(text), code]);
    expect(
      (await grpcInfer(doors, { modelName: "identity_FP32", inputs: [input()], rawInputContents: [fp32(1)] })).error,
    ).toBe(null);
    await until(() => doors.grpc.inFlight === 0, "places given back");
  });

  test("bytes that are no message", async () => {
    const error = await new Promise<{ code: number; details: string } | null>((resolve) => {
      const bytes = Buffer.from([0x0a, 0xff, 0xff, 0xff]);
      doors.client.makeUnaryRequest(
        "/inference.GRPCInferenceService/ModelInfer",
        () => bytes,
        (reply) => reply,
        null,
        (failure) => resolve(failure),
      );
    });
    expect([error!.code, error!.details]).toEqual([
      3,
      expect.stringContaining("must be an inference.ModelInferRequest"),
    ]);
  });
});

test.each([
  "/inference.GRPCInferenceService/ModelReady",
  "/inference.GRPCInferenceService/RepositoryIndex",
  "/inference.GRPCInferenceService/ModelInfer",
  "/inference.GRPCInferenceService/TraceSetting",
  "/grpc.health.v1.Health/Check",
  "/grpc.health.v1.Health/Watch",
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "/externalscaler.ExternalScaler/IsActive",
  "/externalscaler.ExternalScaler/StreamIsActive",
])("grpc %s: bytes that are no message are their sender's fault", async (path) => {
  const session = connect(doors.grpc.port);
  const { stream, status } = open(session, path);
  stream.resume();
  // A field of a wire type that there is not.
  stream.end(framed(Buffer.from([0x0f])));
  expect(await status).toBe("3 invalid-argument");
  session.destroy();
  await servesOn();
});
