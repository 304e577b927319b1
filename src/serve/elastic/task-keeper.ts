import type { TaskSpec } from "../../config/elastic.js";
import type { ModelSpec } from "../../config/model.js";
import { type Clock, pause } from "../../wire/clock/clock.js";
import { ServingError } from "../../wire/serving-error.js";
import type { TaskRegistration } from "../gateway.js";
import type { TaskSource } from "../models/model-table.js";
import type { ServedModel } from "../models/served-model.js";
import { ProfilingProgress } from "../models/tasks/profiling-progress.js";
import { TaskTable, type TaskView } from "../models/tasks/task-table.js";
import type { Log } from "../observation/log.js";
import { Turnstile } from "../workers/seats/turnstile.js";
import type { WorkerPool } from "../workers/worker-pool.js";
import { newestNumber, readTasks } from "./task-folders.js";
import { ProfilingGivenUp, TaskProfiler } from "./task-profiler.js";
import { checkTaskName, readRegistration } from "./task-registration.js";
import { pruneVersions, removeTask, removeUnserved, saveTask, saveTaskProfile } from "./task-store.js";

export interface TaskKeeperOptions {
  readonly pool: WorkerPool;
  readonly clock: Clock;
  readonly log: Log;
  /** Everything of the model that waits with this kind fails, its task deleted. */
  readonly withdraw: (model: ServedModel, kind: number) => void;
}

/** Registrations that are looked at or profiled at once, over all models. */
const CANDIDATES_MAX = 16;
/** Profiling that its worker did not live to end is tried again, after a pause longer than a worker takes to be replaced. */
const ATTEMPTS = 5;
const RETRY_US = 2_000_000;

/**
 * The tasks of all elastic models: from disk to the workers, from clients to disk, and profiled on the way.
 *
 * registered -> stored -> profiling -> served; or rejected, with a reason, or superseded by a newer one, and gone from disk. Deleted: no request may name it, what
 * waits with it fails, and when nothing holds it workers forget it and its files go.
 */
export class TaskKeeper implements TaskSource {
  private readonly options: TaskKeeperOptions;
  private readonly profiler: TaskProfiler;
  /** One task is profiled at a time. */
  private readonly turnstile = new Turnstile();
  /** One version is put on disk or taken from it at a time: a folder that goes because it is empty stays so. */
  private readonly files = new Turnstile();
  /** Names of tasks that are being registered or deleted, by model. */
  private readonly busy = new Set<string>();
  private candidates = 0;
  private isStopped = false;
  /** That is being profiled now. */
  private current: { readonly task: TaskSpec; readonly ended: Promise<unknown> } | null = null;

  constructor(options: TaskKeeperOptions) {
    this.options = options;
    this.profiler = new TaskProfiler(options.pool, options.clock);
  }

  async open(spec: ModelSpec): Promise<TaskTable> {
    const { pool, log } = this.options;
    const table = new TaskTable(spec.name, spec.elastic!);
    const { names, tasks, problems } = readTasks(spec);
    const kinds = tasks.flatMap(({ profiled }) => (profiled === null ? [] : [table.add(profiled)]));
    if (kinds.length > 0) await pool.bindTasks(spec, table.bindings);
    for (const kind of kinds) table.serve(kind);
    for (const { candidate } of tasks)
      if (candidate !== null) table.candidate(candidate, this.progressOf(candidate, spec));
    for (const [task, reason] of problems) {
      log.warn({ model: spec.name, task, because: reason }, "a task cannot be served");
      table.reject(task, reason);
    }
    // Where a server ended before it had taken them from disk.
    for (const name of names) await this.removeUnserved(spec, table, name);
    return table;
  }

  begin(model: ServedModel): void {
    const { tasks } = model;
    if (tasks === null) return;
    for (const { candidate } of tasks.view()) if (candidate !== null) this.profileBeside(model, candidate);
  }

  /** The server ends, and its workers: what is not profiled is when it is started again. */
  stop(): void {
    this.isStopped = true;
  }

  /** Whether tasks of the model may be registered. @throws ServingError as `register` before it looks at one. */
  check(model: ServedModel): void {
    this.changeable(model);
  }

  /** @throws ServingError not-found: the model is not elastic. */
  list(model: ServedModel): readonly TaskView[] {
    return this.tableOf(model).view();
  }

  /** @throws ServingError not-found */
  view(model: ServedModel, name: string): TaskView {
    const table = this.tableOf(model);
    if (!table.has(name)) checkTaskName(name);
    return table.viewOf(name);
  }

