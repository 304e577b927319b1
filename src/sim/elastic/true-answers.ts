/**
 * What requests of an elastic model truly are: their task, and whether they are answered right by each way of running it.
 *
 * One uniform number a request is held against the accuracy of its task, so that a request is right or wrong at a gamma under
 * every policy alike, and one that is right at some accuracy is right at every higher one. Nothing is kept.
 *
 * How sure the model is of an answer is another draw u: u^((1-a)/a), whose mean is the accuracy a and which is spread as widely as a model's is (by 0.09 at
 * 0.9, by 0.23 at 0.68). Only its mean tells of the answer: of one request it says nothing beyond its task.
 */
import type { ExpandedModel, ExpandedScenario } from "../../config/scenario/expand-scenario.js";
import { cumulated } from "../../config/scenario/pipelines/expand-pipelines.js";
import type { ExpandedElastic } from "../../config/scenario/tasks/expand-tasks.js";
import { variantOf } from "../../core/latency/elastic.js";
import { PLAIN, type RequestTraits } from "../../core/tables/request-table.js";
import { Draws, pick } from "../draws.js";

export class TrueAnswers {
  /** By model; null: it is not elastic. */
  private readonly models: readonly (ModelAnswers | null)[];
  private readonly traits = { ...PLAIN };

  /** @returns null where no model is elastic. */
  static of(scenario: ExpandedScenario, seed: number): TrueAnswers | null {
    return scenario.models.some(({ elastic }) => elastic !== undefined) ? new TrueAnswers(scenario, seed) : null;
  }

  private constructor({ models }: ExpandedScenario, seed: number) {
    this.models = models.map((model) => (model.elastic === undefined ? null : new ModelAnswers(model, seed)));
  }

  has(model: number): boolean {
    return this.models[model] !== null;
  }

  /** @param task of the request where the load names it; -1: drawn. @returns undefined: a plain request. Read at once. */
  traitsOf(model: number, number: number, task: number): RequestTraits | undefined {
    const answers = this.models[model]!;
    if (answers === null) return undefined;
    this.traits.kind = task >= 0 ? task : answers.taskOf(number);
    this.traits.weight = answers.elastic.tasks[this.traits.kind]!.utility;
    return this.traits;
  }

  sloUs(model: number, task: number): number {
    return this.models[model]!.elastic.tasks[task]!.sloUs;
  }

  /** @param variant of BatchTable. */
  isRight(model: number, task: number, number: number, variant: number, arrivalAt: number): boolean {
    return this.models[model]!.isRight(task, number, variant, arrivalAt);
  }

  /** How sure the model is of that answer, in [0, 1]. */
  confidence(model: number, task: number, number: number, variant: number, arrivalAt: number): number {
    return this.models[model]!.confidence(task, number, variant, arrivalAt);
  }

  /** By task and variant, of requests that arrive at this moment. */
  accuracies(model: number, at: number): readonly ArrayLike<number>[] {
    return this.models[model]!.accuracies(at);
  }

  /**
   * Time of a batch on an accelerator of scale 1, with what loading its model takes there where another of the family is.
   * @param accelerator among all; it holds this batch's model from now on.
   */
  batchUs(model: number, size: number, variant: number, accelerator: number): number {
    return this.models[model]!.batchUs(size, variant, accelerator);
  }
}

class ModelAnswers {
  readonly elastic: ExpandedElastic;
  private readonly shares: Float64Array;
  private readonly which: Draws;
  private readonly answers: Draws;
  private readonly sureness: Draws;
  /** By accelerator: the family member that it ran last, or is to run by what was sent to it; absent: the model itself. */
  private readonly resident = new Map<number, number>();

  constructor({ elastic, name }: ExpandedModel, seed: number) {
    this.elastic = elastic!;
    this.shares = cumulated(elastic!.tasks.map(({ share }) => share));
    this.which = new Draws(seed, `tasks/${name}`);
    this.answers = new Draws(seed, `answers/${name}`);
    this.sureness = new Draws(seed, `confidence/${name}`);
  }

  taskOf(number: number): number {
    return pick(this.shares, this.which.uniform(number));
  }

  isRight(task: number, number: number, variant: number, arrivalAt: number): boolean {
    return this.answers.uniform(number) < this.accuracyAt(task, arrivalAt)[variantOf(this.elastic, variant)]!;
  }

  confidence(task: number, number: number, variant: number, arrivalAt: number): number {
    const accuracy = this.accuracyAt(task, arrivalAt)[variantOf(this.elastic, variant)]!;
    return this.sureness.uniform(number) ** ((1 - accuracy) / accuracy);
  }

  accuracies(at: number): readonly ArrayLike<number>[] {
    return this.elastic.tasks.map((_, task) => this.accuracyAt(task, at));
  }

  private accuracyAt(task: number, at: number): ArrayLike<number> {
    const { accuracy, tasks } = this.elastic;
    return tasks[task]!.changes?.findLast(({ atUs }) => atUs <= at)?.accuracy ?? accuracy[task]!;
  }

  batchUs(size: number, variant: number, accelerator: number): number {
    const { execUs, family, loadUs } = this.elastic.variants[variantOf(this.elastic, variant)]!;
    const isLoaded = (this.resident.get(accelerator) ?? 0) === family;
    if (!isLoaded) this.resident.set(accelerator, family);
    return execUs[size]! + (isLoaded ? 0 : loadUs);
  }
}
