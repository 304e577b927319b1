import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { drawnTask, GAMMAS, putModel, putTask } from "../../../test/support/elastic-repository.js";
import type { ModelSpec } from "../../config/model.js";
import { readModel } from "../repository/model-reader.js";
import { newestNumber, readTasks } from "./task-folders.js";
import { pruneVersions, removeUnserved } from "./task-store.js";

let repository: string;
let folder: string;
let spec: ModelSpec;
const task = drawnTask("bags", 4);

beforeEach(() => {
  repository = mkdtempSync(path.join(tmpdir(), "rubato-task-folders-"));
  folder = putModel(repository, "vit", "  tasks_max: 2\n  task_mb_max: 0.0015\n  utility_max: 10\n  images_max: 20\n");
  spec = readModel(repository, "vit");
});
afterEach(() => rmSync(repository, { recursive: true, force: true }));

test("a model's inputs for clients are its images alone; what the graph has is in its specification", () => {
  expect(spec.inputs.map(({ name, shape }) => [name, shape])).toEqual([["image", [-1, 1, 16, 16]]]);
  expect(spec.elastic).toMatchObject({
    gammas: [-4, -2, 0, 2, 4],
    gamma: 0,
    layers: 3,
    width: 16,
    classes: null,
    tasksMax: 2,
  });
});

test("a task is read: what is in the folder is version 1, and the newest that is profiled is served", () => {
  const own = putTask(folder, task, { slo_ms: 100 });
  const [read] = readTasks(spec).tasks;
  expect(read).toMatchObject({ candidate: null, profiled: { name: "bags", version: 1, utility: 2, sloUs: 100_000 } });
  expect(read!.profiled!.accuracy).toEqual(GAMMAS.map((gamma) => 0.9 + gamma / 100));
  // A registration that was not profiled yet.
  const next = path.join(own, "2");
  mkdirSync(next);
  for (const file of ["head.bin", "prompts-2.bin", "prompts-4.bin"])
    writeFileSync(path.join(next, file), readFileSync(path.join(own, file)));
  writeFileSync(path.join(next, "images.bin"), new Uint8Array(2 * 16 * 16 * 4));
  writeFileSync(path.join(next, "labels.bin"), new Uint8Array(8));
  writeFileSync(path.join(next, "task.json"), JSON.stringify({ name: "bags", classes: task.classes, images: 2 }));
  const { tasks, problems } = readTasks(spec);
  expect(problems.size).toBe(0);
  expect(tasks[0]).toMatchObject({ candidate: { version: 2, accuracy: null, images: 2 }, profiled: { version: 1 } });
});

describe("registrations that were not profiled", () => {
  const registered = (version: number): string => {
    const next = path.join(folder, "tasks", "bags", String(version));
    mkdirSync(next, { recursive: true });
    for (const [name, bytes] of [
      ["head.bin", 4 * 17 * 4],
      ["prompts-2.bin", 4 * 96],
      ["prompts-4.bin", 4 * 192],
      ["images.bin", 2 * 16 * 16 * 4],
      ["labels.bin", 8],
    ] as const)
      writeFileSync(path.join(next, name), new Uint8Array(bytes));
    const description = { name: "bags", model_version: spec.version, classes: task.classes, images: 2 };
    writeFileSync(path.join(next, "task.json"), JSON.stringify(description));
    return next;
  };
  const given = (newest: unknown): void =>
    writeFileSync(path.join(folder, "tasks", "bags", "versions.json"), JSON.stringify({ newest }));
  const left = (): string[] => readdirSync(path.join(folder, "tasks", "bags")).filter((name) => /^\d/.test(name));

  test("of several the newest waits, and the others go", async () => {
    putTask(folder, task);
    for (const version of [2, 3, 4]) registered(version);
    expect(readTasks(spec).tasks).toMatchObject([{ candidate: { version: 4 }, profiled: { version: 1 } }]);
    await removeUnserved(spec, "bags", () => false);
    expect(left()).toEqual(["4"]);
  });

  test("one that a rejected one superseded never is a candidate, and its number is not given again", async () => {
    putTask(folder, task);
    registered(2);
    given(3);
    expect(readTasks(spec).tasks).toMatchObject([{ candidate: null, profiled: { version: 1 } }]);
    expect(newestNumber(spec, "bags")).toBe(3);
    await removeUnserved(spec, "bags", () => false);
    expect([left(), newestNumber(spec, "bags")]).toEqual([[], 3]);
  });

  test("where nothing else is there, no task is, and its folder goes", async () => {
    registered(1);
    given(2);
    const { tasks, problems } = readTasks(spec);
    expect([tasks, problems.size]).toEqual([[], 0]);
    await removeUnserved(spec, "bags", () => false);
    expect(readTasks(spec).names).toEqual([]);
  });

  test("the version that was served before stays, however many numbers lie between", async () => {
    const accurate = (version: number): void => {
      const file = path.join(registered(version), "task.json");
      const accuracy = Object.fromEntries(GAMMAS.map((gamma) => [gamma, 0.5]));
      writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), accuracy }));
    };
    accurate(1);
    accurate(2);
    registered(3);
    accurate(5);
    await pruneVersions(spec, readTasks(spec).tasks[0]!.profiled!, () => false);
    expect(left()).toEqual(["2", "5"]);
  });

  test.each([["2"], [null], [-1], [1.5], [{}]])("a number that is none says nothing: %j", (newest) => {
    registered(2);
    given(newest);
    expect(newestNumber(spec, "bags")).toBe(2);
  });
});

