/** Tasks written to the repository: each version whole or not at all, under a name that nobody reads before it is. */
import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import path from "node:path";
import {
  HEAD_FILE,
  IMAGES_FILE,
  LABELS_FILE,
  promptsFile,
  type TaskLatency,
  type TaskSpec,
} from "../../config/elastic.js";
import type { ModelSpec } from "../../config/model.js";
import { durationUs, sloUsFromMs } from "../../core/time.js";
import { ServingError } from "../../wire/serving-error.js";
import { isFolder } from "../repository/model-location.js";
import { isUnserved, NUMBERS_FILE, newestNumber, TASK_FILE, tasksFolder, versionsOf } from "./task-folders.js";
import type { TaskDraft } from "./task-registration.js";

/** Its number is kept first, so that it is given once. @throws ServingError unavailable: the repository cannot be written. */
export async function saveTask(spec: ModelSpec, draft: TaskDraft, version: number): Promise<TaskSpec> {
  const { name, classes, utility, sloMs, labels } = draft;
  const root = tasksFolder(spec);
  const folder = path.join(root, name, String(version));
  const hidden = path.join(root, `.${name}.${version}.${randomUUID()}`);
  const description = {
    name,
    model_version: spec.version,
    classes,
    utility,
    ...(sloMs === null ? {} : { slo_ms: sloMs }),
    gammas: [...draft.prompts.keys()],
    images: labels.length,
  };
  try {
    await mkdir(hidden, { recursive: true });
    await write(path.join(hidden, TASK_FILE), jsonText(description));
    await write(path.join(hidden, HEAD_FILE), bytesOf(draft.head), bytesOf(draft.bias));
    for (const [gamma, values] of draft.prompts) await write(path.join(hidden, promptsFile(gamma)), bytesOf(values));
    await write(path.join(hidden, IMAGES_FILE), draft.images);
    await write(path.join(hidden, LABELS_FILE), bytesOf(labels));
    await mkdir(path.join(root, name), { recursive: true });
    await replace(path.join(root, name, NUMBERS_FILE), jsonText({ newest: version }));
    await rename(hidden, folder);
  } catch (cause) {
    await rm(hidden, { recursive: true, force: true }).catch(() => {});
    const { message } = cause as Error;
    throw new ServingError("unavailable", `task '${name}' of model '${spec.name}' cannot be stored: ${message}`, {
      cause,
    });
  }
  const sloUs = sloMs === null ? null : durationUs(sloUsFromMs(sloMs));
  return { name, version, folder, classes, utility, sloUs, accuracy: null, latencyUs: null, images: labels.length };
}

/** What was measured goes into its task.json. @throws Error of the file system: it lives for this run only. */
export async function saveTaskProfile(
  { folder }: TaskSpec,
  accuracy: Readonly<Record<string, number>>,
  latencyUs: TaskLatency,
): Promise<void> {
  const file = path.join(folder, TASK_FILE);
  const description = JSON.parse(await readFile(file, "utf8")) as object;
  await replace(file, jsonText({ ...description, accuracy, latency_us: latencyUs }));
}

/** Older versions than the one that was served before this; what its owner put there stays. @param isInUse by a worker. */
export async function pruneVersions(
  spec: ModelSpec,
  { name, version: served }: TaskSpec,
  isInUse: (folder: string) => boolean,
): Promise<void> {
  const own = path.join(tasksFolder(spec), name);
  const older = versionsOf(spec, name).filter(({ version }) => version < served);
  const before = older.findLast(({ folder }) => !isUnserved(spec, name, folder));
  for (const { version, folder } of older)
    if (version !== before?.version && folder !== own && !isInUse(folder)) await removeFolder(folder);
}

/** Registrations that never were served. @param isInUse by a worker. @param upTo the version; default all before the newest. */
export async function removeUnserved(
  spec: ModelSpec,
  name: string,
  isInUse: (folder: string) => boolean,
  upTo = newestNumber(spec, name) - 1,
): Promise<void> {
  const own = path.join(tasksFolder(spec), name);
  if (!isFolder(own)) return;
  for (const { version, folder } of versionsOf(spec, name))
    if (version <= upTo && isUnserved(spec, name, folder) && !isInUse(folder)) await removeFolder(folder);
  if (versionsOf(spec, name).length === 0) await removeFolder(own);
}

/** All versions. @throws ServingError unavailable: the repository cannot be written. */
export async function removeTask(spec: ModelSpec, name: string): Promise<void> {
  const folder = path.join(tasksFolder(spec), name);
  if (!isFolder(folder)) return;
  try {
    await removeFolder(folder);
  } catch (cause) {
    const { message } = cause as Error;
    throw new ServingError("unavailable", `task '${name}' of model '${spec.name}' cannot be removed: ${message}`, {
      cause,
    });
  }
}

/** Gone at once for whoever looks; its files follow. */
async function removeFolder(folder: string): Promise<void> {
  const hidden = path.join(path.dirname(folder), `.${path.basename(folder)}.${randomUUID()}`);
  await rename(folder, hidden);
  await rm(hidden, { recursive: true, force: true });
}

/** On disk before it is said to be. */
async function write(file: string, ...pieces: readonly (Uint8Array | string)[]): Promise<void> {
  const handle = await open(file, "wx", 0o644);
  try {
    for (const piece of pieces) await handle.writeFile(piece);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Whole or not at all. */
async function replace(file: string, text: string): Promise<void> {
  const draft = `${file}.${randomUUID()}`;
  try {
    await write(draft, text);
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => {});
    throw error;
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array | Int32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
const jsonText = (value: object): string => `${JSON.stringify(value, null, 1)}\n`;
