import type { ElasticSpec, TaskBinding, TaskSpec } from "../../../config/elastic.js";
import { isTaskName, TASK_NAME_BOUND } from "../../../config/server/task-file.js";
import { invariant } from "../../../core/invariant.js";
import { RecentAccuracy } from "../../../core/latency/recent-accuracy.js";
import { PLAIN, type RequestTraits } from "../../../core/tables/request-table.js";
import type { DurationUs } from "../../../core/time.js";
import { describe, type Parameters, type ParameterValue } from "../../../wire/infer-parameters.js";
import { ServingError } from "../../../wire/serving-error.js";
import type { ProfilingProgress } from "./profiling-progress.js";

/** A version of a task that workers hold. */
interface BoundTask {
  readonly kind: number;
  spec: TaskSpec;
  /** Of requests that leave the utility to it. */
  readonly traits: RequestTraits;
  /** Requests and members of batches that name it. */
  held: number;
  /** No request may name it any more. */
  isLeaving: boolean;
}

/** READY: served. PROFILING: no version is, but one will be. UNAVAILABLE: it is not; the reason says why. */
export type TaskState = "READY" | "PROFILING" | "UNAVAILABLE";

interface Named {
  served: BoundTask | null;
  /** Newest version that is being profiled. */
  candidate: TaskSpec | null;
  /** Of the candidate. */
  progress: ProfilingProgress | null;
  /** Number of the newest version that was registered since the model was loaded, whatever became of it; 0: none was. */
  newest: number;
  /** Why the newest version is not served; "": it is, or will be. */
  reason: string;
}

export interface TaskView {
  readonly model: string;
  readonly name: string;
  readonly state: TaskState;
  readonly reason: string;
  /** Served; null: none is. */
  readonly task: TaskSpec | null;
  /** That is being profiled; null: none is. */
  readonly candidate: TaskSpec | null;
  /** Of the candidate. */
  readonly progress: ProfilingProgress | null;
}

/** What a request that names a task is to the scheduler, and its promise where it names none itself. */
export interface NamedTask {
  readonly traits: RequestTraits;
  readonly sloUs: DurationUs | null;
}

/** Of tasks that are not served. */
const REASONS_MAX = 64;
/** In messages. */
const NAMES_SHOWN = 10;

/**
 * The tasks of one loaded elastic model, by name, and the kinds by which the scheduler and the workers know them. Each version
 * has a kind of its own, so that a batch runs with the weights that its requests were let in for; the kind of one that is served no more is given
 * to another when nothing holds it.
 */
export class TaskTable {
  readonly elastic: ElasticSpec;
  /** By kind, and the index of the gamma. */
  readonly recent: RecentAccuracy;
  private readonly model: string;
  private readonly named = new Map<string, Named>();
  /** By kind; 0 is nobody's. */
  private readonly bound: (BoundTask | undefined)[] = [undefined];
  private readonly waiting: (() => void)[] = [];
  /** Changes with what is served: a policy is told of tasks when a queue is added. */
  epoch = 0;

  constructor(model: string, elastic: ElasticSpec) {
    this.model = model;
    this.elastic = elastic;
    this.recent = new RecentAccuracy(elastic.gammas.length);
  }

  // What is served

  /** A kind for a version that workers are about to be given. */
  add(spec: TaskSpec): number {
    const free = this.bound.indexOf(undefined, 1);
    const kind = free < 0 ? this.bound.length : free;
    const traits = Object.freeze({ ...PLAIN, kind, weight: spec.utility });
    this.recent.forget(kind);
    this.bound[kind] = { kind, spec, traits, held: 0, isLeaving: false };
    return kind;
  }

  /** What workers hold from now on. */
  get bindings(): readonly TaskBinding[] {
    return this.bound.flatMap((task) =>
      task === undefined ? [] : [{ kind: task.kind, folder: task.spec.folder, classes: task.spec.classes.length }],
    );
  }

  /** Requests may name it, in place of the version before. @param profiled what is known of it by now. */
  serve(kind: number, profiled?: TaskSpec): void {
    const task = this.bound[kind]!;
    task.spec = profiled ?? task.spec;
    const entry = this.entry(task.spec.name);
    const before = entry.served;
    this.epoch++;
    Object.assign(entry, { served: task, reason: "" });
    if (entry.candidate?.version === task.spec.version) Object.assign(entry, { candidate: null, progress: null });
    if (before !== null) this.leave(before);
  }

  /** It was never served, and will not be. */
  giveUp(kind: number): void {
    this.leave(this.bound[kind]!);
  }

  /** @returns the kind that it had, of which requests may wait; null: it was not served. @throws ServingError not-found */
  remove(name: string): number | null {
    const entry = this.named.get(name);
    if (entry === undefined) throw this.unknown(name);
    this.named.delete(name);
    if (entry.served === null) return null;
    this.epoch++;
    this.leave(entry.served);
    return entry.served.kind;
  }

  private leave(task: BoundTask): void {
    task.isLeaving = true;
    this.freeIfUnused(task);
  }

  private freeIfUnused(task: BoundTask): void {
    if (!task.isLeaving || task.held > 0) return;
    this.bound[task.kind] = undefined;
    for (const wake of this.waiting.splice(0)) wake();
  }