  /**
   * Checks and stores a task, as the next version where there is one of its name; it is profiled afterwards, and served then.
   *
   * @throws ServingError what is wrong with it; resource-exhausted: there are too many; permission-denied: none may be
   *   registered; unavailable: another registration of it is under way, or it cannot be stored.
   */
  async register(model: ServedModel, name: string, registration: TaskRegistration): Promise<TaskView> {
    const table = this.changeable(model);
    const { tasksMax } = table.elastic;
    const others = table.count + this.arriving(model, table);
    if (!table.has(name) && others >= tasksMax)
      throw new ServingError(
        "resource-exhausted",
        `model '${model.spec.name}': tasks must be at most ${tasksMax} (elastic.tasks_max); was ${others + 1}`,
        { reason: "tasks-full" },
      );
    if (this.candidates + this.busy.size >= CANDIDATES_MAX)
      throw new ServingError(
        "resource-exhausted",
        `tasks that are being registered must be at most ${CANDIDATES_MAX}; was ${this.candidates + this.busy.size + 1}`,
        { reason: "tasks-full", retryAfterS: 1 },
      );
    return this.alone(model, name, async () => {
      const { spec } = model;
      const draft = await readRegistration(spec, name, registration, () => pause(this.options.clock, 0));
      const task = await this.files.pass(() =>
        saveTask(spec, draft, 1 + Math.max(newestNumber(spec, name), table.newestOf(name))),
      );
      const superseded = table.candidateOf(name);
      table.candidate(task, this.progressOf(task, spec));
      if (superseded !== null && this.current?.task === superseded) await this.current.ended;
      await this.removeUnserved(spec, table, name);
      this.profileBeside(model, task);
      return table.viewOf(name);
    });
  }

  /**
   * No request may name it from now on; resolves when it is gone.
   *
   * @throws ServingError not-found; permission-denied; unavailable: it is being registered, or cannot be removed.
   */
  async remove(model: ServedModel, name: string): Promise<TaskView> {
    const table = this.changeable(model);
    const view = this.view(model, name);
    return this.alone(model, name, async () => {
      const { spec } = model;
      const kind = table.remove(name);
      if (kind !== null) this.options.withdraw(model, kind);
      if (this.current?.task === view.candidate) await this.current?.ended;
      await table.unheld(name);
      await this.forget(model, table);
      await removeTask(spec, name);
      this.options.log.info({ model: spec.name, task: name }, "a task was deleted");
      return view;
    });
  }

  private progressOf({ images }: TaskSpec, { elastic }: ModelSpec): ProfilingProgress {
    return new ProfilingProgress(this.options.clock, images * elastic!.gammas.length);
  }

  private tableOf({ spec, tasks }: ServedModel): TaskTable {
    if (tasks !== null) return tasks;
    throw new ServingError("not-found", `model '${spec.name}' has no tasks: its rubato.yaml has no elastic`, {
      reason: "not-elastic",
    });
  }

  private changeable(model: ServedModel): TaskTable {
    const table = this.tableOf(model);
    const { name } = model.spec;
    if (!table.elastic.registers)
      throw new ServingError(
        "permission-denied",
        `tasks of model '${name}' are not changed by request: elastic.registration of its rubato.yaml must be true; was false`,
        { reason: "registration" },
      );
    if (model.isLeaving)
      throw new ServingError("unavailable", `model '${name}' is being unloaded`, {
        reason: "unloading",
        retryAfterS: 1,
      });
    return table;
  }

  /** Names that are being looked at and that the table does not know yet. */
  private arriving({ spec }: ServedModel, table: TaskTable): number {
    const ofModel = `${spec.name}\n`;
    return [...this.busy].filter((key) => key.startsWith(ofModel) && !table.has(key.slice(ofModel.length))).length;
  }

  /** One change of a task at a time. */
  private async alone<T>(model: ServedModel, name: string, change: () => Promise<T>): Promise<T> {
    const key = `${model.spec.name}\n${name}`;
    if (this.busy.has(key))
      throw new ServingError("unavailable", `task '${name}' of model '${model.spec.name}' is being changed`, {
        reason: "task-busy",
        retryAfterS: 1,
      });
    this.busy.add(key);
    try {
      return await change();
    } finally {
      this.busy.delete(key);
    }
  }

  private profileBeside(model: ServedModel, task: TaskSpec, attempt = 1): void {
    this.candidates++;
    this.turnstile
      .pass(() => {
        const profiled = this.profileNow(model, task);
        this.current = { task, ended: profiled.catch(() => {}) };
        return profiled;
      })
      .catch((error: unknown) => {
        if (error instanceof ProfilingGivenUp || this.isStopped) return;
        if (ServingError.from(error).code !== "unavailable") return this.rejected(model, task, error);
        return this.profileAgain(model, task, error, attempt);
      })
      .finally(() => this.candidates--);
  }

