/** What a module takes and gives, of a model or of a step alike, and whether one fits where it goes. */
import { nearest } from "../../config-error.js";
import type { ModelSpec, TensorSpec } from "../../model.js";
import type { PipelineFile } from "./pipeline-file.js";

/** A tensor, or a list of any number of them. */
export interface EndSpec extends TensorSpec {
  readonly list?: boolean;
}

export interface ModuleTensors {
  /** For messages: `model 'x'`, `step './x.mjs'`. */
  readonly whose: string;
  readonly inputs: readonly EndSpec[];
  readonly outputs: readonly EndSpec[];
}

export const tensorsOfModel = ({ name, inputs, outputs }: ModelSpec): ModuleTensors => ({
  whose: `model '${name}'`,
  inputs,
  outputs,
});

export function tensorsOfStep({ step, takes, gives }: PipelineFile["modules"][number]): ModuleTensors {
  const specs = (written: Readonly<Record<string, Written>> | undefined): EndSpec[] =>
    Object.entries(written ?? {}).map(([name, { datatype, shape, list, optional = false }]) => ({
      name,
      datatype,
      shape,
      batchAxis: null,
      variable: null,
      optional,
      ...(list ? { list } : {}),
    }));
  return { whose: `step '${step}'`, inputs: specs(takes), outputs: specs(gives) };
}

interface Written {
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly list: boolean;
  readonly optional?: boolean;
}

const shapeOf = ({ clientShape, shape }: TensorSpec): readonly number[] => clientShape ?? shape;

export const textOf = (spec: EndSpec): string =>
  `${spec.list === true ? "a list of " : ""}${spec.datatype} [${shapeOf(spec)}]`;

/** An extent that is open at one end is looked at when a request is there. */
export function fits(a: EndSpec, b: EndSpec): boolean {
  const [from, to] = [shapeOf(a), shapeOf(b)];
  return (
    a.datatype === b.datatype &&
    (a.list === true) === (b.list === true) &&
    from.length === to.length &&
    from.every((extent, axis) => extent === -1 || to[axis] === -1 || extent === to[axis])
  );
}

/** The same tensor of so many rows; -1: any. */
export function withRows(spec: EndSpec, rows: number): EndSpec {
  const { batchAxis } = spec;
  if (batchAxis === null || rows < 0) return spec;
  const shape = shapeOf(spec).map((extent, axis) => (axis === batchAxis && extent === -1 ? rows : extent));
  return { ...spec, shape, ...(spec.clientShape === undefined ? {} : { clientShape: shape }) };
}

/** The same tensor of a model that does not batch. */
export const plain = (name: string, spec: EndSpec, optional: boolean): EndSpec => ({
  name,
  datatype: spec.datatype,
  shape: shapeOf(spec),
  batchAxis: null,
  variable: null,
  optional,
  ...(spec.list === true ? { list: true } : {}),
});

/** What each part has of what its request has; null: it has no rows. */
export function rowOf(spec: EndSpec): EndSpec | null {
  const { list, ...whole } = plain(spec.name, spec, spec.optional);
  if (list === true) return whole;
  return whole.shape.length === 0 ? null : { ...whole, shape: [1, ...whole.shape.slice(1)] };
}

/** What all parts have together. @param isList as a list, not put together; null: there is no axis to put them together on. */
export function togetherOf(spec: EndSpec, isList: boolean): EndSpec | null {
  const one = plain(spec.name, spec, spec.optional);
  if (one.list === true) return null;
  if (isList) return { ...one, list: true };
  return one.shape.length === 0 ? null : { ...one, shape: [-1, ...one.shape.slice(1)] };
}

/** What was meant, perhaps. */
export function hint(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  return near === null ? "" : `; did you mean ${near}?`;
}
