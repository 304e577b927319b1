import { expect, test } from "vitest";
import type { ElasticSpec, TaskSpec } from "../../../config/elastic.js";
import type { TimeUs } from "../../../core/time.js";
import { ProfilingProgress } from "./profiling-progress.js";
import { TaskTable } from "./task-table.js";

const elastic = { gammas: [0, 2], gamma: 0, utilityMax: 10, tasksMax: 4 } as unknown as ElasticSpec;
const version = (name: string, number: number, accuracy: readonly number[] | null = [0.5, 0.6]): TaskSpec => ({
  name,
  version: number,
  folder: `/tasks/${name}/${number}`,
  classes: ["x", "y"],
  utility: 2,
  sloUs: null,
  accuracy,
  latencyUs: null,
  images: 0,
});
const kinds = (table: TaskTable): number[] => table.bindings.map(({ kind }) => kind);

test("each version has a kind; one that is served no more keeps it as long as something holds it", async () => {
  const table = new TaskTable("m", elastic);
  const [first, other] = [table.add(version("a", 1)), table.add(version("b", 1))];
  table.serve(first);
  table.serve(other);
  expect(table.resolve({ task: "a" })).toEqual({
    traits: { kind: 1, weight: 2, dueBy: Number.POSITIVE_INFINITY, headStartUs: 0 },
    sloUs: null,
  });
  table.hold(first);
  const second = table.add(version("a", 2));
  expect(second).toBe(3);
  table.serve(second);
  expect(table.resolve({ task: "a", utility: 0.5 }).traits).toMatchObject({ kind: 3, weight: 0.5 });
  expect(kinds(table)).toEqual([1, 2, 3]);
  let isFree = false;
  const unheld = table.unheld("a").then(() => {
    isFree = true;
  });
  await Promise.resolve();
  expect(isFree).toBe(false);
  table.release(first);
  await unheld;
  expect(kinds(table)).toEqual([2, 3]);
  expect(table.add(version("c", 1))).toBe(1);
  expect(() => table.release(2)).toThrow("released more often than held");
});

test("what a policy is told changes with what is served, by kind; kind 0 and those that wait are nobody's", () => {
  const table = new TaskTable("m", elastic);
  const before = table.epoch;
  const kind = table.add(version("a", 1));
  expect(table.epoch).toBe(before);
  table.serve(kind);
  expect(table.epoch).toBe(before + 1);
  table.add(version("b", 1, null));
  expect(table.accuracies).toEqual([[], [0.5, 0.6], []]);
  table.remove("a");
  expect(table.epoch).toBe(before + 2);
  expect(table.accuracies).toEqual([[], [], []]);
});

test("a task is READY while a version is served, PROFILING before, UNAVAILABLE with its reason when it was rejected", () => {
  const table = new TaskTable("m", elastic);
  const task = version("a", 1, null);
  const progress = new ProfilingProgress({ now: () => 0 as TimeUs }, 32);
  table.candidate(task, progress);
  expect(table.viewOf("a")).toMatchObject({ state: "PROFILING", candidate: task, task: null });
  expect(() => table.resolve({ task: "a" })).toThrow("task 'a' of model 'm' is being profiled");
  const kind = table.add(task);
  const profiled = version("a", 1);
  table.serve(kind, profiled);
  expect(table.viewOf("a")).toMatchObject({ state: "READY", candidate: null, task: profiled });
  table.candidate(version("a", 2, null), progress);
  expect(table.viewOf("a")).toMatchObject({ state: "READY", candidate: { version: 2 } });
  table.reject("a", "it is wrong");
  expect(table.viewOf("a")).toMatchObject({ state: "READY", reason: "it is wrong", candidate: null });
  table.reject("z", "it is wrong, too");
  expect(() => table.resolve({ task: "z" })).toThrow("task 'z' of model 'm' is not served: it is wrong, too");
  expect(table.count).toBe(1);
  for (let n = 0; n < 100; n++) table.reject(`bad ${n}`, "no");
  expect(table.view().length).toBeLessThanOrEqual(65);
});
