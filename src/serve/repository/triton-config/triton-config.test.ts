import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { renderTritonFields, TRITON_FIELD_TABLE } from "../../../config/server/triton-fields.js";
import { parseTritonConfig } from "./triton-config.js";
import { ENUMS, MESSAGES, readTritonText } from "./triton-schema.js";

const CONFIG = `
# comment
name: "bert"
platform: "onnxruntime_onnx"
max_batch_size: 16
input [
  { name: "ids" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: 'mask', data_type: 9, dims: -1, optional: t }
]
output { name: "out" data_type: TYPE_FP32 dims: [ 2, 0x10 ]; reshape { shape: 040 } }
instance_group [ { count: 2 kind: KIND_CPU }, { kind: KIND_CPU } ]
dynamic_batching <
  preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 500
  default_queue_policy { default_timeout_microseconds: 100000 allow_timeout_override: true max_queue_size: 3 }
>
version_policy: { specific { versions: [1, 9223372036854775807] } }
parameters { key: "a" value { string_value: "x\\ty" " and z" } }
parameters { key: "__proto__" value { string_value: "p" } }
`;

test("what Rubato uses is read", () => {
  const { warnings, ...config } = parseTritonConfig(CONFIG, "c");
  expect(config).toEqual({
    name: "bert",
    platform: "onnxruntime_onnx",
    backend: null,
    maxBatchSize: 16,
    defaultModelFilename: null,
    inputs: [
      { name: "ids", datatype: "INT64", dims: [-1], reshape: null, optional: false },
      { name: "mask", datatype: "INT64", dims: [-1], reshape: null, optional: true },
    ],
    outputs: [{ name: "out", datatype: "FP32", dims: [2, 16], reshape: [32], optional: false }],
    instanceCount: 3,
    preferredBatchSizes: [4, 8],
    maxQueueDelayUs: 500,
    queue: { timeoutUs: 100_000, allowsOverride: true, requestsMax: 3 },
    versions: { kind: "specific", versions: ["1", "9223372036854775807"] },
    parameters: Object.defineProperty({ a: "x\ty and z" }, "__proto__", { value: "p", enumerable: true }),
  });
  expect(warnings.map((text) => text.split(": ").slice(0, 3).join(": "))).toEqual([
    "c: instance_group: is not offered",
    "c: dynamic_batching.preferred_batch_size: is not offered",
    "c: dynamic_batching.max_queue_delay_microseconds: is not offered",
  ]);
});

