import { expect, test } from "vitest";
import { ModelInferRequest, ModelInferResponse } from "../proto/inference.js";
import { DATATYPES, type Datatype, type Tensor } from "../tensors/tensor.js";
import { decodeProto, readInferMessage, readProtoParameters, writeAnswer } from "./infer-proto.js";
import { encodeProto } from "./message-pieces.js";

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
  expect(ModelInferResponse.decode(encodeProto(answer).join()).outputs[0]!.contents!.int64Contents).toEqual(values);
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
