/** Pipelines of a repository that cannot be served: each message names file, line, field, bound and value, and both ends. */
import { describe, expect, it, test } from "vitest";
import { pipelineText as pipeline, resolverOf } from "../../../../test/support/pipeline-files.js";
import { modelSpec, tensorSpec } from "../../../../test/support/specs.js";
import type { ModelSpec } from "../../model.js";
import { parsePipelineFile } from "./pipeline-file.js";
import { REQUEST } from "./served-pipeline.js";

const MODELS: readonly ModelSpec[] = [
  modelSpec({
    name: "detect",
    inputs: [tensorSpec("image", "UINT8", [-1, 3, -1, -1])],
    outputs: [tensorSpec("boxes", "FP32", [-1, 4]), tensorSpec("count", "INT64", [-1, 1])],
  }),
  modelSpec({
    name: "score",
    inputs: [tensorSpec("boxes", "FP32", [-1, 4]), tensorSpec("bias", "FP32", [-1, 1], { optional: true })],
    outputs: [tensorSpec("score", "FP32", [-1, 1])],
  }),
  modelSpec({
    name: "merge",
    inputs: [tensorSpec("a", "FP32", [-1, 1]), tensorSpec("b", "FP32", [-1, 1])],
    outputs: [tensorSpec("score", "FP32", [-1, 1])],
  }),
];
const resolve = resolverOf(MODELS);
const DETECT = "{ id: 0, name: detect }";
const SCORE = "{ id: 1, name: score, pres: [0] }";
const MERGE =
  "{ id: 2, name: merge, pres: [0, 1], inputs: { a: { module: score, tensor: score }, b: { module: detect, tensor: count } } }";