  /** A worker ended, which says nothing of the task: it stays on disk, whatever becomes of it now. */
  private async profileAgain(model: ServedModel, task: TaskSpec, thrown: unknown, attempt: number): Promise<void> {
    if (attempt < ATTEMPTS) {
      await pause(this.options.clock, RETRY_US);
      if (!this.isStopped) this.profileBeside(model, task, attempt + 1);
      return;
    }
    const { message } = ServingError.from(thrown);
    if (model.tasks!.candidateOf(task.name) === task)
      model.tasks!.reject(
        task.name,
        `it could not be profiled, and will be when the model is loaded again: ${message}`,
      );
  }

  private async profileNow(model: ServedModel, task: TaskSpec): Promise<void> {
    const { spec, tasks } = model;
    const table = tasks!;
    const isWanted = (): boolean => !this.isStopped && !model.isLeaving && table.candidateOf(task.name) === task;
    if (!isWanted()) throw new ProfilingGivenUp("it is not wanted any more");
    const progress = table.viewOf(task.name).progress!;
    const kind = table.add(task);
    try {
      await this.options.pool.bindTasks(spec, table.bindings);
      const { accuracy, latencyUs } = await this.profiler.profile(model, kind, task, progress, isWanted);
      if (!isWanted()) throw new ProfilingGivenUp("it is not wanted any more");
      const { accuracyMin, gammas } = table.elastic;
      if (accuracy[0]! < accuracyMin)
        throw new ServingError(
          "invalid-argument",
          `accuracy at gamma 0 must be at least ${accuracyMin} (elastic.accuracy_min); was ${accuracy[0]!.toFixed(4)} of ${task.images} images`,
        );
      await saveTaskProfile(task, accuracy, latencyUs).catch((error: unknown) =>
        this.options.log.warn({ model: spec.name, task: task.name, err: error }, "a task's profile could not be kept"),
      );
      table.serve(kind, { ...task, accuracy: gammas.map((gamma) => accuracy[gamma]!), latencyUs });
    } catch (error) {
      table.giveUp(kind);
      await this.forget(model, table).catch(() => {});
      throw error;
    }
    this.options.log.info({ model: spec.name, task: task.name, version: task.version }, "a task is served");
    await this.forgetOlder(model, task);
  }

  /** What was served before it, when nothing holds that any more. */
  private async forgetOlder(model: ServedModel, task: TaskSpec): Promise<void> {
    const { spec } = model;
    const table = model.tasks!;
    const { name } = task;
    try {
      await table.unheld(name);
      await this.forget(model, table);
      await this.files.pass(() => pruneVersions(spec, task, isBound(table)));
    } catch (error) {
      this.options.log.warn(
        { model: spec.name, task: name, err: error },
        "old versions of a task could not be removed",
      );
    }
  }

  private async rejected(model: ServedModel, task: TaskSpec, thrown: unknown): Promise<void> {
    const { message } = ServingError.from(thrown);
    const table = model.tasks!;
    this.options.log.warn(
      { model: model.spec.name, task: task.name, version: task.version, err: thrown },
      "a task was rejected",
    );
    // Said when it is gone: whoever registers it again meets nothing of it.
    await this.removeUnserved(model.spec, table, task.name, task.version);
    if (table.candidateOf(task.name) === task) table.reject(task.name, message);
  }

  /** Registrations that were superseded or rejected. One that stays is not served when the model is loaded again: its number is not the newest. */
  private async removeUnserved(spec: ModelSpec, table: TaskTable, task: string, upTo?: number): Promise<void> {
    await this.files
      .pass(() => removeUnserved(spec, task, isBound(table), upTo))
      .catch((error: unknown) =>
        this.options.log.warn({ model: spec.name, task, err: error }, "versions of a task could not be removed"),
      );
  }

  /** Workers hold what the table does. A model that has been released meanwhile holds nothing. */
  private async forget(model: ServedModel, table: TaskTable): Promise<void> {
    await this.options.pool.bindTasks(model.spec, table.bindings).catch((error: unknown) => {
      if (ServingError.from(error).code !== "not-found") throw error;
    });
  }
}

function isBound({ bindings }: TaskTable): (folder: string) => boolean {
  const folders = new Set(bindings.map(({ folder }) => folder));
  return (folder) => folders.has(folder);
}
