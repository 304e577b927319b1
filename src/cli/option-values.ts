/** Parsers of option arguments. Each refuses with the bound and the value; commander adds the option's name. */
import { InvalidArgumentError } from "commander";
import { parse } from "yaml";

export interface Bounds {
  readonly min?: number;
  /** The value must be greater than this. */
  readonly above?: number;
  readonly max: number;
}

/** @returns a parser of numbers within the bounds. */
export function numberWithin(bounds: Bounds): (text: string) => number {
  return (text) => {
    const value = text.trim() === "" ? Number.NaN : Number(text);
    const tooLow =
      bounds.above !== undefined ? value <= bounds.above : value < (bounds.min ?? Number.NEGATIVE_INFINITY);
    if (!Number.isFinite(value) || tooLow || value > bounds.max) {
      throw new InvalidArgumentError(`It must be a number ${describe(bounds)}; was ${JSON.stringify(text)}.`);
    }
    return value;
  };
}

/** @returns a parser of numbers within the bounds, with commas between. */
export function numbersWithin(bounds: Bounds): (text: string) => number[] {
  const parseNumber = numberWithin(bounds);
  return (text) => text.split(",").map(parseNumber);
}

/** @returns a parser of whole numbers within the bounds. */
export function integerWithin(bounds: Bounds): (text: string) => number {
  const parseNumber = numberWithin(bounds);
  return (text) => {
    const value = parseNumber(text);
    if (!Number.isInteger(value)) {
      throw new InvalidArgumentError(`It must be a whole number ${describe(bounds)}; was ${JSON.stringify(text)}.`);
    }
    return value;
  };
}

function describe({ min, above, max }: Bounds): string {
  if (above !== undefined) return `above ${above} and at most ${max}`;
  return min === undefined ? `of at most ${max}` : `in [${min}, ${max}]`;
}

/** Collects `KEY=VALUE` pairs; values are read as YAML scalars, so that `true` and `5` are what they look like. */
export function collectPair(text: string, previous: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const at = text.indexOf("=");
  if (at <= 0) throw new InvalidArgumentError(`It must be KEY=VALUE; was ${JSON.stringify(text)}.`);
  let value: unknown;
  try {
    value = parse(text.slice(at + 1));
  } catch {
    value = text.slice(at + 1);
  }
  return { ...previous, [text.slice(0, at)]: value };
}
