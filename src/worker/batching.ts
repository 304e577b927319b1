/**
 * Many requests as one run: members are put together along the batch axis of each input, padded along a variable
 * axis where the model's owner chose that, and the outputs are taken apart again. Pure functions over tensors; the
 * runtime is somebody else's.
 */
import { bucketFor } from "../config/buckets.js";
import type { ModelSpec, TensorSpec } from "../config/model.js";
import { ServingError } from "../wire/serving-error.js";
import { readBytesElements } from "../wire/tensors/bytes-tensor.js";
import { byteCountProblem, DATATYPES, elementCount, type Tensor } from "../wire/tensors/tensor.js";
import { packBytes } from "../wire/tensors/tensor-bytes.js";
import { forEachRun } from "./blocks.js";
import { fillBytes } from "./fill.js";
import { type Layout, leftOut, makeMask } from "./onnx/left-out.js";

export interface AssembledBatch {
  readonly inputs: readonly Tensor[];
  /** Rows of the run, padding rows included; 0 for a model without a batch axis. */
  readonly rows: number;
  /** Rows of each member. */
  readonly memberRows: readonly number[];
  /** Per input with a variable axis: each member's own extent along it. */
  readonly extents: ReadonlyMap<string, readonly number[]>;
}

/**
 * @param members One list of tensors per request, all of one share group.
 * @throws ServingError invalid-argument where members do not fit together: the caller's grouping is at fault or the
 *   request is; the text names input, expected and found.
 */
export function assemble(spec: ModelSpec, members: readonly (readonly Tensor[])[]): AssembledBatch {
  const memberRows = members.map((tensors) => rowsOf(spec, tensors));
  const rowsUsed = memberRows.reduce((a, b) => a + b, 0);
  const rows = rowsUsed === 0 ? 0 : (spec.batchSizeFixed ?? rowsUsed);
  if (rowsUsed > rows) refuse(`batch of model '${spec.name}' must have at most ${rows} rows; has ${rowsUsed}`);
  if (rowsUsed === 0 && members.length !== 1)
    refuse(`model '${spec.name}' has no batch axis and takes 1 request at a time; got ${members.length}`);
  const extents = new Map<string, number[]>();
  for (const input of spec.inputs) {
    if (input.variable === null) continue;
    const axis = input.variable.axis;
    const own = members.map((tensors) => find(tensors, input.name)?.shape[axis]);
    if (own.every((extent) => extent !== undefined)) extents.set(input.name, own as number[]);
  }
  const inputs: Tensor[] = [];
  for (const input of spec.inputs) {
    const present = members.map((tensors) => find(tensors, input.name));
    const tensor = joinInput(spec, input, present, { memberRows, rows, extents });
    if (tensor !== null) inputs.push(tensor);
  }
  return { inputs, rows, memberRows, extents };
}

/** Rows of one member: the extent of its batch axis, the same in every input that has one. */
export function rowsOf(spec: ModelSpec, tensors: readonly Tensor[]): number {
  let rows = 0;
  for (const input of spec.inputs) {
    const tensor = input.batchAxis === null ? undefined : find(tensors, input.name);
    if (tensor === undefined) continue;
    const extent = tensor.shape[input.batchAxis!];
    if (extent === undefined || extent < 1)
      refuse(`input '${input.name}' must have at least 1 row on axis ${input.batchAxis}; shape is [${tensor.shape}]`);
    if (rows !== 0 && rows !== extent)
      refuse(`inputs of one request must agree in rows; '${input.name}' has ${extent}, another has ${rows}`);
    rows = extent;
  }
  // A row of inputs that are all left out.
  if (rows === 0 && spec.batchSizeMax > 0 && spec.inputs.some(isLeftOutByRow)) return 1;
  return rows;
}

const isLeftOutByRow = ({ batchAxis, optional, isBacked }: TensorSpec): boolean =>
  batchAxis !== null && optional && isBacked !== true;

function joinInput(
  spec: ModelSpec,
  input: TensorSpec,
  present: readonly (Tensor | undefined)[],
  layout: Layout,
): Tensor | null {
  if (present.every((tensor) => tensor === undefined)) {
    if (input.mask === true) return joinRows(spec, input, makeMasks(spec, input, layout), layout);
    if (input.isBacked === true) return null;
    if (input.optional) return leftOut(input, layout);
  }
  const tensors = present.map((tensor, i) => tensor ?? (input.mask === true ? makeMask(spec, input, layout, i) : null));
  if (tensors.some((tensor) => tensor === null))
    refuse(`input '${input.name}' must be given by all members of a batch or by none`);
  const given = tensors as Tensor[];
  for (const tensor of given) {
    const problem = byteCountProblem(tensor);
    if (problem !== null) refuse(problem);
  }
  const wrong = given.find((tensor) => tensor.datatype !== input.datatype);
  if (wrong !== undefined) refuse(`input '${input.name}' must have datatype ${input.datatype}; has ${wrong.datatype}`);
  return input.batchAxis === null ? shared(input, given) : joinRows(spec, input, given, layout);
}