  /** Resolves when nothing holds a version of this name that is served no more: workers may forget those. */
  async unheld(name: string): Promise<void> {
    while (this.bound.some((task) => task?.isLeaving === true && task.spec.name === name))
      await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /** Of a kind that is held. */
  nameOf(kind: number): string {
    return this.bound[kind]!.spec.name;
  }

  /** A request of this kind was let in, or is a member of a batch. */
  hold(kind: number): void {
    this.bound[kind]!.held++;
  }

  /** It has ended, or its batch has. */
  release(kind: number): void {
    const task = this.bound[kind]!;
    task.held--;
    invariant(task.held >= 0, `task of kind ${kind} is released more often than held`);
    this.freeIfUnused(task);
  }

  // What is said of them

  /** A version that is being profiled. */
  candidate(spec: TaskSpec, progress: ProfilingProgress): void {
    Object.assign(this.entry(spec.name), { candidate: spec, progress, newest: spec.version, reason: "" });
  }

  candidateOf(name: string): TaskSpec | null {
    return this.named.get(name)?.candidate ?? null;
  }

  newestOf(name: string): number {
    return this.named.get(name)?.newest ?? 0;
  }

  /** Its newest version is not served, and why. */
  reject(name: string, reason: string): void {
    Object.assign(this.entry(name), { candidate: null, progress: null, reason });
    const rejected = [...this.named].filter(([, { served, candidate }]) => served === null && candidate === null);
    if (rejected.length > REASONS_MAX) this.named.delete(rejected[0]![0]);
  }

  private entry(name: string): Named {
    let entry = this.named.get(name);
    if (entry === undefined) {
      entry = { served: null, candidate: null, progress: null, newest: 0, reason: "" };
      this.named.set(name, entry);
    }
    return entry;
  }

  /** Served, or about to be. */
  get count(): number {
    return [...this.named.values()].filter(({ served, candidate }) => served !== null || candidate !== null).length;
  }

  has(name: string): boolean {
    return this.named.has(name);
  }

  /** By name. */
  view(): readonly TaskView[] {
    return [...this.named.keys()].sort().map((name) => this.viewOf(name));
  }

  /** @throws ServingError not-found */
  viewOf(name: string): TaskView {
    const entry = this.named.get(name);
    if (entry === undefined) throw this.unknown(name);
    const { served, candidate, progress, reason } = entry;
    const state = served !== null ? "READY" : candidate !== null ? "PROFILING" : "UNAVAILABLE";
    return { model: this.model, name, state, reason, task: served?.spec ?? null, candidate, progress };
  }

  /** How often answers are right, by kind and then by the index of the gamma; empty: of a kind that no task has. */
  get accuracies(): readonly ArrayLike<number>[] {
    return this.bound.map((task) => task?.spec.accuracy ?? []);
  }

  get served(): readonly { readonly kind: number; readonly name: string }[] {
    return [...this.named].flatMap(([name, { served }]) => (served === null ? [] : { kind: served.kind, name }));
  }

  // Requests

  /**
   * @param parameters of a request: `task` and `utility`; `gamma` is the policy's to choose.
   * @throws ServingError invalid-argument: one is not given, or is not what it must be; not-found: there is no such task;
   *   unavailable: it is not profiled yet.
   */
  resolve(parameters: Parameters): NamedTask {
    const { task: name, utility, app, gamma } = parameters;
    if (app !== undefined)
      throw this.invalid(
        `parameter 'app' must be absent for model '${this.model}', which has tasks; was ${describe(app)}`,
      );
    if (gamma !== undefined)
      throw this.invalid(
        `parameter 'gamma' must be absent for model '${this.model}': its policy chooses one for each batch, or elastic.gamma holds; was ${describe(gamma)}`,
      );
    const { served } = this.find(name);
    const { traits, spec } = served;
    if (utility === undefined) return { traits, sloUs: spec.sloUs };
    return { traits: { ...traits, weight: this.utility(utility) }, sloUs: spec.sloUs };
  }

  private find(name: ParameterValue | undefined): { readonly served: BoundTask } {
    if (name === undefined)
      throw this.invalid(`parameter 'task' must name a task of model '${this.model}' (${this.names()}); was nothing`);
    if (!isTaskName(name)) throw this.invalid(`parameter 'task' must be ${TASK_NAME_BOUND}; was ${describe(name)}`);
    const entry = this.named.get(name);
    if (entry === undefined) throw this.unknown(name);
    const { served, candidate, progress, reason } = entry;
    if (served !== null) return { served };
    if (candidate === null)
      throw new ServingError("not-found", `task '${name}' of model '${this.model}' is not served: ${reason}`, {
        reason: "unknown-task",
      });
    throw new ServingError("unavailable", `task '${name}' of model '${this.model}' is being profiled`, {
      reason: "task-profiling",
      retryAfterS: progress?.retryAfterS ?? 1,
    });
  }

  private utility(value: ParameterValue): number {
    const { utilityMax } = this.elastic;
    if (typeof value === "number" && value > 0 && value <= utilityMax) return value;
    throw this.invalid(`parameter 'utility' must be a number in (0, ${utilityMax}]; was ${describe(value)}`);
  }

  private unknown(name: string): ServingError {
    return new ServingError("not-found", `model '${this.model}' has no task '${name}'; it has ${this.names()}`, {
      reason: "unknown-task",
    });
  }

  private names(): string {
    const names = [...this.named].filter(([, { served }]) => served !== null).map(([name]) => name);
    if (names.length === 0) return "none";
    const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
    return `${names.sort().slice(0, NAMES_SHOWN).join(", ")}${more}`;
  }

  private invalid(message: string): ServingError {
    return new ServingError("invalid-argument", message, { reason: "task" });
  }
}
