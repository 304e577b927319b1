/**
 * Options of policies as data: type, bounds, default and meaning, once. The schema of configuration files, the published
 * JSON Schemas, the documentation and the types of the factories are made from them.
 */

interface Described {
  /** One or two sentences for the reference. */
  readonly meaning: string;
  /** The arbiter's: it cannot differ between queues that share one. */
  readonly isShared?: true;
}

export interface BooleanOption extends Described {
  readonly type: "boolean";
  readonly default: boolean;
}

export interface NumberOption extends Described {
  readonly type: "number" | "integer";
  readonly min: number;
  readonly max: number;
  /** Absent: it is left out unless given. */
  readonly default?: number;
}

/** One of some words. */
export interface ChoiceOption extends Described {
  readonly type: "choice";
  readonly of: readonly [string, ...string[]];
  readonly default: string;
}

/** One of some words, or a whole number. */
export interface WordOrIntegerOption extends Described {
  readonly type: "word-or-integer";
  readonly words: readonly [string, ...string[]];
  readonly min: number;
  readonly max: number;
  readonly default: string | number;
}

/** A list of whole numbers; left out unless given. */
export interface IntegersOption extends Described {
  readonly type: "integers";
  readonly min: number;
  readonly max: number;
  readonly lengthMax: number;
}

export type Option = BooleanOption | NumberOption | ChoiceOption | WordOrIntegerOption | IntegersOption;
export type OptionTable = Readonly<Record<string, Option>>;

type ValueOf<O extends Option> = O extends BooleanOption
  ? boolean
  : O extends NumberOption
    ? number
    : O extends ChoiceOption
      ? O["of"][number]
      : O extends WordOrIntegerOption
        ? O["words"][number] | number
        : readonly number[];

/** Options with their defaults filled in. */
export type OptionsOf<T extends OptionTable> = {
  readonly [K in keyof T]: T[K] extends { readonly default: unknown } ? ValueOf<T[K]> : ValueOf<T[K]> | undefined;
};
/** Options as somebody gives them. */
export type GivenOptions<T extends OptionTable> = { readonly [K in keyof T]?: ValueOf<T[K]> | undefined };

export function withDefaults<T extends OptionTable>(table: T, given: GivenOptions<T>): OptionsOf<T> {
  const options: Record<string, unknown> = { ...given };
  for (const [name, option] of Object.entries(table))
    if (options[name] === undefined && "default" in option) options[name] = option.default;
  return options as OptionsOf<T>;
}