/** An input without a batch axis is passed once, so its value must be the same for all members. */
function shared(input: TensorSpec, tensors: readonly Tensor[]): Tensor {
  const first = tensors[0]!;
  for (const tensor of tensors) {
    const same = tensor.shape.join() === first.shape.join() && Buffer.compare(tensor.data, first.data) === 0;
    if (!same) refuse(`input '${input.name}' has no batch axis: its value must be equal in all members of a batch`);
  }
  return first;
}

function joinRows(spec: ModelSpec, input: TensorSpec, tensors: readonly Tensor[], layout: Layout): Tensor {
  const batchAxis = input.batchAxis!;
  const shape = [...tensors[0]!.shape];
  shape[batchAxis] = layout.rows;
  const padAxis = input.variable?.mode === "pad" ? input.variable.axis : -1;
  if (padAxis >= 0) shape[padAxis] = bucketOf(input, Math.max(...tensors.map((tensor) => tensor.shape[padAxis]!)));
  for (const tensor of tensors) {
    const fits =
      tensor.shape.length === shape.length &&
      tensor.shape.every((extent, axis) => axis === batchAxis || axis === padAxis || extent === shape[axis]);
    if (!fits)
      refuse(`input '${input.name}' of model '${spec.name}': shape [${tensor.shape}] does not go with [${shape}]`);
  }
  const whole = tensors.length === 1 && tensors[0]!.shape.every((extent, axis) => extent === shape[axis]);
  if (whole) return tensors[0]!;
  const data = input.datatype === "BYTES" ? joinBytes(input, tensors, shape) : joinFixed(input, tensors, shape);
  return { name: input.name, datatype: tensors[0]!.datatype, shape, data };
}

/** The smallest bucket that holds `extent`. @throws ServingError invalid-argument naming the last bucket. */
export function bucketOf(input: TensorSpec, extent: number): number {
  const bucket = input.variable === null ? null : bucketFor(input.variable, extent);
  if (bucket === null)
    refuse(
      `input '${input.name}' axis ${input.variable?.axis}: extent must be at most ${input.variable?.buckets.at(-1) ?? 0}; was ${extent}`,
    );
  return bucket;
}

function joinFixed(input: TensorSpec, tensors: readonly Tensor[], shape: readonly number[]): Uint8Array {
  const size = DATATYPES[tensors[0]!.datatype];
  const bytes = elementCount(shape) * size;
  // Not Node's shared pool: the runtime wants aligned memory that it may keep.
  const data = new Uint8Array(bytes);
  const isPadded = input.variable?.mode === "pad" && input.variable.padValue !== 0;
  if (isPadded) fillBytes(data, tensors[0]!.datatype, input.variable!.padValue);
  const next = eachMember(input, tensors, shape, (tensor, from, to, count) =>
    data.set(tensor.data.subarray(from * size, (from + count) * size), to * size),
  );
  repeatLastRow(shape, input.batchAxis!, next, (from, to, count) =>
    data.copyWithin(to * size, from * size, (from + count) * size),
  );
  return data;
}

function joinBytes(input: TensorSpec, tensors: readonly Tensor[], shape: readonly number[]): Uint8Array {
  const elements = new Array<Uint8Array>(elementCount(shape)).fill(new Uint8Array());
  const read = new Map(tensors.map((t) => [t, readBytesElements(t.name, t.data, elementCount(t.shape))]));
  const copy = (source: readonly Uint8Array[], from: number, to: number, count: number): void => {
    for (let i = 0; i < count; i++) elements[to + i] = source[from + i]!;
  };
  const next = eachMember(input, tensors, shape, (t, from, to, count) => copy(read.get(t)!, from, to, count));
  repeatLastRow(shape, input.batchAxis!, next, (from, to, count) => copy(elements, from, to, count));
  return packBytes(elements);
}

/** Copies every member to its place; returns the first row after the last member. */
function eachMember(
  input: TensorSpec,
  tensors: readonly Tensor[],
  shape: readonly number[],
  copy: (tensor: Tensor, from: number, to: number, count: number) => void,
): number {
  const axis = input.batchAxis!;
  const zeros = shape.map(() => 0);
  let row = 0;
  for (const tensor of tensors) {
    const targetAt = zeros.with(axis, row);
    forEachRun(
      { sourceShape: tensor.shape, sourceAt: zeros, targetShape: shape, targetAt, extents: tensor.shape },
      (from, to, count) => copy(tensor, from, to, count),
    );
    row += tensor.shape[axis]!;
  }
  return row;
}

