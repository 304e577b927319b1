/** Steps, fan-outs, branches and defaults of pipelines: where each tensor comes from, and every way in which it cannot. */
import { describe, expect, it, test } from "vitest";
import { pipelineText as pipeline, resolverOf } from "../../../../test/support/pipeline-files.js";
import { modelSpec, tensorSpec } from "../../../../test/support/specs.js";
import type { ModelSpec } from "../../model.js";

const MODELS: readonly ModelSpec[] = [
  modelSpec({
    name: "find",
    inputs: [tensorSpec("image", "UINT8", [-1, 3])],
    outputs: [tensorSpec("crops", "FP32", [-1, 4]), tensorSpec("count", "INT64", [-1, 1])],
  }),
  modelSpec({
    name: "read",
    inputs: [tensorSpec("x", "FP32", [-1, 4])],
    outputs: [tensorSpec("y", "FP32", [-1, 2])],
  }),
];
const resolve = resolverOf(MODELS);

const FIND = "{ id: 0, name: find }";
const PARTS =
  "{ id: 1, name: read, pres: [0], fan_out: { module: find, tensors: [crops] }, inputs: { x: { module: find, tensor: crops } } }";
const FP = "{ datatype: FP32, shape: [-1, 2] }";
const step = (id: number, more: string): string =>
  `{ id: ${id}, name: s${id}, step: ./s.mjs, gives: { y: ${FP} }, ${more} }`;
const JOIN = step(2, `pres: [1], join: true, takes: { y: ${FP} }`);
/** A branch on the answer of `read`, to either of two steps that meet again. */
const branching = (meets: string, more = "above: 0.5"): string => {
  const side = (id: number): string => step(id, `pres: [1], takes: { y: ${FP} }`);
  return pipeline(
    [
      FIND,
      `{ id: 1, name: read, pres: [0], subs: [2, 3], inputs: { x: { module: find, tensor: crops } }, branch: { tensor: y, ${more} } }`,
      side(2),
      side(3),
      step(4, `pres: [2, 3], takes: { y: ${FP} }, inputs: { y: ${meets} }`),
    ],
    "outputs: { y: { module: s4, tensor: y } }\n",
  );
};
const BOTH = "[{ module: s2, tensor: y }, { module: s3, tensor: y }]";
const soft = (
  defaults: string,
  takers = `[{ id: 1, name: read, pres: [0], inputs: { x: { module: find, tensor: crops } } }]`,
): string => pipeline([`{ id: 0, name: find, soft: true, ${defaults} }`, takers.slice(1, -1)]);