describe("read as protobuf reads it", () => {
  const accepted: [string, Partial<ReturnType<typeof parseTritonConfig>>][] = [
    ["", { maxBatchSize: 0, inputs: [], versions: { kind: "latest", count: 1 }, queue: null, warnings: [] }],
    ["max_batch_size: 010", { maxBatchSize: 8 }],
    ["max_batch_size: 0x10", { maxBatchSize: 16 }],
    ['name: "\\350\\215\\211"', { name: "\u8349" }],
    ['name: ""', { name: null }],
    ['input { name: "x" }', { inputs: [{ name: "x", datatype: null, dims: null, reshape: null, optional: false }] }],
    ['input { name: "x" data_type: 13 }', { inputs: [expect.objectContaining({ datatype: "BYTES" })] as never }],
    ['input { name: "x" optional: 1 }', { inputs: [expect.objectContaining({ optional: true })] as never }],
    ["instance_group { count: 0 }", { instanceCount: 1 }],
    ["version_policy { latest { num_versions: 3 } }", { versions: { kind: "latest", count: 3 } }],
    ["version_policy { latest { } }", { versions: { kind: "latest", count: 1 } }],
    ["version_policy { all { } }", { versions: { kind: "all" } }],
    ['parameters { key: "a" } parameters { key: "a" value { string_value: "2" } }', { parameters: { a: "2" } }],
    ["parameters { }", { parameters: { "": "" } }],
    ["dynamic_batching { }", { queue: null, warnings: [] }],
    [
      "dynamic_batching { default_queue_policy { timeout_action: REJECT } }",
      { queue: { timeoutUs: null, allowsOverride: false, requestsMax: null }, warnings: [] },
    ],
    ["model_transaction_policy { decoupled: false }", { warnings: [] }],
    [
      "max_batch_size: 10000",
      { maxBatchSize: 4096, warnings: ["c: max_batch_size: batches have at most 4096 rows; was 10000"] },
    ],
  ];
  for (const [text, expected] of accepted)
    test(`reads ${JSON.stringify(text)}`, () => {
      expect(parseTritonConfig(text, "c")).toMatchObject(expected);
    });

  const types =
    "TYPE_INVALID, TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING, TYPE_BF16";
  const refused: [string, string][] = [
    ["max_batchsize: 8", "c:1:1: max_batchsize is no field of Triton's configuration; did you mean max_batch_size?"],
    ["inputs { }", "c:1:1: inputs is no field of Triton's configuration; did you mean input?"],
    [
      "\n dynamic_baching { }",
      "c:2:2: dynamic_baching is no field of Triton's configuration; did you mean dynamic_batching?",
    ],
    ['input { name: "x" dim: 4 }', "c:1:19: input[0].dim is no field of Triton's configuration; did you mean dims?"],
    ["xyzzy: 1", "c:1:1: xyzzy is no field of Triton's configuration"],
    ["__proto__: 1", "c:1:1: __proto__ is no field of Triton's configuration"],
    ["max_batch_size: -1", "c: max_batch_size must be in [0, 2147483647]; was -1"],
    [
      "max_batch_size: 2147483648",
      "c:1:17: max_batch_size must be a whole number in [-2147483648, 2147483647]; was 2147483648",
    ],
    ["max_batch_size: 4.0", "c:1:17: max_batch_size must be a whole number in [-2147483648, 2147483647]; was 4.0"],
    [
      "max_batch_size: TYPE_FP32",
      "c:1:17: max_batch_size must be a whole number in [-2147483648, 2147483647]; was TYPE_FP32",
    ],
    ["max_batch_size: [4]", "c:1:1: max_batch_size must be one value; was a list"],
    ["max_batch_size: 4 max_batch_size: 4", "c:1:19: max_batch_size must be given once, and beside no max_batch_size"],
    [
      "dynamic_batching {} sequence_batching {}",
      "c:1:21: sequence_batching must be given once, and beside no dynamic_batching",
    ],
    ["name: abc", "c:1:7: name must be text in quotes (UTF-8); was abc"],
    ['name: "\\377"', 'c:1:7: name must be text in quotes (UTF-8); was "\ufffd"'],
    [
      'input { name: "x" data_type: TYPE_FP8 }',
      `c:1:30: input[0].data_type must be one of ${types}; was TYPE_FP8; did you mean TYPE_FP16?`,
    ],
    ['input { name: "x" data_type: 15 }', `c:1:30: input[0].data_type must be one of ${types}; was 15`],
    ['input { name: "x" optional: yes }', "c:1:29: input[0].optional must be true or false; was yes"],
    ['input { name: "x" optional: 2 }', "c:1:29: input[0].optional must be true or false; was 2"],
    ['input { name: "x" dims: [0] }', "c: input[0].dims must be -1 or in [1, 9007199254740991]; was 0"],
    ['input { name: "x" dims: [-2] }', "c: input[0].dims must be -1 or in [1, 9007199254740991]; was -2"],
    [
      'input { name: "x" dims: 9223372036854775807 }',
      "c: input[0].dims must be -1 or in [1, 9007199254740991]; was 9223372036854775807",
    ],
    [
      'input { name: "x" dims: 9223372036854775808 }',
      "c:1:25: input[0].dims[0] must be a whole number in [-9223372036854775808, 9223372036854775807]; was 9223372036854775808",
    ],
    ["input { data_type: TYPE_FP32 }", "c: input[0].name must be given; was nothing"],
    ["input: 5", "c:1:8: input[0] must be a message; was 5"],
    [
      'input { name: "x" dims: [4] reshape { shape: [2, 3] } }',
      "c: input[0].reshape.shape must be as many elements as dims [4], also between -1s; was [2,3]",
    ],
    [
      'input { name: "x" dims: [-1, 4] reshape { shape: [4, -1] } }',
      "c: input[0].reshape.shape must be as many elements as dims [-1,4], also between -1s; was [4,-1]",
    ],
    ['input { name: "x" reshape { shape: [4] } }', "c: input[0].dims must be given with reshape; was nothing"],
    ["instance_group { count: -1 }", "c: instance_group[0].count must be in [0, 1024]; was -1"],
    ["version_policy { specific { } }", "c: version_policy.specific.versions must be at least one version; was none"],
    ["parameters: 5", "c:1:13: parameters must be a message of key and value; was 5"],
    ['parameters { key: "a" val: 1 }', "c:1:23: parameters must have key and value, once; was val"],
    [
      "dynamic_batching { default_queue_policy { timeout_action: DELAY } }",
      "c: dynamic_batching.default_queue_policy.timeout_action: is not offered: REJECT alone: what cannot be in time is answered early; DELAY is not offered",
    ],
    [
      "dynamic_batching { default_queue_policy { default_timeout_microseconds: 86400000001 } }",
      "c: dynamic_batching.default_queue_policy.default_timeout_microseconds must be in [0, 86400000000]; was 86400000001",
    ],
  ];
  for (const [text, message] of refused)
    test(`refuses ${JSON.stringify(text)}`, () => {
      let said = "";
      try {
        parseTritonConfig(text, "c");
      } catch (error) {
        said = (error as Error).message;
      }
      expect(said).toBe(message);
    });

  test("every problem is told at once", () => {
    expect(() => parseTritonConfig("max_batchsize: 1\nbatch_input { }\nname: 5", "c")).toThrow(
      /^c:1:1: max_batchsize .*\nc:3:7: name must be .*\nc: batch_input: is not offered/,
    );
  });
});

