import { expect, test } from "vitest";
import {
  decodeProto,
  encodeProto,
  readInferMessage,
  readProtoParameters,
  wrapInStream,
  writeAnswer,
} from "./infer-proto.js";
import { ModelInferRequest, ModelInferResponse, ModelStreamInferResponse } from "./proto/inference.js";
import { DATATYPES, type Datatype, type Tensor } from "./tensor.js";

const request = (input: object, more: object = {}): ModelInferRequest =>
  decodeProto(
    ModelInferRequest.encode(ModelInferRequest.fromPartial({ modelName: "m", inputs: [input], ...more })).finish(),
  );

test("infer-proto: int64 contents above 2^53 survive both ways", () => {
  const values = [2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n];
  const message = readInferMessage(
    request({ name: "x", datatype: "INT64", shape: [3n], contents: { int64Contents: values } }),
  );
  expect(message.isRaw).toBe(false);
  const answer = writeAnswer({ model: "m", version: "1", parameters: {}, outputs: [...message.inputs] }, "id", false);
  expect(ModelInferResponse.decode(encodeProto(answer)).outputs[0]!.contents!.int64Contents).toEqual(values);
});

test("infer-proto: raw inputs are views of the message, not copies", () => {
  const bytes = ModelInferRequest.encode(
    ModelInferRequest.fromPartial({
      modelName: "m",
      inputs: [{ name: "x", datatype: "UINT8", shape: [3n] }],
      rawInputContents: [Uint8Array.of(1, 2, 3)],
    }),
  ).finish();
  const { inputs } = readInferMessage(decodeProto(bytes));
  expect(inputs[0]!.data.buffer).toBe(bytes.buffer);
});

test("infer-proto: every datatype comes back in the form it came", () => {
  for (const datatype of Object.keys(DATATYPES) as Datatype[]) {
    const data = datatype === "BYTES" ? Uint8Array.of(1, 0, 0, 0, 65) : new Uint8Array(DATATYPES[datatype]).fill(1);
    const output: Tensor = { name: "y", datatype, shape: [1], data };
    const typed = writeAnswer({ model: "m", version: "1", parameters: {}, outputs: [output] }, "", false);
    if (datatype === "FP16" || datatype === "BF16") {
      expect(typed.rawOutputContents).toEqual([data]);
      continue;
    }
    expect(typed.rawOutputContents).toEqual([]);
    const back = readInferMessage(
      request({ name: "x", datatype, shape: [1n], contents: typed.outputs[0]!.contents as object }),
    );
    expect([...back.inputs[0]!.data], datatype).toEqual([...data]);
  }
});

test("infer-proto: bytes of a reply are those of the generated encoder", () => {
  const outputs: Tensor[] = [0, 1, 127, 128, 70_000].map((size, index) => ({
    name: `y${index}`,
    datatype: "UINT8",
    shape: [size],
    data: new Uint8Array(size).fill(index),
  }));
  const response = writeAnswer({ model: "m", version: "2", parameters: { gamma: 3, ok: true }, outputs }, "i", true);
  expect(Buffer.compare(encodeProto(response), Buffer.from(ModelInferResponse.encode(response).finish()))).toBe(0);
});

test("infer-proto: integers of every choice are numbers, or decimal strings beyond 2^53", () => {
  const read = readProtoParameters(
    {
      a: { parameterChoice: { $case: "int64Param", value: 5n } },
      b: { parameterChoice: { $case: "uint64Param", value: 2n ** 64n - 1n } },
      c: { parameterChoice: { $case: "doubleParam", value: 0.5 } },
    },
    "the request",
  );
  expect({ ...read }).toEqual({ a: 5, b: "18446744073709551615", c: 0.5 });
});

test("infer-proto: a wrapped reply is the stream's message", () => {
  const response = ModelInferResponse.fromPartial({ modelName: "m", rawOutputContents: [new Uint8Array(200)] });
  const inner = ModelStreamInferResponse.decode(wrapInStream(encodeProto(response))).inferResponse!;
  expect(encodeProto(inner).equals(encodeProto(response))).toBe(true);
});