/** A model of fixed batch size runs real values in its spare rows, not zeros: some graphs divide by what they are fed. */
function repeatLastRow(
  shape: readonly number[],
  axis: number,
  firstSpare: number,
  copy: (from: number, to: number, count: number) => void,
): void {
  const inner = elementCount(shape.slice(axis + 1));
  const outer = elementCount(shape.slice(0, axis));
  const rows = shape[axis]!;
  for (let o = 0; o < outer; o++)
    for (let row = firstSpare; row < rows; row++)
      copy((o * rows + firstSpare - 1) * inner, (o * rows + row) * inner, inner);
}

const makeMasks = (spec: ModelSpec, input: TensorSpec, layout: Layout): Tensor[] =>
  layout.memberRows.map((_, i) => makeMask(spec, input, layout, i));

/**
 * Outputs of each member: its rows, cut back to its own extent where padding lengthened the output.
 *
 * @throws ServingError internal (a "model-error" to the client) when an output is not as the specification says.
 */
export function split(spec: ModelSpec, batch: AssembledBatch, outputs: readonly Tensor[]): Tensor[][] {
  const members: Tensor[][] = batch.memberRows.map(() => []);
  for (const result of outputs) {
    const declared = spec.outputs.find((candidate) => candidate.name === result.name);
    const axis = declared?.batchAxis ?? null;
    const output = axis === null ? result : unsqueezed(declared!, result, axis, batch.rows);
    if (axis === null || batch.rows === 0) {
      members.forEach((tensors, i) => {
        tensors.push(cutBack(spec, batch, output, i, null, 0));
      });
      continue;
    }
    if (output.shape[axis] !== batch.rows)
      throw new ServingError(
        "internal",
        `output '${output.name}' of model '${spec.name}' must have ${batch.rows} rows on axis ${axis}; shape is [${output.shape}]`,
        { reason: "model-error" },
      );
    let row = 0;
    batch.memberRows.forEach((rows, i) => {
      members[i]!.push(cutBack(spec, batch, output, i, axis, row));
      row += rows;
    });
  }
  return members;
}

/** Some graphs squeeze away every axis of extent 1, that of a batch of one too: it is put back. */
function unsqueezed({ shape }: TensorSpec, output: Tensor, axis: number, rows: number): Tensor {
  const rest = shape.toSpliced(axis, 1);
  const isSqueezed =
    rows === 1 &&
    output.shape.length === rest.length &&
    rest.every((extent, at) => extent < 0 || extent === output.shape[at]);
  return isSqueezed ? { ...output, shape: output.shape.toSpliced(axis, 0, 1) } : output;
}

function cutBack(
  spec: ModelSpec,
  batch: AssembledBatch,
  output: Tensor,
  member: number,
  axis: number | null,
  row: number,
): Tensor {
  const shape = [...output.shape];
  const at = shape.map(() => 0);
  if (axis !== null) {
    shape[axis] = batch.memberRows[member]!;
    at[axis] = row;
  }
  for (const input of spec.inputs) {
    if (input.variable?.mode !== "pad") continue;
    const extent = batch.extents.get(input.name)?.[member];
    if (extent === undefined) continue;
    for (const rule of input.variable.unpad)
      if (rule.output === output.name) shape[rule.axis] = Math.min(shape[rule.axis]!, Math.ceil(extent * rule.scale));
  }
  if (shape.every((extent, i) => extent === output.shape[i])) return output;
  return { name: output.name, datatype: output.datatype, shape, data: cut(output, at, shape) };
}

function cut(source: Tensor, at: readonly number[], shape: readonly number[]): Uint8Array {
  const zeros = shape.map(() => 0);
  const box = { sourceShape: source.shape, sourceAt: at, targetShape: shape, targetAt: zeros, extents: shape };
  if (source.datatype === "BYTES") {
    const elements = readBytesElements(source.name, source.data, elementCount(source.shape));
    const taken: Uint8Array[] = [];
    forEachRun(box, (from, _to, count) => taken.push(...elements.slice(from, from + count)));
    return packBytes(taken);
  }
  const size = DATATYPES[source.datatype];
  const runs: [number, number, number][] = [];
  forEachRun(box, (from, to, count) => runs.push([from, to, count]));
  // One run: the member's part is contiguous and needs no copy.
  if (runs.length === 1) return source.data.subarray(runs[0]![0] * size, (runs[0]![0] + runs[0]![2]) * size);
  const data = new Uint8Array(elementCount(shape) * size);
  for (const [from, to, count] of runs) data.set(source.data.subarray(from * size, (from + count) * size), to * size);
  return data;
}

function find(tensors: readonly Tensor[], name: string): Tensor | undefined {
  return tensors.find((tensor) => tensor.name === name);
}

function refuse(message: string): never {
  throw new ServingError("invalid-argument", message);
}