describe("a task that is wrong is not served, and says where and why; the others are", () => {
  const json = (own: string, changes: object): void => {
    const file = path.join(own, "task.json");
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), ...changes }));
  };
  const bytes = (own: string, file: string, count: number, at = 0, value = 0): void => {
    const values = new Float32Array(count);
    values[at] = value;
    writeFileSync(path.join(own, file), new Uint8Array(values.buffer));
  };
  const wrong: readonly [string, (own: string) => void, string][] = [
    ["no JSON", (own) => writeFileSync(path.join(own, "task.json"), "{"), "vit/tasks/bags/task.json:"],
    ["an unknown key", (own) => json(own, { colour: 1 }), "colour"],
    [
      "a name that is not its folder's",
      (own) => json(own, { name: "hats" }),
      "vit/tasks/bags/task.json: name: must be that of its folder, bags; was hats",
    ],
    [
      "made for another version",
      (own) => json(own, { model_version: "2" }),
      "model_version: must be 1, which is served; was 2",
    ],
    ["one class", (own) => json(own, { classes: ["a"] }), "classes"],
    [
      "a class twice",
      (own) => json(own, { classes: ["a", "b", "a", "c"] }),
      "classes: must differ; 'a' is there twice",
    ],
    ["a utility past the bound", (own) => json(own, { utility: 11 }), "utility: must be at most 10; was 11"],
    [
      "an SLO past the largest timeout",
      (own) => json(own, { slo_ms: 60_001 }),
      "slo_ms: must be at most timeout_max_ms 60000; was 60001",
    ],
    [
      "prompts missing by its own word",
      (own) => json(own, { gammas: [2] }),
      "gammas: must hold every gamma > 0 of the model, 2, 4; lacks 4",
    ],
    ["an accuracy past 1", (own) => json(own, { accuracy: { 0: 1.5 } }), "accuracy"],
    [
      "a gamma without accuracy",
      (own) => json(own, { accuracy: { 0: 0.5 } }),
      "accuracy: must be given for each gamma of the model, -4, -2, 0, 2, 4; lacks -4, -2, 2, 4",
    ],
    [
      "neither accuracy nor images",
      (own) => json(own, { accuracy: undefined }),
      "accuracy: must be given where no profiling set is kept; was nothing",
    ],
    ["images past the bound", (own) => json(own, { images: 21 }), "images: must be at most 20; was 21"],
    [
      "images that are not there",
      (own) => json(own, { accuracy: undefined, images: 2 }),
      "vit/tasks/bags/images.bin: no such file; must have 2048 bytes",
    ],
    [
      "no head",
      (own) => rmSync(path.join(own, "head.bin")),
      "vit/tasks/bags/head.bin: no such file; must have 272 bytes",
    ],
    [
      "a head of another length",
      (own) => bytes(own, "head.bin", 60),
      "vit/tasks/bags/head.bin: must have 272 bytes; has 240",
    ],
    [
      "a head that is no number",
      (own) => bytes(own, "head.bin", 68, 66, Number.NaN),
      "vit/tasks/bags/head.bin: element 66 must be a finite number; was NaN",
    ],
    ["prompts missing", (own) => rmSync(path.join(own, "prompts-4.bin")), "vit/tasks/bags/prompts-4.bin: no such file"],
    [
      "prompts without end",
      (own) => bytes(own, "prompts-2.bin", 96, 1, Number.POSITIVE_INFINITY),
      "vit/tasks/bags/prompts-2.bin: element 1 must be a finite number; was Infinity",
    ],
    [
      "weights past the bound",
      (own) => json(own, { classes: ["a", "b", "c", "d", "e", "f", "g", "h"] }),
      "vit/tasks/bags: its weights must be at most 1500 bytes (elastic.task_mb_max); are 1696",
    ],
    [
      "version 1 twice",
      (own) => mkdirSync(path.join(own, "1")),
      "vit/tasks/bags: must hold version 1 once; has task.json and a folder 1",
    ],
    [
      "nothing in it",
      (own) => rmSync(path.join(own, "task.json")),
      "vit/tasks/bags: must hold task.json, or a folder of a version that does; has neither",
    ],
    [
      "weights from elsewhere",
      (own) => {
        rmSync(path.join(own, "head.bin"));
        symlinkSync("/etc/hostname", path.join(own, "head.bin"));
      },
      "vit/tasks/bags/head.bin: must stay inside",
    ],
  ];
  test.each(wrong)("%s", (_, spoil, text) => {
    spoil(putTask(folder, task));
    putTask(folder, drawnTask("caps", 4));
    const { tasks, problems } = readTasks(spec);
    expect([...problems.keys()]).toEqual(["bags"]);
    expect(problems.get("bags")).toContain(text);
    expect(tasks.map(({ profiled }) => profiled?.name)).toEqual(["caps"]);
  });

  test("more than there may be", () => {
    for (const name of ["a", "b", "c"]) putTask(folder, drawnTask(name, 4));
    expect([...readTasks(spec).problems]).toEqual([["c", "elastic.tasks_max: must be at least 3; was 2"]]);
  });
});

