import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { buildOnnx, type Dim } from "../../test/support/onnx-builder.js";
import { serverConfigFrom } from "../config/server/server.js";
import { sourceOf } from "../config/source.js";
import { hostLimits } from "../serve/models/host-limits.js";
import { silentLog } from "../serve/observation/log.js";
import { checkRepository } from "../serve/repository/repository.js";
import { RepositorySource } from "../serve/repository/repository-source.js";
import { reportError } from "./exit.js";
import { buildProgram } from "./program.js";
import { checkModels } from "./repository-check.js";

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "rubato-check-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function put(file: string, content: string | Buffer): string {
  const full = path.join(root, file);
  mkdirSync(path.dirname(full), { recursive: true });
  writeFileSync(full, content);
  return full;
}
const model = (x: readonly Dim[], y: readonly Dim[] = ["batch", 3], location?: string): Buffer =>
  buildOnnx({
    inputs: [{ name: "x", type: 1, dims: x }],
    outputs: [{ name: "y", type: 1, dims: y }],
    nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
    initializers: location === undefined ? [] : [{ name: "w", dims: [3], location }],
  });
const plain = model(["batch", 3]);
const emulated = "emulated: { alpha_ms: 1, beta_ms: 5 }\n";

async function rubato(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  let code = 0;
  const output = {
    result: (text: string) => {
      stdout += `${text}\n`;
    },
    note: (text: string) => {
      stderr += `${text}\n`;
    },
    interactive: false,
  };
  try {
    await buildProgram(output).parseAsync(["node", "rubato", ...args]);
  } catch (error) {
    code = reportError(error, {
      write: (text: string) => {
        stderr += text;
      },
    });
  }
  return { code, stdout, stderr };
}

