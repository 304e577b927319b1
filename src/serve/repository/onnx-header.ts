/**
 * What an ONNX file says about its inputs and outputs, read from the protobuf itself: the server process starts no
 * model runtime, and weights are skipped, not read, whatever their size.
 *
 * Source of the field numbers: onnx.proto (ModelProto 1 ir_version, 7 graph, 8 opset_import; GraphProto 1 node,
 * 5 initializer, 11 input, 12 output, 15 sparse_initializer; TensorProto 1 dims, 8 name,
 * 13 external_data).
 */
import { closeSync, openSync } from "node:fs";
import { ServingError } from "../../wire/serving-error.js";
import { indexRanges, type Node, type Range, readNode } from "./onnx-nodes.js";
import { ProtoFile, type Span } from "./proto-file.js";

export interface OnnxValue {
  readonly name: string;
  /** Open Inference Protocol datatype. */
  readonly datatype: string;
  /** A number, or the name of a symbolic dimension ("" = nameless). null: the file does not say the rank. */
  readonly dims: readonly (number | string)[] | null;
  /** Of an input: what the graph looks up by it allows, e.g. the rows of an embedding. */
  readonly range?: Range;
  /** Of an input: the file has a value for it, so that it may be left out. */
  readonly isBacked?: boolean;
}

/** An initializer that is an input as well. */
export interface Overridable {
  readonly value: OnnxValue;
  /** Large, or one of many: listed by an exporter's habit rather than to be given. */
  readonly isWeight: boolean;
}

export interface OnnxHeader {
  readonly irVersion: number;
  /** Of the default operator set. */
  readonly opset: number;
  /** Without initializers, which old files list as inputs as well. */
  readonly inputs: readonly OnnxValue[];
  /** Inputs that have an initializer. Below ir_version 4 those are constants, and beside weights in other files they stay so. */
  readonly overridable: readonly Overridable[];
  readonly outputs: readonly OnnxValue[];
  /** Files of weights that lie beside it, as the file names them. */
  readonly weightFiles: readonly string[];
}

const DATATYPES: Readonly<Record<number, string>> = {
  1: "FP32",
  2: "UINT8",
  3: "INT8",
  4: "UINT16",
  5: "INT16",
  6: "INT32",
  7: "INT64",
  8: "BYTES",
  9: "BOOL",
  10: "FP16",
  11: "FP64",
  12: "UINT32",
  13: "UINT64",
  16: "BF16",
};
/** What the format has and the protocol has not, by its name there. */
const OTHER_TYPES: Readonly<Record<number, string>> = {
  14: "COMPLEX64",
  15: "COMPLEX128",
  17: "FLOAT8E4M3FN",
  18: "FLOAT8E4M3FNUZ",
  19: "FLOAT8E5M2",
  20: "FLOAT8E5M2FNUZ",
  21: "UINT4",
  22: "INT4",
  23: "FLOAT4E2M1",
};

/** How a clone without Git LFS has a model's file. */
const LFS_POINTER = "version https://git-lfs.github.com/spec/";

const VALUES_MAX = 4096;
/** Of graphs within graphs: real models have a few, and each is a call. */
const DEPTH_MAX = 32;
/** An option is a number or a few; what is larger is a weight. */
const OPTION_BYTES_MAX = 1024;
const IR_OVERRIDABLE = 4;

interface Initializer {
  readonly name: string;
  readonly dims: readonly number[];
  /** Where its values lie outside the model's file. */
  readonly weightFile: string | null;
  readonly isSparse: boolean;
}

/** @throws ServingError invalid-argument naming the file, the byte and what is wrong. */
export function readOnnxHeader(file: string): OnnxHeader {
  let fd: number;
  try {
    fd = openSync(file, "r");
  } catch (cause) {
    throw new ServingError("invalid-argument", `${file}: cannot be opened: ${(cause as Error).message}`, { cause });
  }
  try {
    return readModel(new ProtoFile(fd, file));
  } finally {
    closeSync(fd);
  }
}

function readModel(proto: ProtoFile): OnnxHeader {
  if (proto.text({ from: 0, to: Math.min(proto.size, LFS_POINTER.length) }) === LFS_POINTER)
    proto.fail(0, "is where Git LFS keeps the model, and not the model: fetch it with `git lfs pull`");
  let irVersion = 0;
  let opset = 0;
  const graphs: Span[] = [];
  proto.each({ from: 0, to: proto.size }, (field) => {
    if (field.number === 1) irVersion = field.value;
    else if (field.number === 7) graphs.push(field.span);
    else if (field.number === 8) {
      let domain = "";
      let version = 0;
      proto.each(field.span, (part) => {
        if (part.number === 1) domain = proto.text(part.span);
        else if (part.number === 2) version = part.value;
      });
      if (domain === "" || domain === "ai.onnx") opset = version;
    }
  });
  const graph = graphs[0];
  if (graph === undefined) proto.fail(0, "is not an ONNX model: it has no graph");
  const initializers = new Map<string, Initializer>();
  const nodes: Node[] = [];
  const inputs: OnnxValue[] = [];
  const outputs: OnnxValue[] = [];
  const add = (initializer: Initializer) => initializers.set(initializer.name, initializer);
  proto.each(graph, (field) => {
    if (field.number === 1) nodes.push(readNode(proto, field.span));
    else if (field.number === 5) add(readInitializer(proto, field.span));
    else if (field.number === 15)
      proto.each(
        field.span,
        (part) => part.number === 1 && add({ ...readInitializer(proto, part.span), isSparse: true }),
      );
    else if (field.number === 11 || field.number === 12) {
      const values = field.number === 11 ? inputs : outputs;
      if (values.length >= VALUES_MAX) proto.fail(field.span.from, `has more than ${VALUES_MAX} inputs or outputs`);
      values.push(readValue(proto, field.span));
    }
  });
  const real = inputs.filter((input) => !initializers.has(input.name));
  const ranges = indexRanges(nodes, new Set(real.map(({ name }) => name)), initializers);
  if (outputs.length === 0) proto.fail(graph.from, "is not an ONNX model: its graph has no output");
  return {
    irVersion,
    opset,
    inputs: real.map((input) => (ranges.has(input.name) ? { ...input, range: ranges.get(input.name)! } : input)),
    overridable: irVersion < IR_OVERRIDABLE ? [] : overridables(inputs, initializers),
    outputs,
    weightFiles: [
      ...new Set([
        ...[...initializers.values()].flatMap(({ weightFile }) => weightFile ?? []),
        ...weightsWithin(proto, nodes),
      ]),
    ],
  };
}

