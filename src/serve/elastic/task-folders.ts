/**
 * Tasks on disk: `tasks/NAME/` holds task.json and the weights, or such folders by version, `tasks/NAME/2/`. What lies in
 * tasks/NAME itself is version 1. `versions.json` has the newest number that was given to a registration.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import path from "node:path";
import {
  type ElasticSpec,
  HEAD_FILE,
  IMAGES_FILE,
  LABELS_FILE,
  promptSizes,
  promptsFile,
  type TaskSpec,
} from "../../config/elastic.js";
import type { ModelSpec } from "../../config/model.js";
import { isTaskName, parseTaskFile, TASK_NAME_BOUND, type TaskPlace } from "../../config/server/task-file.js";
import { ServingError } from "../../wire/serving-error.js";
import { DATATYPES, type Datatype, elementCount } from "../../wire/tensors/tensor.js";
import { insideOf, isFile, isFolder } from "../repository/model-location.js";
import { readSmall } from "../repository/model-reader.js";

export const TASK_FILE = "task.json";
export const NUMBERS_FILE = "versions.json";
const VERSION = /^[1-9]\d{0,8}$/;
/** Folders that are looked at; more are a mistake. */
const FOLDERS_MAX = 4096;
/** Read at once where numbers are looked at. */
const PIECE_BYTES = 1024 * 1024;

export const tasksFolder = ({ folder }: Pick<ModelSpec, "folder">): string => path.join(folder, "tasks");

export interface StoredTask {
  /** The newest that has been profiled; null: none has. */
  readonly profiled: TaskSpec | null;
  /** A newer one that has not. */
  readonly candidate: TaskSpec | null;
}

interface StoredTasks {
  /** Of all folders. */
  readonly names: readonly string[];
  readonly tasks: readonly StoredTask[];
  /** What is wrong with those that cannot be served, by name. */
  readonly problems: ReadonlyMap<string, string>;
}

/** All tasks of a model; one that is wrong does not keep the others from being served. */
export function readTasks(spec: ModelSpec): StoredTasks {
  const root = tasksFolder(spec);
  const names = isFolder(root)
    ? readdirSync(root)
        .filter((name) => !name.startsWith("."))
        .sort()
        .slice(0, FOLDERS_MAX)
        .filter((name) => isFolder(path.join(root, name)))
    : [];
  const tasks: StoredTask[] = [];
  const problems = new Map<string, string>();
  for (const name of names) {
    try {
      if (tasks.length === spec.elastic!.tasksMax)
        throw new ServingError(
          "resource-exhausted",
          `elastic.tasks_max: must be at least ${tasks.length + 1}; was ${tasks.length}`,
        );
      const task = readTask(spec, name);
      if (task !== null) tasks.push(task);
    } catch (error) {
      problems.set(name, (error as Error).message);
    }
  }
  return { names, tasks, problems };
}

/**
 * Of registrations that were not profiled only the newest of all that there were is one: others were superseded or rejected.
 *
 * @returns null: nothing but such is there. @throws ServingError, ModelFileError: what is wrong with its newest version.
 */
function readTask(spec: ModelSpec, name: string): StoredTask | null {
  if (!isTaskName(name))
    throw new ServingError("invalid-argument", `name of a task must be ${TASK_NAME_BOUND}; was ${name}`);
  const versions = versionsOf(spec, name);
  const newest = newestNumber(spec, name);
  if (newest === 0)
    throw new ServingError(
      "invalid-argument",
      `${shownOf(spec, path.join(tasksFolder(spec), name))}: must hold ${TASK_FILE}, or a folder of a version that does; has neither`,
    );
  let candidate: TaskSpec | null = null;
  for (const { version, folder } of versions.toReversed()) {
    if (version < newest && isUnserved(spec, name, folder)) continue;
    const task = readVersion(spec, { name, version, folder, model: spec });
    if (task.accuracy !== null) return { profiled: task, candidate };
    candidate ??= task;
  }
  return candidate === null ? null : { profiled: null, candidate };
}

/** The largest number that a version has or had; 0: none had. */
export function newestNumber(spec: ModelSpec, name: string): number {
  const own = path.join(tasksFolder(spec), name);
  if (!isFolder(own)) return 0;
  return Math.max(0, ...versionsOf(spec, name).map(({ version }) => version), givenNumber(own));
}

/** A file that cannot be read says nothing. */
function givenNumber(own: string): number {
  try {
    const { newest } = JSON.parse(readFileSync(path.join(own, NUMBERS_FILE), "utf8")) as { newest?: unknown };
    return typeof newest === "number" && VERSION.test(String(newest)) ? newest : 0;
  } catch {
    return 0;
  }
}