describe("every field has one of three kinds", () => {
  /** A text that sets the field to something that says something. */
  function setting(path: string): string {
    const [first = "", ...rest] = path.split(".");
    const nest = (type: string, steps: readonly string[]): string => {
      const fields = MESSAGES[type];
      if (fields === undefined) return example(type);
      const [name, ...more] = steps;
      const own = "name" in fields ? 'name: "x"' : "";
      return `{ ${own} ${name === undefined ? "" : one(name, fields[name]!, more)} }`;
    };
    const one = (name: string, declared: string, more: readonly string[]): string => {
      const map = /^\{(\w+): (\w+)\}$/.exec(declared);
      if (map !== null) return `${name}: { key: ${example(map[1]!)} value: ${nest(map[2]!, more)} }`;
      return `${name}: ${nest(declared.replace("*", ""), more)}`;
    };
    return one(first, MESSAGES.ModelConfig![first]!, rest);
  }
  const example = (type: string): string =>
    ENUMS[type]?.at(-1) ?? (type === "string" ? '"x"' : type === "bool" ? "true" : "1");

  for (const { path, kind, what } of TRITON_FIELD_TABLE)
    test(`${path}: ${kind}`, () => {
      const text = setting(path);
      const told = `c: ${path}: is not offered: ${what}`;
      const problems: string[] = [];
      readTritonText(text, "c", problems);
      expect(problems).toEqual([]);
      if (kind === "refused") expect(() => parseTritonConfig(text, "c")).toThrow(told);
      else expect(read(text)).toEqual(kind === "warned" ? [told] : []);
    });
  /** Warnings; what else is wrong with the example is not asked here. */
  function read(text: string): readonly string[] {
    try {
      return parseTritonConfig(text, "c").warnings;
    } catch (error) {
      expect((error as Error).message).not.toContain("is not offered");
      return [];
    }
  }

  test("every field of Triton's configuration has a row, and the documentation has every row", () => {
    const rows = new Set(TRITON_FIELD_TABLE.map(({ path }) => path));
    expect(Object.keys(MESSAGES.ModelConfig!).filter((name) => !rows.has(name))).toEqual([]);
    const document = renderTritonFields();
    for (const { path, what } of TRITON_FIELD_TABLE) expect(document).toContain(`| \`${path}\` | ${what} |`);
  });
});

test("any message of the schema, written in any of the ways there are, is read as what was written", () => {
  const bracket = fc.constantFrom(["{", "}"], ["<", ">"], [": {", "}"]);
  const int = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  const written = (value: number, base: number): string => {
    const digits = Math.abs(value).toString([10, 16, 8][base]);
    return `${value < 0 ? "-" : ""}${["", "0x", "0"][base]}${digits}`;
  };
  const quoted = (text: string, way: number): string =>
    way === 0
      ? JSON.stringify(text).replaceAll("\\u2028", "\u2028")
      : `'${[...Buffer.from(text)].map((byte) => `\\${way === 1 ? byte.toString(8).padStart(3, "0") : `x${byte.toString(16).padStart(2, "0")}`}`).join("")}'`;
  const text = fc.string({ unit: "grapheme", maxLength: 8 });
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          text,
          fc.integer({ min: 0, max: 2 }),
          fc.array(fc.tuple(int, fc.integer({ min: 0, max: 2 }))),
          bracket,
        ),
      ),
      fc.constantFrom(" ", "\n", ", ", "; ", " # x\n"),
      (inputs, separator) => {
        const source = inputs.map(
          ([name, way, dims, [open, close]]) =>
            `input ${open} name: ${quoted(name, way)} dims: [${dims.map(([dim, base]) => written(dim, base)).join(", ")}] ${close}`,
        );
        const problems: string[] = [];
        const message = readTritonText(source.join(separator), "c", problems);
        expect(problems).toEqual([]);
        expect(
          JSON.parse(
            JSON.stringify(message.input ?? [], (_, value) => (typeof value === "bigint" ? Number(value) : value)),
          ),
        ).toEqual(inputs.map(([name, , dims]) => ({ name, dims: dims.map(([dim]) => (dim === 0 ? 0 : dim)) })));
      },
    ),
  );
});
