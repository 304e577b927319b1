/** Tiny ONNX files written by hand: just enough protobuf for graphs of a few nodes. Field numbers are onnx.proto's. */

export type Dim = number | string;

export interface ValueInfo {
  readonly name: string;
  /** TensorProto.DataType: 1 float, 2 uint8, 6 int32, 7 int64, 8 string, 9 bool, 10 float16, 11 double. */
  readonly type: number;
  readonly dims: readonly Dim[];
  /** Field of TypeProto: 1, the default, is a tensor, 4 a sequence, 5 a map. */
  readonly kind?: number;
}
export interface OnnxNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Integers, lists of integers and strings. */
  readonly attributes?: Readonly<Record<string, number | readonly number[] | string>>;
  /** Attributes that are graphs: the branches of an If, the body of a Loop. */
  readonly graphs?: Readonly<Record<string, OnnxGraph>>;
}
export interface Initializer {
  readonly name: string;
  readonly dims: readonly number[];
  readonly floats?: ArrayLike<number>;
  readonly ints?: readonly number[];
  readonly strings?: readonly Uint8Array[];
  /** File beside the model that has the values instead. */
  readonly location?: string;
}
export interface OnnxGraph {
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  readonly nodes: readonly OnnxNode[];
  readonly initializers?: readonly Initializer[];
  readonly opset?: number;
  readonly irVersion?: number;
}

function varint(value: number | bigint): Buffer {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 0x80 : low);
  } while (rest > 0n);
  return Buffer.from(bytes);
}
const int = (field: number, value: number): Buffer => Buffer.concat([varint(field << 3), varint(value)]);
function bytes(field: number, value: Uint8Array | string): Buffer {
  const data = Buffer.from(value as Uint8Array);
  return Buffer.concat([varint((field << 3) | 2), varint(data.length), data]);
}
const message = (field: number, ...parts: Buffer[]): Buffer => bytes(field, Buffer.concat(parts));

function valueInfo(field: number, value: ValueInfo): Buffer {
  const dims = value.dims.map((dim) => message(1, typeof dim === "number" ? int(1, dim) : bytes(2, dim)));
  return message(
    field,
    bytes(1, value.name),
    message(2, message(value.kind ?? 1, int(1, value.type), message(2, ...dims))),
  );
}

function node(value: OnnxNode): Buffer {
  const attributes = Object.entries(value.attributes ?? {}).map(([name, attribute]) => {
    if (typeof attribute === "number") return message(5, bytes(1, name), int(3, attribute), int(20, 2));
    if (typeof attribute === "string") return message(5, bytes(1, name), bytes(4, attribute), int(20, 3));
    return message(5, bytes(1, name), ...attribute.map((item) => int(8, item)), int(20, 7));
  });
  const graphs = Object.entries(value.graphs ?? {}).map(([name, graph]) =>
    message(5, bytes(1, name), graphProto(6, graph), int(20, 5)),
  );
  return message(
    1,
    ...value.inputs.map((name) => bytes(1, name)),
    ...value.outputs.map((name) => bytes(2, name)),
    bytes(4, value.op),
    ...attributes,
    ...graphs,
  );
}

function initializer(value: Initializer): Buffer {
  const head = [...value.dims.map((dim) => int(1, dim)), bytes(8, value.name)];
  if (value.strings !== undefined)
    return message(5, ...head, int(2, 8), ...value.strings.map((element) => bytes(6, element)));
  if (value.location !== undefined)
    return message(5, ...head, int(2, 1), message(13, bytes(1, "location"), bytes(2, value.location)), int(14, 1));
  const raw =
    value.floats !== undefined
      ? rawFloats(value.floats)
      : Buffer.from(BigInt64Array.from((value.ints ?? []).map(BigInt)).buffer);
  return message(5, ...head, int(2, value.floats !== undefined ? 1 : 7), bytes(9, raw));
}

/** Weights that are there as they lie in the file are not copied. */
function rawFloats(values: ArrayLike<number>): Buffer {
  const { buffer, byteOffset, byteLength } = values instanceof Float32Array ? values : Float32Array.from(values);
  return Buffer.from(buffer, byteOffset, byteLength);
}

const graphProto = (field: number, graph: OnnxGraph): Buffer =>
  message(
    field,
    ...graph.nodes.map(node),
    bytes(2, "graph"),
    ...(graph.initializers ?? []).map(initializer),
    ...graph.inputs.map((input) => valueInfo(11, input)),
    ...graph.outputs.map((output) => valueInfo(12, output)),
  );

export function buildOnnx(graph: OnnxGraph): Buffer {
  return Buffer.concat([int(1, graph.irVersion ?? 9), graphProto(7, graph), message(8, int(2, graph.opset ?? 17))]);
}
