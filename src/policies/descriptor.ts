import type { Policy } from "../core/policy.js";
import { type GivenOptions, type OptionsOf, type OptionTable, withDefaults } from "./options.js";

/** What is wrong with options that are valid each by itself: where, and "must be bound; was value". */
export interface OptionProblem {
  readonly at: readonly (string | number)[];
  readonly text: string;
}

/** What options are held against when models are known. */
export interface ServedModel {
  readonly name: string;
  readonly batchSizeMax: number;
}

/** How its published system serves pipelines. */
export interface InPipelines {
  /** What a pipeline's `budget` is that names none, where this policy serves all of its modules. */
  readonly budget: string;
  /** Options that it has where a group serves one module; told to who has others. */
  readonly options?: Readonly<Record<string, string>>;
}

/**
 * All that the rest of the system knows of a policy. Schema, command line, documentation, contract tests, simulator and
 * server are made from it: a new policy is a folder with one of these, and a line in the registry.
 */
export interface PolicyDescriptor<T extends OptionTable = OptionTable, P extends Policy = Policy> {
  readonly name: string;
  /** A sentence or two for the reference. */
  readonly summary: string;
  readonly options: T;
  /** Null: nothing of its own. */
  readonly inPipelines: InPipelines | null;
  /** It can run on many threads; see SeparablePolicy. */
  readonly isSeparable: boolean;
  /** Why the live server cannot carry out what it decides with these options; null: it can. */
  cannotServe(given: Readonly<Record<string, unknown>>): string | null;
  create(given?: GivenOptions<T>): P;
  /** Pairs of options of which one replaces the other. */
  readonly exclusive: readonly (readonly [string, string])[];
  problems(given: Readonly<Record<string, unknown>>, models: readonly ServedModel[]): readonly OptionProblem[];
}

export interface PolicyDefinition<T extends OptionTable, P extends Policy = Policy> {
  readonly name: string;
  readonly summary: string;
  readonly options: T;
  readonly inPipelines?: InPipelines;
  readonly exclusive?: readonly (readonly [string, string])[];
  /** See PolicyDescriptor; absent: it can be served. */
  readonly cannotServe?: string | ((given: GivenOptions<T>) => string | null);
  /** Default false; true promises that `create` gives a SeparablePolicy. */
  readonly isSeparable?: boolean;
  /** Beyond the bounds of each option; called when those hold. @param models none where they are not known yet. */
  problems?(given: GivenOptions<T>, models: readonly ServedModel[]): readonly OptionProblem[];
  create(options: OptionsOf<T>): P;
}

export function definePolicy<const T extends OptionTable, P extends Policy = Policy>(
  definition: PolicyDefinition<T, P>,
): PolicyDescriptor<T, P> {
  const { name, summary, options, inPipelines = null, exclusive = [], isSeparable = false } = definition;
  const { cannotServe = null } = definition;
  const refusal = typeof cannotServe === "function" ? cannotServe : () => cannotServe;
  return {
    name,
    summary,
    options,
    inPipelines,
    isSeparable,
    cannotServe: (given) => refusal(given as GivenOptions<T>),
    exclusive,
    create: (given = {}) => definition.create(withDefaults(options, given)),
    problems: (given, models) => definition.problems?.(given as GivenOptions<T>, models) ?? [],
  };
}