describe("check says what serve says", () => {
  const folders: [string, Record<string, string | Buffer>, string, string][] = [
    ["an empty folder", {}, "", ": must hold models as NAME/1/model.onnx; has none"],
    [
      "a folder of nothing but a model file",
      { "net.onnx": plain },
      "",
      "; has none: move net.onnx to net/1/model.onnx",
    ],
    [
      "a single model",
      { "m/1/model.onnx": plain },
      "m",
      ": is a model, not a repository of models: give the folder that holds it, ",
    ],
    [
      "a single model with its configuration alone",
      { "m/rubato.yaml": emulated },
      "m",
      ": is a model, not a repository",
    ],
    [
      "a model file",
      { "net.onnx": plain },
      "net.onnx",
      ": is a model file, not a repository of models: move it to FOLDER/NAME/1/model.onnx",
    ],
  ];
  for (const [what, files, target, text] of folders)
    test(`${what}: the same text, exit 2`, async () => {
      for (const [file, content] of Object.entries(files)) put(file, content);
      const full = path.join(root, target);
      for (const args of [
        ["check", full],
        ["serve", "--models", full, "--http", "0", "--grpc", "0"],
      ]) {
        const { code, stderr } = await rubato(...args);
        expect(stderr, args[0]).toContain(
          `${full}${text.startsWith(":") ? text : ": must hold models as NAME/1/model.onnx"}`,
        );
        expect(stderr).toContain(text);
        expect(code).toBe(2);
      }
    });

  test("a model file beside models is warned of, with the cure", async () => {
    put("m/1/model.onnx", plain);
    put("net.onnx", plain);
    const { code, stderr } = await rubato("check", root);
    expect([code, stderr]).toEqual([0, "warning: a model is a folder: move net.onnx to net/1/model.onnx\n"]);
    expect(checkRepository(root)).toEqual(["a model is a folder: move net.onnx to net/1/model.onnx"]);
  });

  test("serve names a folder that is not there, or no folder", async () => {
    put("a.yaml", emulated);
    for (const [target, text] of [
      ["none", "no such folder"],
      ["a.yaml", "must be a folder of models"],
    ] as const) {
      const full = path.join(root, target);
      const { code, stderr } = await rubato("serve", "--models", full, "--http", "0", "--grpc", "0");
      expect([code, stderr]).toEqual([2, `rubato: ${full}: ${text}\n`]);
    }
  });

  const models: [string, Record<string, string | Buffer>, string, object?][] = [
    [
      "a name that is not allowed",
      { "my model/1/model.onnx": plain },
      "model name must be words of letters, digits, '._+-', at most one '/'; was my model",
    ],
    [
      "a model without a version",
      { "m/net.onnx": plain },
      "m: must hold a version folder such as m/1 (or rubato.yaml with model_file); was none, but m/net.onnx: move it to m/1/model.onnx",
    ],
    [
      "rubato.yml",
      { "m/1/model.onnx": plain, "m/rubato.yml": "slo_ms: 100" },
      "m/rubato.yml: must be named rubato.yaml; it is not read",
    ],
    [
      "weights that are missing",
      { "m/1/model.onnx": model(["batch", 3], ["batch", 3], "w.bin") },
      "m/1: weights of model.onnx: must lie beside it; missing are w.bin",
    ],
    [
      "a group that the server has not",
      { "m/1/model.onnx": plain, "m/rubato.yaml": "group: gpu" },
      "model 'm': group must be one of cpu, emulated; was gpu",
    ],
    [
      "a group of another kind",
      { "m/1/model.onnx": plain, "m/rubato.yaml": "group: emulated" },
      "model 'm': group must be of kind onnx, which runs platform onnx_onnxv1; was 'emulated' of kind emulated",
    ],
    [
      "placement that is not there",
      { "m/1/model.onnx": plain, "m/rubato.yaml": "group: auto" },
      "model 'm': group must name a group; was auto, which needs placement.groups in the server's configuration",
    ],
    [
      "placement of another kind",
      { "m/rubato.yaml": `${emulated}group: auto` },
      "model 'm': group must name a group; was auto, but placement has groups of kind onnx, which cannot run platform rubato_emulated",
      { placement: { groups: ["cpu"] } },
    ],
  ];
  for (const [what, files, text, settings] of models)
    test(`${what}: the same text`, () => {
      for (const [file, content] of Object.entries(files)) put(file, content);
      const groups = { cpu: { kind: "onnx", count: 1 }, emulated: { kind: "emulated", count: 1 } };
      const server = serverConfigFrom(sourceOf({ groups, ...settings }, "c"), root, { cpus: 2, folder: root });
      const { problems } = checkModels(root, server);
      const source = new RepositorySource(null as never, silentLog(), {
        folder: root,
        profileBudgetMs: 0,
        refresh: false,
        cacheDir: null,
        host: hostLimits(server),
      });
      let loading = "";
      try {
        source.read(source.names()[0]!);
      } catch (error) {
        loading = (error as Error).message;
      }
      expect(loading).toBe(text);
      expect(problems.map(({ message }) => message).join("\n")).toBe(text);
    });
});