describe("an elastic model that is wrong", () => {
  const wrong: readonly [string, string][] = [
    ["gammas: [2, 0]", "vit/rubato.yaml: elastic.gammas: must increase; was [2,0]"],
    ["gammas: [-2, 2]", "elastic.gammas: must hold 0; was [-2,2]"],
    ["gammas: [0, 1000]", "gammas"],
    ["gammas: []", "gammas"],
    ["{ gammas: [0], gamma: 2 }", "elastic.gamma: must be one of gammas [0]; was 2"],
    ["{ gammas: [0], tasks_max: 0 }", "tasks_max"],
    [
      "{ gammas: [0, 100], task_mb_max: 0.001 }",
      "vit/rubato.yaml: elastic.task_mb_max: must be at least 0.0192, what prompts for its gammas take; was 0.001",
    ],
  ];
  test.each(wrong)("%s", (elastic, text) => {
    const body = elastic.startsWith("{") ? ` ${elastic}` : `\n  ${elastic}`;
    writeFileSync(path.join(folder, "rubato.yaml"), `slo_ms: 100\nelastic:${body}\n`);
    expect(() => readModel(repository, "vit")).toThrow(text);
  });

  test("apps, emulation and a second version do not go with it", () => {
    const yaml = readFileSync(path.join(folder, "rubato.yaml"), "utf8");
    writeFileSync(path.join(folder, "rubato.yaml"), `${yaml}apps: [mail]\n`);
    expect(() => readModel(repository, "vit")).toThrow("apps: must be absent where elastic is given");
    writeFileSync(
      path.join(folder, "rubato.yaml"),
      "elastic: { gammas: [0] }\nemulated: { alpha_ms: 1, beta_ms: 1 }\n",
    );
    expect(() => readModel(repository, "vit")).toThrow("elastic: must be absent for an emulated model");
  });
});
