import type { TaskSpec } from "../../config/elastic.js";
import { msFromUs } from "../../core/time.js";
import type { TaskGamma, TaskRegistration, TaskRegistry, TaskStatus } from "../gateway.js";
import type { ServedModel } from "../models/served-model.js";
import type { TaskView } from "../models/tasks/task-table.js";
import type { TaskKeeper } from "./task-keeper.js";

/** What doors ask of tasks, by the names of models. */
export class ServedTasks implements TaskRegistry {
  private readonly keeper: TaskKeeper;
  private readonly serving: (model: string) => ServedModel;

  /** @param serving the newest version. @throws ServingError where there is none. */
  constructor(keeper: TaskKeeper, serving: (model: string) => ServedModel) {
    this.keeper = keeper;
    this.serving = serving;
  }

  list(model: string): readonly TaskStatus[] {
    const served = this.serving(model);
    return this.keeper.list(served).map((view) => statusOf(served, view));
  }

  get(model: string, task: string): TaskStatus {
    const served = this.serving(model);
    return statusOf(served, this.keeper.view(served, task));
  }

  check(model: string): void {
    this.keeper.check(this.serving(model));
  }

  async register(model: string, task: string, registration: TaskRegistration): Promise<TaskStatus> {
    const served = this.serving(model);
    return statusOf(served, await this.keeper.register(served, task, registration));
  }

  async remove(model: string, task: string): Promise<TaskStatus> {
    const served = this.serving(model);
    return statusOf(served, await this.keeper.remove(served, task));
  }
}

function statusOf(
  { spec }: ServedModel,
  { model, name, state, reason, task, candidate, progress }: TaskView,
): TaskStatus {
  const shown = task ?? candidate;
  return {
    model,
    name,
    state,
    reason,
    version: task?.version ?? 0,
    profilingVersion: candidate?.version ?? 0,
    profiling: progress === null ? null : { done: progress.done, of: progress.of, leftS: progress.leftS },
    classes: shown?.classes ?? [],
    utility: shown?.utility ?? 0,
    sloMs: shown === null || shown.sloUs === null ? 0 : msFromUs(shown.sloUs),
    gammas: shown === null ? [] : spec.elastic!.gammas.flatMap((gamma, at) => gammaStatus(shown, gamma, at)),
  };
}

/** Nothing before it is profiled. */
function gammaStatus({ accuracy, latencyUs }: TaskSpec, gamma: number, at: number): TaskGamma | [] {
  if (accuracy === null) return [];
  const latencies = Object.entries(latencyUs?.[String(gamma)] ?? {})
    .map(([size, us]) => ({ batchSize: Number(size), us }))
    .sort((a, b) => a.batchSize - b.batchSize);
  return { gamma, accuracy: accuracy[at]!, latencies };
}