/** A registration that was never profiled. What its owner put there is none, nor is what cannot be read. */
export function isUnserved(spec: ModelSpec, name: string, folder: string): boolean {
  if (folder === path.join(tasksFolder(spec), name)) return false;
  try {
    const description = JSON.parse(readFileSync(path.join(folder, TASK_FILE), "utf8")) as object;
    return Object.hasOwn(description, "model_version") && !Object.hasOwn(description, "accuracy");
  } catch {
    return false;
  }
}

/** Ascending. */
export function versionsOf(spec: ModelSpec, name: string): readonly { version: number; folder: string }[] {
  const folder = path.join(tasksFolder(spec), name);
  const numbered = readdirSync(folder).filter((entry) => VERSION.test(entry) && isFolder(path.join(folder, entry)));
  const versions = numbered.map((entry) => ({ version: Number(entry), folder: path.join(folder, entry) }));
  if (isFile(path.join(folder, TASK_FILE))) {
    if (numbered.includes("1"))
      throw new ServingError(
        "invalid-argument",
        `${shownOf(spec, folder)}: must hold version 1 once; has ${TASK_FILE} and a folder 1`,
      );
    versions.push({ version: 1, folder });
  }
  return versions.sort((a, b) => a.version - b.version);
}

const shownOf = ({ name, folder }: ModelSpec, file: string): string => `${name}/${path.relative(folder, file)}`;

function readVersion(spec: ModelSpec, place: TaskPlace): TaskSpec {
  const { elastic, folder } = spec;
  const file = path.join(place.folder, TASK_FILE);
  const text = readSmall(folder, file, shownOf(spec, file));
  if (text === null) throw new ServingError("invalid-argument", `${shownOf(spec, file)}: no such file`);
  const task = parseTaskFile(text, shownOf(spec, file), elastic!, place);
  const files = weightFiles(elastic!, task.classes.length);
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total > elastic!.taskBytesMax)
    throw new ServingError(
      "invalid-argument",
      `${shownOf(spec, task.folder)}: its weights must be at most ${elastic!.taskBytesMax} bytes (elastic.task_mb_max); are ${total}`,
    );
  for (const { name, bytes } of files) checkFloats(spec, path.join(task.folder, name), bytes);
  if (task.accuracy === null) checkProfilingSet(spec, task);
  return task;
}

/** Files of a task's weights, and what each is long. */
function weightFiles(elastic: ElasticSpec, classes: number): readonly { name: string; bytes: number }[] {
  const { layers, width } = elastic;
  return [
    { name: HEAD_FILE, bytes: 4 * (width + 1) * classes },
    ...promptSizes(elastic).map((size) => ({ name: promptsFile(size), bytes: 4 * layers * size * width })),
  ];
}

/** Elements of one image of a profiling set. */
const imageBytes = ({ inputs }: ModelSpec): number =>
  elementCount(inputs[0]!.shape.slice(1)) * DATATYPES[inputs[0]!.datatype as Datatype];

function checkProfilingSet(spec: ModelSpec, task: TaskSpec): void {
  checkSize(spec, path.join(task.folder, IMAGES_FILE), task.images * imageBytes(spec));
  checkSize(spec, path.join(task.folder, LABELS_FILE), task.images * 4);
}

function checkSize(spec: ModelSpec, file: string, bytes: number): void {
  const shown = shownOf(spec, file);
  insideOf(spec.folder, file, shown, shown);
  if (!isFile(file)) throw new ServingError("invalid-argument", `${shown}: no such file; must have ${bytes} bytes`);
  const { size } = statSync(file);
  if (size !== bytes) throw new ServingError("invalid-argument", `${shown}: must have ${bytes} bytes; has ${size}`);
}

/** @throws ServingError naming the file, the element and its value. */
function checkFloats(spec: ModelSpec, file: string, bytes: number): void {
  checkSize(spec, file, bytes);
  const handle = openSync(file, "r");
  try {
    const piece = new Uint8Array(Math.min(PIECE_BYTES, bytes));
    for (let at = 0; at < bytes; ) {
      const count = readSync(handle, piece, 0, piece.byteLength, at);
      if (count === 0) break;
      const bad = firstNotFinite(new Float32Array(piece.buffer, 0, count >> 2));
      if (bad !== null)
        throw new ServingError(
          "invalid-argument",
          `${shownOf(spec, file)}: element ${(at >> 2) + bad.index} must be a finite number; was ${bad.value}`,
        );
      at += count;
    }
  } finally {
    closeSync(handle);
  }
}

function firstNotFinite(values: Float32Array): { readonly index: number; readonly value: number } | null {
  const index = values.findIndex((value) => !Number.isFinite(value));
  return index < 0 ? null : { index, value: values[index]! };
}
