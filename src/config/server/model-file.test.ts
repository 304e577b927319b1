import { describe, expect, test } from "vitest";
import { elasticSchema } from "../elastic.js";
import { modelFileSchema, parseModelFile } from "./model-file.js";

const parse = (text: string) => parseModelFile(text, "m/rubato.yaml");

describe("rubato.yaml", () => {
  test("an empty file is a model with all defaults", () => {
    expect(parse("")).toEqual({
      policy_options: {},
      dynamic_memory_mb: 0,
      timeout_max_ms: 60_000,
      run_max_ms: 0,
      queue: { bytes_max: 268_435_456 },
      inputs: {},
      outputs: {},
      apps: [],
    });
    expect(modelFileSchema.safeParse({}).success).toBe(true);
  });

  test("every key is read, and none but these", () => {
    const input = {
      datatype: "INT64",
      shape: [-1, -1],
      batch_axis: 0,
      variable_axis: 1,
      mode: "pad",
      buckets: [8, 16],
    };
    const given = {
      slo_ms: 50,
      policy: "timeout",
      policy_options: { timeout_ms: 5, drop: "window" },
      group: "gpu",
      memory_mb: 700,
      dynamic_memory_mb: 30,
      model_file: "npm:pkg/a.onnx",
      tail_file: "tail.onnx",
      platform: "onnx_onnxv1",
      batch_max: 16,
      batch_fixed: 16,
      default_timeout_ms: 100,
      timeout_max_ms: 1000,
      run_max_ms: 2000,
      queue: { requests_max: 5, bytes_max: 600 },
      inputs: {
        ids: { ...input, pad_value: 1, mask: false },
        rate: { batch_axis: "none", profile_value: 16000, profile_shape: [] },
      },
      outputs: { y: { datatype: "FP32", shape: [-1], batch_axis: 0, unpad: { axis: 1, of: "ids", scale: 0.5 } } },
      apps: ["a", "b"],
      sizes: "apart",
    };
    expect(parse(JSON.stringify(given))).toEqual(given);
    const emulated = { platform: "rubato_emulated", emulated: { alpha_ms: 1, beta_ms: 5 } };
    expect(parse(JSON.stringify(emulated))).toMatchObject(emulated);
    const elastic = {
      gammas: [-2, 0, 2],
      gamma: 2,
      tasks_max: 3,
      classes_max: 10,
      task_mb_max: 1,
      images_max: 100,
      utility_max: 5,
      accuracy_min: 0.5,
      registration: false,
      confidence: "sure",
    };
    expect(parse(JSON.stringify({ elastic }))).toMatchObject({ elastic });
    expect(Object.keys(elasticSchema.shape).sort()).toEqual(Object.keys(elastic).sort());
    // Nobody adds a key without one line above.
    expect(Object.keys(modelFileSchema.shape).sort()).toEqual(Object.keys({ ...given, emulated, elastic }).sort());
    expect(Object.keys(modelFileSchema.shape.inputs.unwrap().valueType.shape).sort()).toEqual(
      Object.keys({ ...given.inputs.ids, ...given.inputs.rate }).sort(),
    );
  });

  const cases: [string, string | RegExp][] = [
    ["slo: 5", "m/rubato.yaml:1: slo: unknown key; did you mean slo_ms?"],
    ["slo_ms: 0", "m/rubato.yaml:1: slo_ms: must be greater than 0; was 0"],
    ["slo_ms: fast", 'slo_ms: must be a number; was "fast"'],
    ["policy: lazy", 'policy: must be one of auto, deferred, deferred+, eager, timeout; was "lazy"'],
    ["slo_ms: 5\npolicy_options: { target: 0 }", "m/rubato.yaml:2: policy_options.target: must be at least 1; was 0"],
    [
      "slo_ms: 5\npolicy: deferred\npolicy_options: { feedback: true }",
      "m/rubato.yaml:3: policy_options.feedback: unknown key",
    ],
    [
      "slo_ms: 5\npolicy: deferred+\npolicy_options: { early: 1 }",
      "m/rubato.yaml:3: policy_options.early: must be absent",
    ],
    ["policy: deferred", "policy: deferred needs slo_ms; was nothing"],
    ["policy: auto", "policy: auto needs slo_ms; was nothing"],
    ["batch_max: 5000", "batch_max: must be at most 4096; was 5000"],
    ["batch_max: 1.5", "batch_max: must be a whole number; was 1.5"],
    ["batch_fixed: 0", "batch_fixed: must be at least 1; was 0"],
    ["timeout_max_ms: 5", "timeout_max_ms: must be at least default_timeout_ms 10000; was 5"],
    ["slo_ms: 70000", "timeout_max_ms: must be at least slo_ms 70000; was 60000"],
    ["queue: { requests_max: 0 }", "queue.requests_max: must be at least 1; was 0"],
    ["queue: { size: 5 }", "queue.size: unknown key; known are requests_max, bytes_max"],
    ["inputs: { x: { axis: 0 } }", "inputs.x.axis: unknown key"],
    ["inputs: { x: { batch_axis: -1 } }", /inputs.x.batch_axis: .*; was -1/],
    ["inputs: { x: { batch_axis: all } }", /inputs.x.batch_axis: .*; was "all"/],
    ["inputs: { x: { datatype: FLOAT } }", /inputs.x.datatype: .*; was "FLOAT"/],
    ["inputs: { x: { buckets: [8] } }", "inputs.x.variable_axis: must be given with mode or buckets; was nothing"],
    ["inputs: { x: { variable_axis: 1, mode: pad } }", "inputs.x.buckets: must be given with mode pad; was nothing"],
    ["inputs: { x: { variable_axis: 1, buckets: [8, 8] } }", "inputs.x.buckets: must increase; was [8,8]"],
    [
      "inputs: { x: { variable_axis: 1, mode: equal, buckets: [8] } }",
      "inputs.x.buckets: must be absent with mode equal",
    ],
    [
      "inputs: { x: { variable_axis: 0, batch_axis: 0 } }",
      "inputs.x.variable_axis: must differ from batch_axis; was 0",
    ],
    ["inputs: { x: { mask: true, pad_value: 1 } }", "inputs.x.pad_value: must be 0 for a mask; was 1"],
    ["outputs: { y: { unpad: { axis: 1, of: x } } }", "outputs.y.unpad.of: must name an input of mode pad; was x"],
    ["platform: rubato_emulated", "emulated: must be given for platform rubato_emulated; was nothing"],
    ["emulated: { alpha_ms: 1 }", "emulated: must give either alpha_ms and beta_ms, or table_ms"],
    [
      "emulated: { alpha_ms: 1, beta_ms: 1, table_ms: [1] }",
      "emulated: must give either alpha_ms and beta_ms, or table_ms",
    ],
    ["emulated: { table_ms: [] }", /emulated.table_ms: .*; was \[\]/],
    ["apps: [a, 5]", "apps[1]: must be a text; was 5"],
    ['apps: [a, ""]', 'apps[1]: must be a text of 1 to 64 printable characters; was ""'],
    [`apps: [${"x".repeat(65)}]`, "apps[0]: must be a text of 1 to 64 printable characters"],
    [`apps: [${Array.from({ length: 256 }, (_, index) => `a${index}`)}]`, /apps: .*255/],
    ["[1, 2]", "m/rubato.yaml: must be a mapping; was [1,2]"],
    ["a: [", /m\/rubato.yaml:1: Flow/],
    ["slo_ms: 1\nslo_ms: 2", "m/rubato.yaml:2: Map keys must be unique"],
  ];
  for (const [text, message] of cases)
    test(`refuses ${JSON.stringify(text)}`, () => {
      expect(() => parse(text)).toThrow(message);
    });

  test("all problems of a file are listed at once", () => {
    expect(() => parse("slo_ms: -1\nbatch_max: -1\nfoo: 1")).toThrow(/slo_ms[\s\S]*batch_max[\s\S]*foo/);
  });
});