describe("graphs with steps", () => {
  it("each part has its row of what was split, the whole of the rest, and is joined", () => {
    const { modules, client, partsMax } = resolve(
      pipeline(
        [
          FIND,
          PARTS,
          step(
            2,
            `pres: [1], takes: { y: ${FP}, crop: { datatype: FP32, shape: [1, 4] }, all: { datatype: INT64, shape: [-1, 1] } }, inputs: { y: { module: read, tensor: y }, crop: { module: find, tensor: crops }, all: { module: find, tensor: count } }`,
          ),
          step(3, `pres: [2], join: true, takes: { y: { datatype: FP32, shape: [-1, 2], list: true } }`),
        ],
        "queue: { parts_max: 9 }\n",
      ),
    );
    expect(partsMax).toBe(9);
    const ends = (module: number) => modules[module]!.inputs.map(({ from: [end] }) => end);
    expect(modules[1]!.fanOut).toEqual([{ module: 0, tensor: "crops", up: 0, rowUp: -1, gatheredOf: -1 }]);
    expect(ends(1)).toEqual([{ module: 0, tensor: "crops", up: 1, rowUp: 0, gatheredOf: -1 }]);
    expect(ends(2)).toEqual([
      { module: 1, tensor: "y", up: 0, rowUp: -1, gatheredOf: -1 },
      { module: 0, tensor: "crops", up: 1, rowUp: 0, gatheredOf: -1 },
      { module: 0, tensor: "count", up: 1, rowUp: -1, gatheredOf: -1 },
    ]);
    expect(ends(3)).toEqual([{ module: 2, tensor: "y", up: 0, rowUp: -1, gatheredOf: 1 }]);
    expect(modules[3]!.step).toMatchObject({ file: "./s.mjs", name: "default", timeUs: null });
    expect(client.outputs).toMatchObject([{ name: "y", shape: [-1, 2] }]);
    expect(modules.map(({ outputs }) => outputs)).toEqual([["crops", "count"], ["y"], ["y"], ["y"]]);
  });

  it("the request's own rows may be the parts: clients send any number of them", () => {
    const { client } = resolve(
      pipeline([
        "{ id: 0, name: read, fan_out: { tensors: [x] } }",
        step(1, `pres: [0], join: true, takes: { y: ${FP} }`),
      ]),
    );
    expect(client.inputs).toMatchObject([{ name: "x", datatype: "FP32", shape: [-1, 4] }]);
  });

  it("what a branch passes over comes from where it led; what is soft has a default", () => {
    expect(resolve(branching(BOTH)).modules[4]!.inputs[0]!.from.map(({ module }) => module)).toEqual([2, 3]);
    expect(resolve(branching(BOTH, "element: 1, above: 0.5")).modules[1]!.branch).toEqual({
      tensor: "y",
      datatype: "FP32",
      element: 1,
      above: [0.5],
    });
    const { defaults } = resolve(soft("defaults: { crops: { shape: [1, 4], value: 0.5 } }")).modules[0]!;
    expect(defaults).toEqual([{ name: "crops", datatype: "FP32", shape: [1, 4], data: [0.5, 0.5, 0.5, 0.5] }]);
  });

  test.each<[string, string, string]>([
    [
      "a step that leaves the folder",
      pipeline([FIND, step(1, "pres: [0]").replace("./s.mjs", "./../s.mjs")]),
      "p/pipeline.yaml:4: modules[1].step: of module 1 (s1) must be ./FILE.mjs or ./FILE.mjs#NAME (.js, .cjs) within the pipeline's folder; was ./../s.mjs",
    ],
    [
      "a step by an absolute path",
      pipeline([FIND, step(1, "pres: [0]").replace("./s.mjs", "/etc/s.mjs")]),
      "modules[1].step: of module 1 (s1) must be ./FILE.mjs or ./FILE.mjs#NAME (.js, .cjs) within the pipeline's folder; was /etc/s.mjs",
    ],
    [
      "a step that is no JavaScript",
      pipeline([FIND, step(1, "pres: [0]").replace("./s.mjs", "./s.py")]),
      "within the pipeline's folder; was ./s.py",
    ],
    [
      "a step of a package",
      pipeline([FIND, step(1, "pres: [0]").replace("./s.mjs", "sharp")]),
      "within the pipeline's folder; was sharp",
    ],
    [
      "a step whose export is no name",
      pipeline([FIND, step(1, "pres: [0]").replace("./s.mjs", "./s.mjs#a-b")]),
      "within the pipeline's folder; was ./s.mjs#a-b",
    ],
    [
      "a step beside a model",
      pipeline([FIND, step(1, "pres: [0], model: read")]),
      "modules[1].step: of module 1 (s1) must not stand beside model; was ./s.mjs",
    ],
    [
      "a step that gives nothing",
      pipeline([FIND, "{ id: 1, name: s1, step: ./s.mjs, pres: [0] }"]),
      "modules[1].gives: of module 1 (s1) must name at least one output of the step; was missing",
    ],
    [
      "what only a step takes",
      pipeline([`{ id: 0, name: find, takes: { y: ${FP} } }`]),
      "modules[0].takes: of module 0 (find) goes only with step",
    ],
    [
      "what only a step gives",
      pipeline([`{ id: 0, name: find, gives: { y: ${FP} } }`]),
      "modules[0].gives: of module 0 (find) goes only with step",
    ],
    [
      "a time of a model",
      pipeline(["{ id: 0, name: find, time_ms: 3 }"]),
      "modules[0].time_ms: of module 0 (find) goes only with step",
    ],
    [
      "a datatype that is none",
      pipeline([FIND, step(1, "pres: [0]").replace("FP32", "FLOAT")]),
      "modules[1].gives.y.datatype: must be one of",
    ],
    [
      "an extent that is none",
      pipeline([FIND, step(1, "pres: [0]").replace("-1, 2", "-2, 2")]),
      "modules[1].gives.y.shape[0]: must be at least -1; was -2",
    ],
    [
      "a list of scalars",
      pipeline([FIND, step(1, "pres: [0]").replace("[-1, 2]", "[], list: true")]),
      "modules[1].gives.y.shape: of a list of FP32 must have a first axis; was []",
    ],
    [
      "an unknown key of a tensor",
      pipeline([FIND, step(1, "pres: [0], takes: { y: { datatype: FP32, shape: [1], dims: 1 } }")]),
      "modules[1].takes.y.dims: unknown key",
    ],
    [
      "a datatype that does not fit a step",
      pipeline([FIND, step(1, `pres: [0], takes: { count: ${FP} }`)]),
      "modules[1].inputs.count: of module 1 (s1) must be FP32 [-1,2]; was output 'count' of module 0 (find): INT64 [-1,1]",
    ],
    [
      "a shape of a step that does not fit a model",
      pipeline([
        step(0, `takes: { a: ${FP} }`),
        "{ id: 1, name: read, pres: [0], inputs: { x: { module: s0, tensor: y } } }",
      ]),
      "modules[1].inputs.x: of module 1 (read) must be FP32 [-1,4]; was output 'y' of module 0 (s0): FP32 [-1,2]",
    ],
    [
      "an input that the step has not",
      pipeline([FIND, step(1, "pres: [0], inputs: { z: { module: find, tensor: crops } }")]),
      "modules[1].inputs.z: of module 1 (s1) must be an input of step './s.mjs': it has none",
    ],
    [
      "an input of a step that nothing says of",
      pipeline([FIND, step(1, `pres: [0], takes: { z: ${FP} }`)]),
      "modules[1].inputs.z: of module 1 (s1), an input of step './s.mjs', must say where it comes from",
    ],
    [
      "a list that clients would send",
      pipeline([step(0, `takes: { a: { datatype: FP32, shape: [1, 2], list: true } }`)]),
      "modules[0].inputs.a: of module 0 (s0), a list of FP32 [1,2], must come from a module: clients send no lists; was the request's input 'a'",
    ],
    [
      "a list that a model would take",
      pipeline([
        step(0, `takes: { a: ${FP} }`).replace("[-1, 2] } },", "[1, 4], list: true } },"),
        "{ id: 1, name: read, pres: [0], inputs: { x: { module: s0, tensor: y } } }",
      ]),
      "modules[1].inputs.x: of module 1 (read) must be FP32 [-1,4]; was output 'y' of module 0 (s0): a list of FP32 [1,4]",
    ],
    [
      "a list that a pipeline would answer",
      pipeline([step(0, `takes: { a: ${FP} }`).replace("[-1, 2] } },", "[1, 4], list: true } },")]),
      "outputs: must be given, since output 'y' of module 0 (s0) is a list of FP32 [1,4]",
    ],
    [
      "a list that is written as an answer",
      pipeline(
        [step(0, `takes: { a: ${FP} }`).replace("[-1, 2] } },", "[1, 4], list: true } },")],
        "outputs: { y: { module: s0, tensor: y } }\n",
      ),
      "outputs.y: must be one tensor, not a list; was output 'y' of module 0 (s0): a list of FP32 [1,4]",
    ],
    [
      "parts of a module that does not lead there",
      pipeline([FIND, PARTS.replace("pres: [0]", "pres: []"), JOIN]),
      "modules[1].fan_out.module: of module 1 (read) must be a module that leads to it; was 0 (find), which does not",
    ],
    [
      "parts of a module that is none",
      pipeline([FIND, PARTS.replace("{ module: find, tensors", "{ module: fin, tensors"), JOIN]),
      "modules[1].fan_out.module: of module 1 (read) must name a module (find, read, s2); was fin; did you mean find?",
    ],
    [
      "parts of an output that is none",
      pipeline([FIND, PARTS.replace("[crops]", "[crop]"), JOIN]),
      "modules[1].fan_out.tensors[0]: of module 1 (read) must be an output of module 0 (find) (crops, count); was crop; did you mean crops?",
    ],
    [
      "parts of one tensor twice",
      pipeline([FIND, PARTS.replace("[crops]", "[crops, crops]"), JOIN]),
      "modules[1].fan_out.tensors[1]: of module 1 (read) must name each tensor once; was crops twice",
    ],
    [
      "parts of a tensor without rows",
      pipeline([
        step(0, `takes: { a: ${FP} }`).replace("[-1, 2] } },", "[] } },"),
        "{ id: 1, name: read, pres: [0], fan_out: { module: s0, tensors: [y] }, inputs: { x: { tensor: x } } }",
        JOIN,
      ]),
      "modules[1].fan_out.tensors[0]: of module 1 (read) must have rows, the parts; was output 'y' of module 0 (s0): FP32 []",
    ],
    [
      "no tensor that parts are of",
      pipeline([FIND, PARTS.replace("[crops]", "[]"), JOIN]),
      "modules[1].fan_out.tensors: must be at least 1 long; was []",
    ],
    [
      "a row that does not fit",
      pipeline([
        FIND,
        `{ id: 1, name: s1, step: ./s.mjs, pres: [0], fan_out: { module: find, tensors: [crops] }, takes: { crops: { datatype: FP32, shape: [2, 4] } }, gives: { y: ${FP} } }`,
        JOIN,
      ]),
      "modules[1].inputs.crops: of module 1 (s1) must be FP32 [2,4]; was output 'crops' of module 0 (find): FP32 [1,4] of one part",
    ],
    [
      "parts that nobody joins",
      pipeline([FIND, PARTS]),
      "modules[1]: of module 1 (read) runs in the parts of 1 (read) and leads nowhere: it must join them",
    ],
    [
      "an answer of a part",
      pipeline([FIND, PARTS, JOIN], "outputs: { y: { module: read, tensor: y } }\n"),
      "outputs.y: must not come from 1 (read), which runs in the parts of 1 (read): only a module that joins them may take it",
    ],
    [
      "what is taken of parts behind their join",
      pipeline([
        FIND,
        PARTS,
        JOIN,
        step(3, `pres: [2], takes: { y: ${FP} }, inputs: { y: { module: read, tensor: y } }`),
      ]),
      "modules[3].inputs.y: of module 3 (s3) must not come from 1 (read), which runs in the parts of 1 (read): only a module that joins them may take it",
    ],
    [
      "a join of nothing",
      pipeline([FIND, step(1, "pres: [0], join: true")]),
      "modules[1].join: of module 1 (s1) must bring the parts of one fan_out before it together",
    ],
    [
      "parts that meet the whole without a join",
      pipeline([FIND, PARTS, step(2, "pres: [0, 1]")]),
      "modules[2].pres: of module 2 (s2) must be of the same parts, or it must join; were the whole request and parts of 1 (read)",
    ],
    [
      "a join that fans out",
      pipeline([FIND, PARTS, JOIN.replace("join: true", "join: true, fan_out: { module: find, tensors: [count] }")]),
      "modules[2].fan_out: must not stand beside join in module 2 (s2)",
    ],
    [
      "what does not fit put together",
      pipeline([
        FIND,
        PARTS,
        JOIN.replace("takes: { y: { datatype: FP32, shape: [-1, 2]", "takes: { y: { datatype: FP32, shape: [3, 3]"),
      ]),
      "modules[2].inputs.y: of module 2 (s2) must be FP32 [3,3]; was output 'y' of module 1 (read): FP32 [-1,2] of all parts",
    ],
    [
      "rows that are split twice",
      pipeline([
        FIND,
        PARTS,
        "{ id: 2, name: again, model: read, pres: [1], fan_out: { module: find, tensors: [crops] }, inputs: { x: { module: find, tensor: crops } } }",
      ]),
      "modules[2].fan_out.tensors[0]: of module 2 (again) must not be split again; its rows are the parts of 1 (read)",
    ],
    [
      "more parts than are allowed",
      pipeline([FIND, PARTS, JOIN], "queue: { parts_max: 1000000 }\n"),
      "queue.parts_max: must be at most 100000; was 1000000",
    ],
    [
      "a branch whose order is not written",
      branching(BOTH).replace("subs: [2, 3], ", ""),
      "modules[1].subs: of module 1 (read) is required beside branch, which goes by its order; was missing",
    ],
    [
      "a branch to one",
      pipeline([
        FIND,
        "{ id: 1, name: read, pres: [0], subs: [2], inputs: { x: { module: find, tensor: crops } }, branch: { tensor: y } }",
        step(2, "pres: [1]"),
      ]),
      "modules[1].branch: of module 1 (read) must choose among at least 2 subs; has 1",
    ],
    [
      "a branch by an output that is none",
      branching(BOTH).replace("branch: { tensor: y", "branch: { tensor: score"),
      "modules[1].branch.tensor: of module 1 (read) must be an output of model 'read' (y); was score",
    ],
    [
      "a branch by a list",
      branching(BOTH)
        .replace("module: find, tensor: crops } }, branch", "module: find, tensor: crops } }, branch")
        .replace(
          "name: read, pres: [0], subs: [2, 3], inputs: { x: { module: find, tensor: crops } }",
          "name: read, step: ./s.mjs, takes: { crops: { datatype: FP32, shape: [-1, 4] } }, gives: { y: { datatype: FP32, shape: [-1, 2], list: true } }, pres: [0], subs: [2, 3]",
        ),
      "modules[1].branch.tensor: of module 1 (read) must be numbers to choose by; was output 'y': a list of FP32 [-1,2]",
    ],
    [
      "a branch by an element beyond",
      branching(BOTH, "element: 2, above: 0.5")
        .replace("model: read", "")
        .replace(
          "name: read, pres: [0], subs: [2, 3], inputs: { x: { module: find, tensor: crops } }",
          "name: read, step: ./s.mjs, takes: { crops: { datatype: FP32, shape: [-1, 4] } }, gives: { y: { datatype: FP32, shape: [1, 2] } }, pres: [0], subs: [2, 3]",
        ),
      "modules[1].branch.element: of module 1 (read) must be below the 2 elements of output 'y': FP32 [1,2]; was 2",
    ],
    [
      "a bound too many",
      branching(BOTH, "above: [0.1, 0.5]"),
      "modules[1].branch.above: of module 1 (read) must have one number less than there are subs (2); has 2",
    ],
    [
      "bounds that fall",
      branching(BOTH, "above: [0.5, 0.1]"),
      "modules[1].branch.above[1]: must be above the number before it; was 0.1",
    ],
    [
      "what a branch passes over",
      branching("{ module: s2, tensor: y }"),
      "modules[4].inputs.y: of module 4 (s4) must be there whichever way a request takes; comes from 2 (s2), passed over where 1 (read) leads to 3 (s3)",
    ],
    [
      "an answer that a branch passes over",
      branching(BOTH).replace("outputs: { y: { module: s4", "outputs: { y: { module: s3"),
      "outputs.y: must be there whichever way a request takes; comes from 3 (s3), passed over where 1 (read) leads to 2 (s2)",
    ],
    [
      "a place that does not fit beside one that does",
      branching("[{ module: s2, tensor: y }, { module: find, tensor: count }]"),
      "modules[4].inputs.y[1]: of module 4 (s4) must be FP32 [-1,2]; was output 'count' of module 0 (find): INT64 [-1,1]",
    ],
    [
      "a default of what is never missing",
      pipeline(["{ id: 0, name: find, defaults: { crops: { shape: [1, 4], value: 0 } } }"]),
      "modules[0].defaults: of module 0 (find) goes only with soft: it is never missing",
    ],
    [
      "a soft module without a default",
      soft("subs: [1]"),
      "modules[1].inputs.x: of module 1 (read) must be optional in model 'read', since module 0 (find) is soft and may be missing; or it needs a default for 'crops'",
    ],
    [
      "a default of no output",
      soft("defaults: { crop: { shape: [1, 4], value: 0 } }"),
      "modules[0].defaults.crop: of module 0 (find) must be an output of model 'find' (crops, count); was crop; did you mean crops?",
    ],
    [
      "a default that does not fit",
      soft("defaults: { crops: { shape: [1, 5], value: 0 } }"),
      "modules[0].defaults.crops.shape: of module 0 (find) must fit its output 'crops': FP32 [-1,4]; was [1,5]",
    ],
    [
      "a default of too few elements",
      soft("defaults: { crops: { shape: [1, 4], data: [1, 2] } }"),
      "modules[0].defaults.crops.data: must have as many elements as shape [1,4] (4); has 2",
    ],
    [
      "a default without a value",
      soft("defaults: { crops: { shape: [1, 4] } }"),
      "modules[0].defaults.crops: must have one of value and data",
    ],
    [
      "a default of another kind",
      soft("defaults: { crops: { shape: [1, 4], value: yes } }".replace("yes", "true")),
      "modules[0].defaults.crops.value: of module 0 (find) must be a number in FP32; was true at element 0",
    ],
    [
      "a default out of range",
      soft("defaults: { crops: { shape: [1, 4], value: 0 }, count: { shape: [1, 1], value: 0.5 } }"),
      "modules[0].defaults.count.value: of module 0 (find) must be a whole number in [-9007199254740991, 9007199254740991] in INT64; was 0.5 at element 0",
    ],
    [
      "a soft module that branches by nothing",
      branching(BOTH).replace("name: read,", "name: read, soft: true,"),
      "modules[1].branch: of soft module 1 (read) must go by an output that has a default; was 'y'",
    ],
    ["threads that are none", pipeline([FIND], "steps: { threads: 0 }\n"), "steps.threads: must be at least 1; was 0"],
    [
      "a timeout that is none",
      pipeline([FIND], "steps: { timeout_ms: 0 }\n"),
      "steps.timeout_ms: must be at least 1; was 0",
    ],
  ])("%s: refused", (_, text, says) => {
    expect(() => resolve(text)).toThrow(says);
  });

  it("more ways than can be looked at: refused", () => {
    const modules = [FIND];
    let last = 0;
    for (let id = 1; id <= 39; id += 3) {
      const chosen = `pres: [${last === 0 ? 0 : `${last - 1}, ${last}`}], subs: [${id + 1}, ${id + 2}], branch: { tensor: y }, inputs: { x: { module: find, tensor: crops } }`;
      modules.push(`{ id: ${id}, name: m${id}, model: read, ${chosen} }`);
      for (const sub of [id + 1, id + 2])
        modules.push(
          `{ id: ${sub}, name: m${sub}, model: read, pres: [${id}], inputs: { x: { module: find, tensor: crops } } }`,
        );
      last = id + 2;
    }
    expect(() => resolve(pipeline(modules, "outputs: { c: { module: find, tensor: crops } }\n"))).toThrow(
      "modules: must branch into at most 4096 ways in all; branch into 8192",
    );
  });
});