describe("pipelines of a repository", () => {
  it("tensors find their ends: of the request, of a module alone before by its name, else as written", () => {
    const spec = resolve(
      pipeline(
        [
          DETECT,
          SCORE,
          "{ id: 2, name: again, model: score, pres: [0], inputs: { boxes: { module: detect, tensor: boxes }, bias: { tensor: bias } } }",
          "{ id: 3, name: merge, pres: [1, 2], inputs: { a: { module: score, tensor: score }, b: { module: again, tensor: score } } }",
        ],
        "outputs: { total: { module: merge, tensor: score }, boxes: { module: detect, tensor: boxes } }\n",
      ),
    );
    expect(spec.client).toMatchObject({
      platform: "rubato_pipeline",
      sloUs: 100_000,
      batchSizeMax: 0,
      inputs: [
        { name: "image", datatype: "UINT8", shape: [-1, 3, -1, -1], optional: false },
        { name: "bias", datatype: "FP32", shape: [-1, 1], optional: true },
      ],
      outputs: [
        { name: "total", datatype: "FP32", shape: [-1, 1] },
        { name: "boxes", datatype: "FP32", shape: [-1, 4] },
      ],
    });
    const ends = spec.modules.map(({ name, inputs, outputs }) => [
      name,
      inputs.map((input) => [input.name, input.from[0]!.module, input.from[0]!.tensor]),
      outputs,
    ]);
    expect(ends).toEqual([
      ["detect", [["image", REQUEST, "image"]], ["boxes"]],
      ["score", [["boxes", 0, "boxes"]], ["score"]],
      [
        "again",
        [
          ["boxes", 0, "boxes"],
          ["bias", REQUEST, "bias"],
        ],
        ["score"],
      ],
      [
        "merge",
        [
          ["a", 1, "score"],
          ["b", 2, "score"],
        ],
        ["score"],
      ],
    ]);
  });

  it("outputs that are not written are those of the modules that lead nowhere", () => {
    expect(resolve(pipeline([DETECT, SCORE])).outputs).toMatchObject([
      { name: "score", from: [{ module: 1, tensor: "score" }] },
    ]);
  });

  test.each(["constructor", "toString", "hasOwnProperty"])("a tensor may be called %s", (name) => {
    const odd = resolverOf([
      modelSpec({ name: "odd", inputs: [tensorSpec(name, "FP32", [-1])], outputs: [tensorSpec(name, "FP32", [-1])] }),
    ]);
    const step = `step: ./s.mjs, takes: { ${name}: { datatype: FP32, shape: [-1] } }, gives: { ${name}: { datatype: FP32, shape: [-1] } }`;
    const { client, modules, outputs } = odd(
      pipeline(["{ id: 0, name: odd }", `{ id: 1, name: work, pres: [0], ${step} }`]),
    );
    expect(client.inputs.map((input) => input.name)).toEqual([name]);
    expect(modules[1]!.inputs).toMatchObject([{ name, from: [{ module: 0, tensor: name }] }]);
    expect(outputs).toMatchObject([{ name, from: [{ module: 1, tensor: name }] }]);
    // It has no default: another name's is not taken for it.
    expect(() =>
      odd(
        pipeline(
          ["{ id: 0, name: odd, soft: true, defaults: { x: { shape: [1], value: 0 } } }"],
          `outputs: { y: { module: odd, tensor: ${name} } }\n`,
        ),
      ),
    ).toThrow(
      `outputs.y: must not come from a soft module, which may be missing; was 0 (odd), which has no default for '${name}'`,
    );
  });

  it("what is too deep, or too much, is refused before it is parsed", () => {
    const deep = `{"slo_ms":1000,"modules":${"[".repeat(200_000)}${"]".repeat(200_000)}}`;
    expect(() => parsePipelineFile(deep, "p/pipeline.json")).toThrow(
      "p/pipeline.json: must nest at most 64 levels deep",
    );
    const module = (_: unknown, id: number) => `{ id: ${id}, name: m${id}, model: score, pres: [] }`;
    expect(() => resolve(pipeline(Array.from({ length: 10_000 }, module)))).toThrow(
      "p/pipeline.yaml: must have at most 8192 keys",
    );
    expect(() => resolve(pipeline([DETECT], `steps: [${"1,".repeat(100_000)}]\n`))).toThrow(
      "p/pipeline.yaml: must have at most 81920 keys and values",
    );
    expect(() => resolve(pipeline(Array.from({ length: 65 }, module)))).toThrow("modules: must be at most 64 long");
  });

  test.each<[string, string, string]>([
    [
      "a name that no object has",
      pipeline(["{ id: 0, name: detect, inputs: { __proto__: { tensor: x } } }"]),
      "p/pipeline.yaml:3: modules[0].inputs.__proto__: unknown key: no name may be __proto__",
    ],
    [
      "an answer by such a name",
      pipeline([DETECT], "outputs: { __proto__: { module: detect, tensor: boxes } }\n"),
      "p/pipeline.yaml:4: outputs.__proto__: unknown key",
    ],
    [
      "a circle",
      pipeline(["{ id: 0, name: detect, pres: [1] }", SCORE]),
      "p/pipeline.yaml:4: modules[1].subs: must not lead back to where they come from; was 1 (score) -> 0 (detect) -> 1 (score)",
    ],
    [
      "an id that no module has",
      pipeline([DETECT, "{ id: 1, name: score, pres: [7] }"]),
      "p/pipeline.yaml:4: modules[1].pres: of module 1 (score) must be ids of modules (0, 1); was 7",
    ],
    [
      "a datatype that does not fit",
      pipeline([DETECT, SCORE, MERGE]),
      "p/pipeline.yaml:5: modules[2].inputs.b: of module 2 (merge) must be FP32 [-1,1]; was output 'count' of module 0 (detect): INT64 [-1,1]",
    ],
    [
      "a shape that does not fit",
      pipeline([
        DETECT,
        "{ id: 1, name: merge, pres: [0], inputs: { a: { module: detect, tensor: boxes }, b: { tensor: b } } }",
      ]),
      "modules[1].inputs.a: of module 1 (merge) must be FP32 [-1,1]; was output 'boxes' of module 0 (detect): FP32 [-1,4]",
    ],
    [
      "an input that nothing says of",
      pipeline([DETECT, "{ id: 1, name: merge, pres: [0], inputs: { a: { tensor: a } } }"]),
      "modules[1].inputs.b: of module 1 (merge), an input of model 'merge', must say where it comes from",
    ],
    [
      "an input that the model has not",
      pipeline(["{ id: 0, name: detect, inputs: { imag: { tensor: image } } }"]),
      "modules[0].inputs.imag: of module 0 (detect) must be an input of model 'detect': image; did you mean image?",
    ],
    [
      "an output that the module has not",
      pipeline([DETECT, "{ id: 1, name: score, pres: [0], inputs: { boxes: { module: detect, tensor: box } } }"]),
      "modules[1].inputs.boxes.tensor: of module 1 (score) must be an output of module 0 (detect) (boxes, count); was box; did you mean boxes?",
    ],
    [
      "a module that does not lead there",
      pipeline([
        DETECT,
        SCORE,
        "{ id: 2, name: other, model: score, pres: [0], inputs: { boxes: { module: score, tensor: score } } }",
      ]),
      "modules[2].inputs.boxes.module: of module 2 (other) must be a module that leads to it; was 1 (score), which does not",
    ],
    [
      "a module that is none",
      pipeline([DETECT], "outputs: { y: { module: detct, tensor: boxes } }\n"),
      "outputs.y.module: must name a module (detect); was detct; did you mean detect?",
    ],
    [
      "a model that is not there",
      pipeline(["{ id: 0, name: detect, model: nothing }"]),
      "modules[0].model: of module 0 (detect) must be a model of the repository that is served; was nothing: there is no such model",
    ],
    [
      "two that take one input of the request unlike",
      pipeline([DETECT, "{ id: 1, name: score, inputs: { boxes: { tensor: image } } }"]),
      "modules[1].inputs.boxes: of module 1 (score), the request's input 'image', must be FP32 [-1,4]; module 0 (detect) as 'image' takes it as UINT8 [-1,3,-1,-1]",
    ],
    [
      "outputs of one name",
      pipeline([DETECT, SCORE, "{ id: 2, name: again, model: score, pres: [0] }"]),
      "outputs: must say where 'score' comes from: modules 1 (score) and 2 (again) have it",
    ],
    [
      "what may be missing where it is needed",
      pipeline(["{ id: 0, name: detect, soft: true }", SCORE]),
      "modules[1].inputs.boxes: of module 1 (score) must be optional in model 'score', since module 0 (detect) is soft and may be missing",
    ],
    [
      "an output that may be missing",
      pipeline(["{ id: 0, name: detect, soft: true }"], "outputs: { b: { module: detect, tensor: boxes } }\n"),
      "outputs.b: must not come from a soft module, which may be missing; was 0 (detect)",
    ],
    [
      "what only scenarios have",
      pipeline(["{ id: 0, name: detect, fan_out: 3 }"]),
      "p/pipeline.yaml:3: modules[0].fan_out: must be a mapping; was 3",
    ],
    [
      "a timeout below the promise",
      pipeline([DETECT], "timeout_max_ms: 50\n"),
      "p/pipeline.yaml:4: timeout_max_ms: must be at least slo_ms 100; was 50",
    ],
  ])("%s: refused", (_, text, says) => {
    expect(() => resolve(text)).toThrow(says);
  });
});
