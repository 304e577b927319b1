/** Registrations and queries that are wrong, each refused with what is wrong and where; what is right goes on beside them. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GAMMAS } from "../../src/bench/elastic/tiny-elastic.js";
import type { RunningServer } from "../../src/serve/running-server.js";
import { ServingError } from "../../src/wire/serving-error.js";
import type { Tensor } from "../../src/wire/tensors/tensor.js";
import { packBytes } from "../../src/wire/tensors/tensor-bytes.js";
import { drawnImages, drawnTask, putModel, putTask, TINY, taskTensors } from "../support/elastic-repository.js";
import { serveIn } from "../support/running-server.js";

const CONFIG = `
http: { port: 0 }
groups: { cpu: { kind: onnx, count: 1, threads: 1 } }
profile: { budget_s: 0.1 }
log: { level: silent }
`;
const COUNT = 16;
const IMAGES = drawnImages(COUNT);
const task = drawnTask("bags", 4);
const LABELS = Array.from({ length: COUNT }, (_, at) => at % 4);

let folder: string;
let running: RunningServer;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "rubato-malformed-"));
  const limits = "  tasks_max: 2\n  classes_max: 8\n  task_mb_max: 0.0015\n  images_max: 20\n  utility_max: 10\n";
  putTask(putModel(path.join(folder, "models"), "vit", limits), drawnTask("letters", 5));
  running = await serveIn(folder, CONFIG);
}, 120_000);
afterAll(async () => {
  await running.stop(0);
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

const TASKS = "/v2/repository/models/vit/tasks";

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are asserted member by member
  readonly json: any;
}

async function post(where: string, body: string, headers: Record<string, string> = {}): Promise<Answer> {
  const answer = await fetch(`${running.httpUrl}${where}`, { method: "POST", headers, body });
  return { status: answer.status, json: await answer.json() };
}

function query(parameters: object, side = TINY.side): Promise<Answer> {
  const data = new Array<number>(side * side).fill(0.5);
  const inputs = [{ name: "image", datatype: "FP32", shape: [1, 1, side, side], data }];
  return post("/v2/models/vit/infer", JSON.stringify({ inputs, parameters }));
}

/** In-process, so that tensors can be wrong in ways that no body says. */
async function refusal(name: string, tensors: readonly Tensor[], parameters: object = {}): Promise<[string, string]> {
  try {
    await running.server.tasks.register("vit", name, { tensors, parameters: parameters as Record<string, number> });
  } catch (error) {
    return [ServingError.from(error).code, ServingError.from(error).message];
  }
  throw new Error("it was not refused");
}

const RIGHT = taskTensors(task, IMAGES, LABELS);
const without = (name: string): Tensor[] => RIGHT.filter((tensor) => tensor.name !== name);
const with_ = (name: string, changes: Partial<Tensor>): Tensor[] =>
  RIGHT.map((tensor) => (tensor.name === name ? { ...tensor, ...changes } : tensor));
const floats = (count: number, at: number, value: number): Uint8Array => {
  const values = new Float32Array(count);
  values[at] = value;
  return new Uint8Array(values.buffer);
};
const labels = (at: number, value: bigint): Uint8Array => {
  const values = new BigInt64Array(COUNT);
  values[at] = value;
  return new Uint8Array(values.buffer);
};
const names = (...all: string[]): Partial<Tensor> => ({
  shape: [all.length],
  data: packBytes(all.map((each) => Buffer.from(each))),
});

