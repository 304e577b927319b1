/** Inputs and outputs of a model from three sources: the model file, `config.pbtxt`, `rubato.yaml`. Later ones refine. */
import type { TensorSpec, VariableAxis } from "../../config/model.js";
import type { ModelFile, ModelFileInput, ModelFileOutput } from "../../config/server/model-file.js";
import { fillProblem } from "../../wire/tensors/element-range.js";
import type { Datatype } from "../../wire/tensors/tensor.js";
import type { OnnxValue } from "./onnx-header.js";
import type { TritonConfig, TritonTensor } from "./triton-config/triton-config.js";

export interface TensorSources {
  readonly file: ModelFile;
  /** Shown in messages. */
  readonly fileName: string;
  readonly triton: TritonConfig | null;
  readonly tritonName: string;
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

export interface MergedTensors {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly batches: boolean;
  /** Why not; null where it batches. */
  readonly unbatched: string | null;
}

/** A shared first dimension of such a name is a length, not a batch: concatenating two of them would mix two requests. */
const NOT_A_BATCH = /seq|len|time|tok|frame|pos/i;

type Problems = string[];

export function mergeTensors(sources: TensorSources, problems: Problems): MergedTensors {
  const { file, triton } = sources;
  checkNames(sources, problems);
  if (sources.inputs.length === 0)
    problems.push(
      `${sources.fileName}: inputs: must be at least one, since a request holds some; the model file has none: make what it computes from an input of its graph`,
    );
  const symbol = batchSymbol(sources);
  const isDeclared =
    file.batch_fixed !== undefined ||
    [...Object.values(file.inputs), ...Object.values(file.outputs)].some(
      (entry) => typeof entry.batch_axis === "number",
    );
  const isTriton = (triton?.maxBatchSize ?? 0) > 0;
  // Where a config.pbtxt is present, its silence on max_batch_size means no batching, unless rubato.yaml wants it.
  const isInferred = symbol !== null && (triton === null || file.batch_max !== undefined);
  const batches = file.batch_max !== 0 && (isDeclared || isTriton || isInferred);
  const axisOf = (value: OnnxValue, entry: ModelFileInput | ModelFileOutput | undefined): number | null => {
    if (!batches || entry?.batch_axis === "none") return null;
    if (value.isBacked === true) return typeof entry?.batch_axis === "number" ? entry.batch_axis : null;
    if (entry?.batch_axis !== undefined) return entry.batch_axis;
    const dims = value.dims;
    if (dims === null) return 0;
    if (!isDeclared && !isTriton) {
      const at = dims.indexOf(symbol!);
      return at < 0 ? null : at;
    }
    const first = dims[0];
    return typeof first === "string" || (first !== undefined && first === file.batch_fixed) ? 0 : null;
  };
  const inputs = sources.inputs.map((value) => {
    const entry = file.inputs[value.name];
    const batchAxis = axisOf(value, entry);
    const shape = shapeOf(sources, value, entry, batchAxis, triton?.inputs, `inputs.${value.name}`, problems);
    return inputSpec(sources, value, entry, batchAxis, shape, problems);
  });
  // Where config.pbtxt lists outputs, they are all that is served.
  const listed = triton?.outputs ?? [];
  const served = sources.outputs.filter(({ name }) => listed.length === 0 || listed.some((each) => each.name === name));
  const outputs = served.map((value): TensorSpec => {
    const entry = file.outputs[value.name];
    const batchAxis = axisOf(value, entry);
    const shape = shapeOf(sources, value, entry, batchAxis, triton?.outputs, `outputs.${value.name}`, problems);
    const unpadAxis = entry?.unpad?.axis;
    if (unpadAxis !== undefined && shape.length > 0 && unpadAxis >= shape.length)
      problems.push(
        `${sources.fileName}: outputs.${value.name}.unpad.axis: must be below the rank ${shape.length}; was ${unpadAxis}`,
      );
    const clientShape = clientShapeOf(sources, shape, triton?.outputs, value.name);
    return {
      name: value.name,
      datatype: value.datatype,
      shape,
      ...(clientShape === null ? {} : { clientShape }),
      batchAxis,
      variable: null,
      optional: false,
    };
  });
  if (batches && inputs.every((input) => input.batchAxis === null))
    problems.push(`${sources.fileName}: inputs: at least one must have a batch_axis for the model to batch; none has`);
  if (!batches && (file.batch_max ?? 0) > 0)
    problems.push(
      `${sources.fileName}: batch_max: must be 0, since no dimension is shared by all inputs and outputs and no batch_axis is given; was ${file.batch_max}`,
    );
  return { inputs, outputs, batches, unbatched: batches ? null : unbatchedBecause(sources, symbol) };
}

function unbatchedBecause({ file, triton, inputs }: TensorSources, symbol: string | null): string {
  if (file.batch_max === 0) return "batch_max is 0";
  if (symbol !== null) return "config.pbtxt has no max_batch_size";
  const first = inputs.find((input) => (input.dims?.length ?? 0) > 0);
  const dim = first?.dims?.[0];
  if (first === undefined || dim === undefined) return "no input has an axis that is known";
  if (typeof dim === "number") return `the first axis of input '${first.name}' is fixed to ${dim}`;
  if (dim === "") return `the first axis of input '${first.name}' has no name to share`;
  if (NOT_A_BATCH.test(dim)) return `'${dim}', the first axis of input '${first.name}', names a length`;
  return `'${dim}', the first axis of input '${first.name}', is not once in every input and output${triton === null ? "" : ", and config.pbtxt has no max_batch_size"}`;
}

/** The symbol of the first input's first dimension, if every input and output of rank >= 1 has it, once. */
function batchSymbol(sources: TensorSources): string | null {
  const symbol = sources.inputs.find((input) => (input.dims?.length ?? 0) > 0)?.dims?.[0];
  if (typeof symbol !== "string" || symbol === "" || NOT_A_BATCH.test(symbol)) return null;
  const hasIt = (value: OnnxValue): boolean =>
    value.dims !== null && (value.dims.length === 0 || value.dims.filter((dim) => dim === symbol).length === 1);
  const requested = sources.inputs.filter((input) => input.isBacked !== true);
  return [...requested, ...sources.outputs].every(hasIt) ? symbol : null;
}

function checkNames(sources: TensorSources, problems: Problems): void {
  const check = (names: Iterable<string>, actual: readonly OnnxValue[], where: string): void => {
    for (const name of names)
      if (!actual.some((value) => value.name === name))
        problems.push(`${where}.${name}: must be one of ${actual.map((value) => value.name).join(", ")}; was ${name}`);
  };
  check(Object.keys(sources.file.inputs), sources.inputs, `${sources.fileName}: inputs`);
  check(Object.keys(sources.file.outputs), sources.outputs, `${sources.fileName}: outputs`);
  const config = sources.triton;
  if (config === null) return;
  check(
    config.inputs.map((tensor) => tensor.name),
    sources.inputs,
    `${sources.tritonName}: input`,
  );
  check(
    config.outputs.map((tensor) => tensor.name),
    sources.outputs,
    `${sources.tritonName}: output`,
  );
}

function shapeOf(
  sources: TensorSources,
  value: OnnxValue,
  entry: ModelFileInput | ModelFileOutput | undefined,
  batchAxis: number | null,
  configured: readonly TritonTensor[] | undefined,
  field: string,
  problems: Problems,
): number[] {
  const known = value.dims?.map((dim) => (typeof dim === "number" ? dim : -1)) ?? null;
  if (known !== null && batchAxis !== null) {
    if (batchAxis >= known.length)
      problems.push(
        `${sources.fileName}: ${field}.batch_axis: must be below the rank ${known.length}; was ${batchAxis}`,
      );
    else if (known[batchAxis] !== -1 && known[batchAxis] !== sources.file.batch_fixed)
      problems.push(
        `${sources.fileName}: ${field}.batch_axis: the model fixes axis ${batchAxis} to ${known[batchAxis]}: give batch_fixed ${known[batchAxis]} or batch_axis none; was ${batchAxis}`,
      );
    else known[batchAxis] = -1;
  }
  let shape = known;
  if (entry?.shape !== undefined) shape = refine(shape, entry.shape, `${sources.fileName}: ${field}.shape`, problems);
  const triton = configured?.find((tensor) => tensor.name === value.name);
  if (triton !== undefined) {
    const where = `${sources.tritonName}: ${field}`;
    if (triton.datatype !== null && triton.datatype !== value.datatype)
      problems.push(`${where}.data_type: must be ${value.datatype} as in the model file; was ${triton.datatype}`);
    const dims = triton.reshape ?? triton.dims;
    const what = triton.reshape === null ? "dims" : "reshape.shape";
    if (dims !== null) shape = refine(shape, [...batchDims(sources), ...dims], `${where}.${what}`, problems);
    if (triton.reshape !== null && batchAxis !== null && batchDims(sources).length === 0)
      problems.push(`${where}.reshape: needs max_batch_size where the model batches; was 0`);
  }
  if (shape === null) {
    if (field.startsWith("inputs"))
      problems.push(
        `${sources.fileName}: ${field}.shape: must be given, the model file leaves the rank open; was nothing`,
      );
    return batchAxis === null ? [] : [-1];
  }
  return shape;
}

const batchDims = ({ triton }: TensorSources): readonly number[] => ((triton?.maxBatchSize ?? 0) > 0 ? [-1] : []);

/** With Triton's reshape: its dims, with the open ones as far closed as the model's own. */
function clientShapeOf(
  sources: TensorSources,
  shape: readonly number[],
  configured: readonly TritonTensor[] | undefined,
  name: string,
): readonly number[] | null {
  const tensor = configured?.find((each) => each.name === name);
  if (tensor === undefined || tensor.dims === null || tensor.reshape === null) return null;
  const lead = batchDims(sources);
  const open = [...lead, ...tensor.reshape].flatMap((extent, axis) => (extent === -1 ? [shape[axis] ?? -1] : []));
  return [...lead, ...tensor.dims].map((extent) => (extent === -1 ? open.shift()! : extent));
}

/** A declared shape may close what the model file leaves open, never contradict it. */
function refine(
  known: readonly number[] | null,
  declared: readonly number[],
  where: string,
  problems: Problems,
): number[] {
  if (known === null) return [...declared];
  const fits =
    known.length === declared.length &&
    known.every((dim, i) => dim === -1 || declared[i] === -1 || dim === declared[i]);
  if (!fits) {
    problems.push(`${where}: must fit the model file's [${known}]; was [${declared}]`);
    return [...known];
  }
  return known.map((dim, i) => (dim === -1 ? declared[i]! : dim));
}

function inputSpec(
  sources: TensorSources,
  value: OnnxValue,
  entry: ModelFileInput | undefined,
  batchAxis: number | null,
  shape: readonly number[],
  problems: Problems,
): TensorSpec {
  const field = `${sources.fileName}: inputs.${value.name}`;
  if (entry?.datatype !== undefined && entry.datatype !== value.datatype)
    problems.push(`${field}.datatype: must be ${value.datatype} as in the model file; was ${entry.datatype}`);
  const variable = variableOf(sources, value.name, entry);
  if (variable !== null && (variable.axis >= shape.length || shape[variable.axis] !== -1))
    problems.push(`${field}.variable_axis: must be a -1 axis of [${shape}]; was ${variable.axis}`);
  if (variable !== null && variable.axis === batchAxis)
    problems.push(`${field}.variable_axis: must differ from the batch axis ${batchAxis}; was ${variable.axis}`);
  if (variable?.mode === "pad" && batchAxis === null) problems.push(`${field}.mode: pad needs a batch axis; was none`);
  for (const key of ["pad_value", "profile_value"] as const) {
    const fill = entry?.[key];
    const problem = fill === undefined ? null : fillProblem(value.datatype as Datatype, fill);
    if (problem !== null) problems.push(`${field}.${key}: must be ${problem}; was ${fill}`);
  }
  if (entry?.profile_shape !== undefined && entry.profile_shape.length !== shape.length)
    problems.push(`${field}.profile_shape: must have ${shape.length} extents; was [${entry.profile_shape}]`);
  const clientShape = clientShapeOf(sources, shape, sources.triton?.inputs, value.name);
  const isMask = entry?.mask === true;
  const isOptional = sources.triton?.inputs.find((t) => t.name === value.name)?.optional ?? false;
  const isOpen = shape.some((extent, axis) => extent < 0 && axis !== batchAxis);
  if (isOptional && value.isBacked !== true && !isMask && isOpen)
    problems.push(
      `${sources.tritonName}: inputs.${value.name}.optional: must have a known shape besides the batch, since it is all 0 when left out; was [${shape}]`,
    );
  return {
    name: value.name,
    datatype: value.datatype,
    shape,
    ...(clientShape === null ? {} : { clientShape }),
    batchAxis,
    variable,
    optional: isMask || isOptional || value.isBacked === true,
    ...(value.isBacked === true ? { isBacked: true } : {}),
    ...(value.range === undefined ? {} : { range: value.range }),
    ...(entry?.mask === true ? { mask: true } : {}),
    ...(entry?.profile_value === undefined ? {} : { profileValue: entry.profile_value }),
    ...(entry?.profile_shape === undefined ? {} : { profileShape: entry.profile_shape }),
  };
}

function variableOf(sources: TensorSources, name: string, entry: ModelFileInput | undefined): VariableAxis | null {
  if (entry?.variable_axis === undefined) return null;
  const mode = entry.mode ?? (entry.buckets === undefined ? "equal" : "pad");
  const unpad = Object.entries(sources.file.outputs)
    .filter(([, output]) => output.unpad?.of === name)
    .map(([output, { unpad: rule }]) => ({ output, axis: rule!.axis, scale: rule!.scale }));
  return { axis: entry.variable_axis, mode, buckets: entry.buckets ?? [], padValue: entry.pad_value ?? 0, unpad };
}
