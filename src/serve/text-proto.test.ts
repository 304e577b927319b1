import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseTextProto } from "./text-proto.js";
import { parseTritonConfig } from "./triton-config.js";

const CONFIG = `
# comment
name: "bert"
platform: "onnxruntime_onnx"
max_batch_size: 16
input [
  { name: "ids" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: 'mask', data_type: TYPE_INT64, dims: -1, optional: true }
]
output { name: "out" data_type: TYPE_FP32 dims: [ 2, 0x10 ]; label_filename: "labels.txt" }
instance_group [ { count: 2 kind: KIND_CPU }, { kind: KIND_CPU } ]
dynamic_batching < preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 500 >
version_policy: { specific { versions: [1, 3] } }
parameters { key: "a" value { string_value: "x\\ty" " and z" } }
optimization { execution_accelerators { cpu_execution_accelerator: [ { name: "openvino" } ] } }
model_warmup: []
`;

describe("config.pbtxt", () => {
  test("what Rubato uses is read, what it does not know is passed over", () => {
    expect(parseTritonConfig(CONFIG, "c")).toEqual({
      name: "bert",
      platform: "onnxruntime_onnx",
      backend: null,
      maxBatchSize: 16,
      defaultModelFilename: null,
      inputs: [
        { name: "ids", datatype: "INT64", dims: [-1], optional: false },
        { name: "mask", datatype: "INT64", dims: [-1], optional: true },
      ],
      outputs: [{ name: "out", datatype: "FP32", dims: [2, 16], optional: false }],
      instanceCount: 3,
      preferredBatchSizes: [4, 8],
      maxQueueDelayUs: 500,
      hasDynamicBatching: true,
      versions: [1, 3],
      parameters: { a: "x\ty and z" },
    });
  });

  const cases: [string, string][] = [
    ["name:", "c:1:6: expected a value, found the end of the file"],
    ['name: "a"\n  input [ { name: "x" ', "c:2:23: expected a field name or '}', found the end of the file"],
    ["a: [1, 2", "c:1:9: expected ',' or ']', found the end of the file"],
    ["a 5", "c:1:3: expected ':' or '{', found '5'"],
    ['a: "unclosed\n', "c:1:4: expected a field, a value or a bracket, found '\"'"],
    ["}", "c:1:1: expected a field name, found '}'"],
    ["a: {".repeat(40), "c:1:133: expected messages nested at most 32 deep"],
    ["max_batch_size: -1", "c: max_batch_size must be an integer in [0, 4096]; was -1"],
    ["max_batch_size: TYPE_FP32", 'c: max_batch_size must be an integer in [0, 4096]; was "TYPE_FP32"'],
    ['input { name: "x" data_type: TYPE_FP8 dims: 1 }', "c: input[0].data_type must be one of TYPE_BOOL"],
    ['input { name: "x" data_type: TYPE_FP32 dims: [0] }', "c: input[0].dims must be -1 or at least 1; was 0"],
    ["input { data_type: TYPE_FP32 }", "c: input[0].name must be given; was nothing"],
    ["input: 5", "c: input must be a message; was 5"],
    [
      'input { name: "x" data_type: TYPE_FP32 dims: [4] reshape { shape: [2, 2] } }',
      "c: input[0].reshape must be absent",
    ],
    ["instance_group { count: 0 }", "c: instance_group[0].count must be an integer in [1, 1024]; was 0"],
  ];
  for (const [text, message] of cases)
    test(`refuses ${JSON.stringify(text.slice(0, 50))}`, () => {
      expect(() => parseTritonConfig(text, "c")).toThrow(message);
    });

  test("any text either parses or is refused with a place; nothing else happens", () => {
    const piece = fc.constantFrom(
      "a",
      ":",
      "{",
      "}",
      "[",
      "]",
      "<",
      ">",
      ",",
      '"x"',
      "'",
      "1",
      "-2.5e3",
      "\n",
      " ",
      "#",
      "\\",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        try {
          parseTextProto(pieces.join(""), "f");
        } catch (error) {
          expect((error as Error).message).toMatch(/^f:\d+:\d+: expected /);
        }
      }),
    );
  });
});