const { width, layers, side } = TINY;
const BAD: readonly [what: string, tensors: readonly Tensor[], text: string, parameters?: object][] = [
  ["no tensors", [], "tensor 'classes' must be given, BYTES [classes]; were none"],
  [
    "no head",
    without("head"),
    "tensor 'head' must be given, FP32 [16, classes]; were classes, bias, prompts_2, prompts_4, images, labels",
  ],
  ["no bias", without("bias"), "tensor 'bias' must be given, FP32 [classes]"],
  ["no prompts for a gamma", without("prompts_4"), `tensor 'prompts_4' must be given, FP32 [${layers}, 4, ${width}]`],
  ["no images", without("images"), `tensor 'images' must be given, FP32 [n, 1, ${side}, ${side}]`],
  ["no labels", without("labels"), "tensor 'labels' must be given, INT64 [n]"],
  ["a tensor of another kind", [...RIGHT, { ...RIGHT[1]!, name: "tail" }], "tensor 'tail' is none of a task's"],
  [
    "prompts for a gamma that is not served",
    [...RIGHT, { ...RIGHT[1]!, name: "prompts_3" }],
    "tensor 'prompts_3' is none of a task's, which are classes, head, bias, prompts_2, prompts_4, images, labels",
  ],
  ["a tensor twice", [...RIGHT, RIGHT[1]!], "tensor 'head' must be given once; was twice"],
  [
    "a head for other classes",
    with_("head", { shape: [width, 3], data: floats(width * 3, 0, 0) }),
    `tensor 'head' must be FP32 [${width}, 4]; was FP32 [${width}, 3]`,
  ],
  [
    "a head of another width",
    with_("head", { shape: [8, 4], data: floats(32, 0, 0) }),
    `tensor 'head' must be FP32 [${width}, 4]; was FP32 [8, 4]`,
  ],
  [
    "a head of doubles",
    with_("head", { datatype: "FP64", data: new Uint8Array(width * 4 * 8) }),
    `was FP64 [${width}, 4]`,
  ],
  ["a head with bytes missing", with_("head", { data: new Uint8Array(8) }), "head"],
  [
    "a head that is no number",
    with_("head", { data: floats(width * 4, 7, Number.NaN) }),
    "element 7 of tensor 'head' must be a finite number; was NaN",
  ],
  [
    "a bias of another length",
    with_("bias", { shape: [5], data: floats(5, 0, 0) }),
    "tensor 'bias' must be FP32 [4]; was FP32 [5]",
  ],
  [
    "a bias without end",
    with_("bias", { data: floats(4, 3, Number.POSITIVE_INFINITY) }),
    "element 3 of tensor 'bias' must be a finite number; was Infinity",
  ],
  [
    "prompts for other layers",
    with_("prompts_2", { shape: [layers + 1, 2, width], data: floats((layers + 1) * 2 * width, 0, 0) }),
    `tensor 'prompts_2' must be FP32 [${layers}, 2, ${width}]`,
  ],
  [
    "prompts of another count",
    with_("prompts_2", { shape: [layers, 4, width], data: floats(layers * 4 * width, 0, 0) }),
    `was FP32 [${layers}, 4, ${width}]`,
  ],
  [
    "prompts that are no numbers",
    with_("prompts_4", { data: floats(layers * 4 * width, 100, Number.NEGATIVE_INFINITY) }),
    "element 100 of tensor 'prompts_4' must be a finite number; was -Infinity",
  ],
  ["one class", with_("classes", names("only")), "tensor 'classes' must have 2 to 8 elements"],
  [
    "too many classes",
    with_("classes", names(..."abcdefghi")),
    "tensor 'classes' must have 2 to 8 elements, as 'logits' has columns; has 9",
  ],
  [
    "a class twice",
    with_("classes", names("a", "b", "a", "c")),
    "elements of tensor 'classes' must differ; 0 and 2 are the string \"a\"",
  ],
  [
    "a class without a name",
    with_("classes", names("a", "", "b", "c")),
    "element 1 of tensor 'classes' must be UTF-8 text of 1 to 256 characters",
  ],
  [
    "classes that are no text",
    with_("classes", { datatype: "INT64", data: new Uint8Array(32) }),
    "tensor 'classes' must be BYTES [n]; was INT64 [4]",
  ],
  [
    "images of another size",
    with_("images", { shape: [COUNT, 1, 8, 8], data: floats(COUNT * 64, 0, 0) }),
    `tensor 'images' must be FP32 [n, 1, ${side}, ${side}]`,
  ],
  [
    "too few images",
    with_("images", { shape: [1, 1, side, side], data: floats(side * side, 0, 0) }),
    "tensor 'images' must have 16 to 20 of them; has 1",
  ],
  [
    "too many images",
    with_("images", { shape: [21, 1, side, side], data: floats(21 * side * side, 0, 0) }),
    "tensor 'images' must have 16 to 20 of them; has 21",
  ],
  [
    "an image that is no number",
    with_("images", { data: floats(COUNT * side * side, 300, Number.NaN) }),
    "element 300 of tensor 'images' must be a finite number; was NaN",
  ],
  [
    "labels for other images",
    with_("labels", { shape: [15], data: new Uint8Array(120) }),
    "tensor 'labels' must be INT64 [16]; was INT64 [15]",
  ],
  [
    "a label past the classes",
    with_("labels", { data: labels(5, 4n) }),
    "element 5 of tensor 'labels' must be in [0, 4); was 4",
  ],
  [
    "a label below 0",
    with_("labels", { data: labels(2, -1n) }),
    "element 2 of tensor 'labels' must be in [0, 4); was -1",
  ],
  ["a utility of 0", RIGHT, "parameter 'utility' must be a number in (0, 10]; was 0", { utility: 0 }],
  ["a utility past the bound", RIGHT, "parameter 'utility' must be a number in (0, 10]; was 11", { utility: 11 }],
  [
    "a utility in words",
    RIGHT,
    "parameter 'utility' must be a number in (0, 10]; was the string \"much\"",
    { utility: "much" },
  ],
  [
    "an SLO past the largest timeout",
    RIGHT,
    "parameter 'slo_ms' must be a number in [1, 60000]; was 60001",
    { slo_ms: 60_001 },
  ],
  [
    "an SLO that nothing keeps",
    RIGHT,
    "parameter 'slo_ms' must be a number in [1, 60000]; was 0.001",
    { slo_ms: 0.001 },
  ],
  ["a setting that there is not", RIGHT, "parameter 'priority' is none of utility, slo_ms; was 1", { priority: 1 }],
];