describe("what was understood", () => {
  test("of each version: batches, open axes, deadline, policy, group", async () => {
    put("batched/1/model.onnx", model(["batch", "n", 3]));
    put("batched/rubato.yaml", "slo_ms: 100\ninputs: { x: { variable_axis: 1, buckets: [8, 64] } }\n");
    put("single/1/model.onnx", model(["seq_len", 3], ["seq_len", 3]));
    put("many/1/model.onnx", plain);
    put("many/3/model.onnx", plain);
    put(
      "many/config.pbtxt",
      "max_batch_size: 4 version_policy { all { } } dynamic_batching { default_queue_policy { default_timeout_microseconds: 50000 } }",
    );
    expect(checkModels(root, null)).toEqual({
      problems: [],
      warnings: [],
      pipelines: [],
      models: [
        {
          model: "batched",
          version: "1",
          batches: "up to 32, axis 0",
          variable: "x axis 1 padded up to 64",
          deadline: "100 ms (SLO)",
          policy: "auto",
          group: "cpu",
        },
        {
          model: "many",
          version: "1",
          batches: "up to 4, axis 0",
          variable: "none",
          deadline: "50 ms, for every request",
          policy: "eager",
          group: "cpu",
        },
        {
          model: "many",
          version: "3",
          batches: "up to 4, axis 0",
          variable: "none",
          deadline: "50 ms, for every request",
          policy: "eager",
          group: "cpu",
        },
        {
          model: "single",
          version: "1",
          batches: "no: 'seq_len', the first axis of input 'x', names a length",
          variable: "x axis 0 equal",
          deadline: "10,000 ms",
          policy: "eager",
          group: "cpu",
        },
      ],
    });
    const { code, stdout } = await rubato("check", root);
    expect(code).toBe(0);
    expect(stdout).toMatch(/many +3 +up to 4, axis 0 +none +50 ms, for every request +eager +cpu/);
  });

  test("warnings are told, and are no failure: fields without effect, an SLO below the emulated time", async () => {
    put("m/1/model.onnx", plain);
    put("m/config.pbtxt", "instance_group { count: 2 }");
    put("e/rubato.yaml", `${emulated}slo_ms: 5\ngroup: emulated-a100\n`);
    const { code, stderr } = await rubato("check", root);
    expect(code).toBe(0);
    expect(stderr).toContain(
      "warning: m/config.pbtxt: instance_group: is not offered: workers belong to accelerator groups",
    );
    expect(stderr).toContain("warning: e: slo_ms is 5, less than the profiled time of one request (6.000 ms)");
  });

  test("a server's configuration is held against the models that it names, and one beside a repository is the server's", async () => {
    put("models/m/rubato.yaml", `${emulated}group: mine\n`);
    const config = put("rubato.config.yaml", "groups: { other: { kind: emulated, count: 1 } }\nlog: { level: warn }\n");
    for (const target of [config, root]) {
      const { code, stderr } = await rubato("check", target);
      expect(stderr).toContain("model 'm': group must be one of other; was mine");
      expect(code).toBe(2);
    }
    put("rubato.config.yaml", "groups: { mine: { kind: emulated, count: 1 } }\nlog: { level: warn }\n");
    expect((await rubato("check", root)).code).toBe(0);
  });

  test("a configuration of nearly the right name is not one", async () => {
    const { code, stderr } = await rubato("check", put("rubato.yml", "slo_ms: 100\n"));
    expect(stderr).toContain("rubato.yml: must be named rubato.yaml; it is not read");
    expect(code).toBe(2);
  });
});

test("what a pipeline's step imports and Node would not find is a problem of the pipeline", () => {
  put("m/1/model.onnx", plain);
  const shape = "x: { datatype: FP32, shape: [1] }";
  put(
    "p/pipeline.yaml",
    `slo_ms: 50\nmodules:\n  - { id: 0, name: one, step: ./s.mjs, takes: { ${shape} }, gives: { ${shape} } }\n`,
  );
  put(
    "p/s.mjs",
    'import { readFileSync } from "node:fs";\nimport gone from "no-such-package";\nexport default (x) => x;\n',
  );
  expect(checkModels(root, null).problems).toEqual([
    {
      line: null,
      field: "p",
      message:
        "step ./s.mjs must import what is there; 'no-such-package' is neither beside it nor in a node_modules from its folder upwards",
    },
  ]);
});

