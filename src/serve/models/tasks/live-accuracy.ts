/** How sure an elastic model was of its answers, and what its queues are told of that: the live driver of RecentAccuracy. */
import { gammaOf } from "../../../config/elastic.js";
import type { Tensor } from "../../../wire/tensors/tensor.js";
import type { LiveScheduler } from "../../live-scheduler.js";
import type { ServedQueue } from "../served-model.js";

/** A queue is told so often at most. */
const EVERY_US = 1_000_000;

interface Told {
  rows: readonly ArrayLike<number>[] | null;
  dueAt: number;
}

export class LiveAccuracy {
  private readonly scheduler: Pick<LiveScheduler, "accuracies">;
  private readonly queues = new WeakMap<ServedQueue, Told>();

  constructor(scheduler: Pick<LiveScheduler, "accuracies">) {
    this.scheduler = scheduler;
  }

  /** @param kinds of a batch's members, and their answers. Where the model does not say how sure it is nothing happens. */
  answered(
    queue: ServedQueue,
    variant: number,
    kinds: readonly number[],
    answers: readonly (readonly Tensor[])[],
    at: number,
  ): void {
    const { tasks } = queue.model;
    const name = tasks?.elastic.confidence ?? null;
    if (tasks === null || name === null) return;
    const index = tasks.elastic.gammas.indexOf(gammaOf(tasks.elastic, variant));
    for (let member = 0; member < kinds.length; member++) {
      const sure = answers[member]!.find((output) => output.name === name);
      if (sure !== undefined) tasks.recent.observed(kinds[member]!, index, meanOf(sure), at);
    }
    this.tell(queue, at);
  }

  private tell(queue: ServedQueue, at: number): void {
    const tasks = queue.model.tasks!;
    const told = this.queues.get(queue) ?? { rows: null, dueAt: at };
    this.queues.set(queue, told);
    if (at < told.dueAt) return;
    told.dueAt = at + EVERY_US;
    const rows = tasks.recent.estimates(tasks.accuracies, at);
    queue.model.cells.elastic.accuracies = tasks.served.flatMap(({ name, kind }) =>
      tasks.elastic.gammas.map((gamma, index) => ({ task: name, gamma, share: rows[kind]?.[index] ?? Number.NaN })),
    );
    if (rows === told.rows) return;
    told.rows = rows;
    this.scheduler.accuracies(queue.id, rows);
  }
}

/** Of a request's rows, float32. */
function meanOf({ data }: Tensor): number {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let sum = 0;
  for (let at = 0; at < data.byteLength; at += 4) sum += view.getFloat32(at, true);
  return sum / (data.byteLength / 4);
}