describe("registrations", () => {
  test.each(BAD)("%s", async (_, tensors, text, parameters = {}) => {
    const [code, message] = await refusal("bags", tensors, parameters);
    expect(code).toBe("invalid-argument");
    expect(message).toContain(text);
    expect(message).toContain("task 'bags'");
  });

  test.each([[""], [".."], ["a/b"], ["-a"], ["x".repeat(65)], ["ä"]])("the name %j", async (name) => {
    const [code, message] = await refusal(name, RIGHT);
    expect(code).toBe("invalid-argument");
    expect(message).toContain("name of a task must be 1 to 64 letters");
  });

  test("over HTTP: no JSON, no tensors, sizes that do not add up, a name with a path in it", async () => {
    const url = `${TASKS}/bags`;
    expect(await post(url, "{")).toMatchObject({ status: 400, json: { error: expect.stringContaining("JSON") } });
    expect(await post(url, "{}")).toMatchObject({
      status: 400,
      json: { error: "inputs must be an array of tensors, got nothing" },
    });
    const short = JSON.stringify({
      inputs: [{ name: "head", datatype: "FP32", shape: [2], parameters: { binary_data_size: 8 } }],
    });
    const headers = { "inference-header-content-length": String(short.length) };
    expect((await post(url, `${short}1234`, headers)).json.error).toContain("only 4 bytes of binary data are left");
    const classes = (data: unknown): string =>
      JSON.stringify({ inputs: [{ name: "classes", datatype: "BYTES", shape: [2], data }] });
    for (const body of [classes(["a", null]), classes([1, 2]), classes(["a"]), "{", "{}"])
      expect((await post(url, body)).json.reason).toBe("task");
    expect((await fetch(`${running.httpUrl}${TASKS}/-a`)).status).toBe(400);
    expect((await post(`${TASKS}/..%2Fbags`, JSON.stringify({ inputs: [] }))).status).toBe(400);
  });

  test("weights past their limit; one task more than there may be", async () => {
    const bytes = 4 * (layers * (2 + 4) * width + (width + 1) * 8);
    expect((await refusal("bags", taskTensors(drawnTask("bags", 8), IMAGES, LABELS)))[1]).toBe(
      `task 'bags': its weights must be at most 1500 bytes; were ${bytes}`,
    );
    const others = ["one", "two"].map((name) =>
      running.server.tasks.register("vit", name, { tensors: RIGHT, parameters: {} }),
    );
    const [first, second] = await Promise.allSettled(others);
    expect(first!.status).toBe("fulfilled");
    expect(second).toMatchObject({
      status: "rejected",
      reason: {
        code: "resource-exhausted",
        message: "model 'vit': tasks must be at most 2 (elastic.tasks_max); was 3",
      },
    });
    await running.server.tasks.remove("vit", "one");
  });
});