/** Files of weights that graphs within nodes name, and constants. @param depth of the nodes. */
function weightsWithin(proto: ProtoFile, nodes: readonly Node[], depth = 0): string[] {
  const files: string[] = [];
  const add = (tensor: Span): void => {
    const { weightFile } = readInitializer(proto, tensor);
    if (weightFile) files.push(weightFile);
  };
  for (const { graphs, tensors } of nodes) {
    for (const tensor of tensors) add(tensor);
    for (const graph of graphs) {
      if (depth >= DEPTH_MAX) proto.fail(graph.from, `has graphs within graphs, more than ${DEPTH_MAX} deep`);
      const inner: Node[] = [];
      proto.each(graph, (field) => {
        if (field.number === 1) inner.push(readNode(proto, field.span));
        else if (field.number === 5) add(field.span);
      });
      files.push(...weightsWithin(proto, inner, depth + 1));
    }
  }
  return files;
}

function overridables(inputs: readonly OnnxValue[], initializers: ReadonlyMap<string, Initializer>): Overridable[] {
  // A file that is changed in memory has lost its folder, where the runtime looks for weights.
  if ([...initializers.values()].some(({ weightFile }) => weightFile !== null)) return [];
  const backed = inputs.filter(({ name }) => initializers.get(name)?.isSparse === false);
  const areAllInputs = initializers.size > 1 && backed.length === initializers.size;
  return backed.map(({ name, datatype }) => {
    const { dims } = initializers.get(name)!;
    const size = dims.reduce((a, b) => a * b, 8);
    return { value: { name, datatype, dims, isBacked: true }, isWeight: areAllInputs || size > OPTION_BYTES_MAX };
  });
}

/** TensorProto: 1 dims, 8 name, 13 external_data { 1 key, 2 value }. */
function readInitializer(proto: ProtoFile, span: Span): Initializer {
  let name = "";
  let weightFile: string | null = null;
  const dims: number[] = [];
  proto.each(span, (field) => {
    if (field.number === 1) dims.push(...proto.numbers(field));
    else if (field.number === 8) name = proto.text(field.span);
    if (field.number !== 13) return;
    let key = "";
    let value = "";
    proto.each(field.span, (part) => {
      if (part.number === 1) key = proto.text(part.span);
      else if (part.number === 2) value = proto.text(part.span);
    });
    if (key === "location") weightFile = value;
  });
  return { name, dims, weightFile, isSparse: false };
}

/** Fields of TypeProto that are no tensors, and how to do without. */
const NO_TENSORS: Readonly<Record<number, string>> = {
  4: "a sequence; of a classifier, export it without ZipMap (skl2onnx: options={'zipmap': False})",
  5: "a map; of a classifier, export it without ZipMap (skl2onnx: options={'zipmap': False})",
  8: "a sparse tensor; make it dense in the graph",
  9: "an optional; give the input a default value (an initializer) instead",
};

/** ValueInfoProto: 1 name, 2 type { 1 tensor_type { 1 elem_type, 2 shape { 1 dim { 1 value, 2 param } } } }. */
function readValue(proto: ProtoFile, span: Span): OnnxValue {
  let name = "";
  let code = 0;
  let dims: (number | string)[] | null = null;
  proto.each(span, (field) => {
    if (field.number === 1) name = proto.text(field.span);
    else if (field.number === 2)
      proto.each(field.span, (type) => {
        if (type.number !== 1 && NO_TENSORS[type.number] !== undefined)
          proto.fail(type.span.from, `has '${name}', which must be a tensor; is ${NO_TENSORS[type.number]}`);
        if (type.number !== 1) return;
        proto.each(type.span, (tensor) => {
          if (tensor.number === 1) code = tensor.value;
          else if (tensor.number === 2) dims = readDims(proto, tensor.span);
        });
      });
  });
  const datatype = DATATYPES[code];
  if (datatype === undefined)
    proto.fail(
      span.from,
      `has '${name}' of element type ${OTHER_TYPES[code] ?? code}, which the protocol cannot carry`,
    );
  if (datatype === "BF16")
    proto.fail(
      span.from,
      `has '${name}' of BF16, which onnxruntime-node cannot carry; put a Cast from or to FP32 at that end of the graph, or export it as FP16 or FP32`,
    );
  return { name, datatype, dims };
}

function readDims(proto: ProtoFile, span: Span): (number | string)[] {
  const dims: (number | string)[] = [];
  proto.each(span, (dim) => {
    let extent: number | string = "";
    proto.each(dim.span, (part) => {
      if (part.number === 1) extent = part.value;
      else if (part.number === 2) extent = proto.text(part.span);
    });
    dims.push(extent);
  });
  return dims;
}