describe("a pipeline before it is served", () => {
  const STEPS = "export function double({ x }) {\n  return { y: x };\n}\nexport { double as other };\n";
  const io = "takes: { x: { datatype: FP32, shape: [1, 3] } }, gives: { y: { datatype: FP32, shape: [1, 3] } }";
  const file = (more = "", step = "./s.mjs#double", modelName = "m") =>
    `slo_ms: 100\n${more}modules:\n  - { id: 0, name: a, step: "${step}", ${io} }\n  - { id: 1, name: b, model: ${modelName}, pres: [0], inputs: { x: { module: a, tensor: y } } }\n`;
  const check = (content: string, steps = STEPS) => {
    put("m/1/model.onnx", plain);
    put("p/s.mjs", steps);
    return put("p/pipeline.yaml", content);
  };

  test("its file alone is held against the repository that it lies in, and says so", async () => {
    const target = check(file());
    const { code, stdout } = await rubato("check", target);
    expect(code).toBe(0);
    expect(stdout).toContain(`models and steps as in ${root}`);
    // What it does is in its graph.
    expect(stdout).toContain("a (step), a -> b");
    check(file("", "./s.mjs#double", "n"));
    const wrong = await rubato("check", target);
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining(`${target}:4: modules[1].model: `)]);
  });

  test("outside a repository it says what was not looked at", async () => {
    const { code, stdout } = await rubato("check", put("alone/p/pipeline.yaml", file()));
    expect(code).toBe(0);
    expect(stdout).toContain("models and steps were not looked at");
  });

  test.each([
    [
      "an export that is not there",
      file("", "./s.mjs#doubel"),
      STEPS,
      "s.mjs: p: step ./s.mjs#doubel: the file has no export 'doubel'; exports double, other; did you mean double?",
    ],
    ["no default export", file("", "./s.mjs"), STEPS, "the file has no export 'default'"],
    [
      "a step file that cannot be parsed",
      file(),
      "export function double( {\n  return = 4;\n}\n",
      "s.mjs:2: p: step file: SyntaxError: ",
    ],
    [
      "a step file that is not there",
      file("", "./t.mjs#double"),
      STEPS,
      "must be a file in the pipeline's folder; there is no ./t.mjs; did you mean ./s.mjs?",
    ],
    ["a misspelt model", file("", "./s.mjs#double", "mm"), STEPS, "there is no such model; did you mean m?"],
    ["a misspelt rule", file("budget: stagered\n"), STEPS, "budget: must be share or "],
    ["the rule meant", file("budget: stagered\n"), STEPS, 'was "stagered"; did you mean staggered?'],
    [
      "an option that says nothing",
      file("budget: { rule: staggered, lambda: 0.2 }\n"),
      STEPS,
      "pipeline.yaml:2: budget.lambda: goes only with rule forecast; staggered does not look at it",
    ],
    [
      "an element beyond the rows that come",
      file().replace("inputs: { x", "subs: [2, 3], branch: { tensor: y, element: 3, above: 1 }, inputs: { x") +
        ["c", "d"].map((name, index) => `  - { id: ${index + 2}, name: ${name}, model: m, pres: [1] }\n`).join("") +
        "outputs: { y: [{ module: c, tensor: y }, { module: d, tensor: y }] }\n",
      STEPS,
      "modules[1].branch.element: of module 1 (b) must be below the 3 elements of output 'y': FP32 [1,3]; was 3",
    ],
  ])("%s", async (_, content, steps, text) => {
    check(content, steps);
    const { code, stderr } = await rubato("check", root);
    expect(stderr).toContain(text);
    expect(code).toBe(2);
    // A file that is named is there.
    const [named] = /^\S+?\.(?:yaml|mjs)(?=:)/.exec(stderr.replace(/^rubato: /, "")) ?? [];
    expect(named).toBe(path.join(root, "p", path.basename(named!)));
  });

  test("an element in use, exports under any name, and a position that is a fraction", async () => {
    const branching = file().replace("inputs: { x", "subs: [2, 3], branch: { tensor: y, element: 2 }, inputs: { x");
    const ends = ["c", "d"]
      .map(
        (name, index) =>
          `  - { id: ${index + 2}, name: ${name}, model: m, pres: [1], inputs: { x: { module: b, tensor: y } } }\n`,
      )
      .join("");
    check(
      `${branching}${ends}outputs: { y: [{ module: c, tensor: y }, { module: d, tensor: y }] }\n`,
      "const double = 1;\nexport const { other } = {}, [double2] = [];\nexport { double };\n",
    );
    const { code, stdout, stderr } = await rubato("check", root);
    expect(stderr).toMatch(/^warning: p: module b branches by output 'y' as a position/);
    expect(stdout).toContain("b (branch: c | d)");
    expect(code).toBe(0);
  });

  test("its folder is called a pipeline; a scenario it is not", async () => {
    const target = check(file());
    const folder = path.dirname(target);
    expect((await rubato("check", folder)).stderr).toContain(`${folder}: is a pipeline, not a repository`);
    const { code, stderr } = await rubato("simulate", target);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining("is a pipeline to be served, and no scenario: rubato check and rubato serve take it"),
    ]);
  });
});