describe("queries", () => {
  const wrong: [object, number, string][] = [
    [{}, 400, "parameter 'task' must name a task of model 'vit' (letters); was nothing"],
    [{ task: "bags" }, 404, "model 'vit' has no task 'bags'; it has letters"],
    [
      { task: "" },
      400,
      "parameter 'task' must be 1 to 64 letters, digits, '._-', the first no '.' or '-'; was the string \"\"",
    ],
    [{ task: 7 }, 400, "was 7"],
    [{ task: true }, 400, "was true"],
    [{ task: "../letters" }, 400, 'was the string "../letters"'],
    [{ task: "__proto__" }, 404, "model 'vit' has no task '__proto__'"],
    [{ task: "letters", utility: 0 }, 400, "parameter 'utility' must be a number in (0, 10]; was 0"],
    [{ task: "letters", utility: -1 }, 400, "was -1"],
    [{ task: "letters", utility: 10.5 }, 400, "was 10.5"],
    [{ task: "letters", utility: "1" }, 400, 'was the string "1"'],
    [{ task: "letters", utility: true }, 400, "was true"],
    [{ task: "letters", timeout: -5 }, 400, "parameter 'timeout'"],
    [
      { task: "letters", timeout: 60_000_001 },
      400,
      "parameter 'timeout' for model 'vit' must be at most 60000000 microseconds",
    ],
    [
      { task: "letters", app: "mail" },
      400,
      "parameter 'app' must be absent for model 'vit', which has tasks; was the string \"mail\"",
    ],
  ];
  test.each(wrong)("%j", async (parameters, status, text) => {
    const answer = await query(parameters);
    expect([answer.status, answer.json.error]).toEqual([status, expect.stringContaining(text)]);
  });

  test("a gamma, which its policy decides", async () => {
    expect(await query({ task: "letters", gamma: 4 })).toMatchObject({
      status: 400,
      json: {
        reason: "task",
        error:
          "parameter 'gamma' must be absent for model 'vit': its policy chooses one for each batch, or elastic.gamma holds; was 4",
      },
    });
  });

  test("pixels that lead to logits that are no numbers: the input is named", async () => {
    const pixels = (value: number): Buffer => {
      const values = new Float32Array(side * side).fill(0.5);
      values[3] = value;
      return Buffer.from(values.buffer);
    };
    for (const [value, text] of [
      [Number.NaN, "element 3 of input 'image' is NaN, which leads to it"],
      [Number.NEGATIVE_INFINITY, "element 3 of input 'image' is -Infinity, which leads to it"],
    ] as const) {
      const data = pixels(value);
      const inputs = [
        {
          name: "image",
          datatype: "FP32",
          shape: [1, 1, side, side],
          parameters: { binary_data_size: data.byteLength },
        },
      ];
      const header = JSON.stringify({ inputs, parameters: { task: "letters" } });
      const answer = await fetch(`${running.httpUrl}/v2/models/vit/infer`, {
        method: "POST",
        headers: { "inference-header-content-length": String(header.length) },
        body: new Uint8Array(Buffer.concat([Buffer.from(header), data])),
      });
      const { error } = (await answer.json()) as { error: string };
      expect([answer.status, error]).toEqual([400, expect.stringContaining("output 'logits'")]);
      // JSON and text have float32 as the nearest double.
      expect(error.replace(/-2\.99\d+e\+38|-3\.0\d+e\+38/, "-3e+38")).toContain(text);
    }
  });

  test("an image of another size", async () => {
    expect((await query({ task: "letters" }, 8)).json.error).toContain("image");
  });
});

test("a head of huge numbers is rejected, with the gamma and what of it may have led there", async () => {
  const huge = new Float32Array(width * 4).fill(3e38);
  await running.server.tasks.register("vit", "huge", {
    tensors: with_("head", { data: new Uint8Array(huge.buffer) }),
    parameters: {},
  });
  for (;;) {
    const { state, reason, profiling } = running.server.tasks.get("vit", "huge");
    if (state === "PROFILING") {
      expect(profiling).toMatchObject({ of: COUNT * GAMMAS.length });
      await new Promise((resolve) => setTimeout(resolve, 5));
      continue;
    }
    expect([state, profiling]).toEqual(["UNAVAILABLE", null]);
    expect(reason).toMatch(
      /^output 'logits' must hold finite numbers at every gamma; has (NaN|-?Infinity) at gamma -4, to which the task's head, bias or images lead$/,
    );
    break;
  }
  await running.server.tasks.remove("vit", "huge");
});

test("and nothing is left of them: what was served is, nothing else is stored", async () => {
  expect(running.server.tasks.list("vit").map(({ name, state }) => [name, state])).toEqual([["letters", "READY"]]);
  expect(readdirSync(path.join(folder, "models", "vit", "tasks"))).toEqual(["letters"]);
  expect((await query({ task: "letters", utility: 10 })).json.parameters).toEqual({ gamma: GAMMAS.at(-1) });
});
