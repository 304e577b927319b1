/** Tensors of the wire as tensors of ONNX Runtime and back; views where memory allows. */
import type { Tensor as OrtTensorType } from "onnxruntime-node";
import { ServingError } from "../../wire/serving-error.js";
import { atOnce } from "../../wire/sliced.js";
import { readBytesElements, textProblem } from "../../wire/tensors/bytes-tensor.js";
import { byteCountProblem, DATATYPES, type Datatype, elementCount, type Tensor } from "../../wire/tensors/tensor.js";
import { packBytes } from "../../wire/tensors/tensor-bytes.js";
import { ort } from "./onnx-runtime.js";

type View = (buffer: ArrayBufferLike, at: number, length: number) => ArrayBufferView;
interface Mapping {
  readonly type: OrtTensorType.Type;
  readonly view: View;
}

const half = (globalThis as { Float16Array?: new (b: ArrayBufferLike, at: number, n: number) => ArrayBufferView })
  .Float16Array;

/** BF16 is not here: the Node binding has no such type. */
const MAPPINGS: Partial<Record<Datatype, Mapping>> = {
  BOOL: { type: "bool", view: (b, at, n) => new Uint8Array(b, at, n) },
  UINT8: { type: "uint8", view: (b, at, n) => new Uint8Array(b, at, n) },
  INT8: { type: "int8", view: (b, at, n) => new Int8Array(b, at, n) },
  UINT16: { type: "uint16", view: (b, at, n) => new Uint16Array(b, at, n) },
  INT16: { type: "int16", view: (b, at, n) => new Int16Array(b, at, n) },
  UINT32: { type: "uint32", view: (b, at, n) => new Uint32Array(b, at, n) },
  INT32: { type: "int32", view: (b, at, n) => new Int32Array(b, at, n) },
  UINT64: { type: "uint64", view: (b, at, n) => new BigUint64Array(b, at, n) },
  INT64: { type: "int64", view: (b, at, n) => new BigInt64Array(b, at, n) },
  // Where the language has a half type the runtime wants that, else raw bits.
  FP16: { type: "float16", view: (b, at, n) => (half === undefined ? new Uint16Array(b, at, n) : new half(b, at, n)) },
  FP32: { type: "float32", view: (b, at, n) => new Float32Array(b, at, n) },
  FP64: { type: "float64", view: (b, at, n) => new Float64Array(b, at, n) },
};

const DATATYPE_OF: ReadonlyMap<string, Datatype> = new Map(
  Object.entries(MAPPINGS).map(([datatype, mapping]) => [mapping.type, datatype as Datatype]),
);

/** @throws ServingError invalid-argument for a datatype the runtime lacks, a wrong byte count, or bytes that are no text. */
export function toOrt(tensor: Tensor): OrtTensorType {
  const count = elementCount(tensor.shape);
  if (tensor.datatype === "BYTES") {
    const elements = readBytesElements(tensor.name, tensor.data, count);
    const problem = atOnce(textProblem(tensor.data));
    if (problem !== null) throw new ServingError("invalid-argument", `BYTES tensor '${tensor.name}': ${problem}`);
    // Not a TextDecoder: that takes a leading byte order mark away.
    const strings = elements.map((e) => Buffer.from(e.buffer, e.byteOffset, e.byteLength).toString("utf8"));
    return new ort.Tensor("string", strings, tensor.shape);
  }
  const mapping = MAPPINGS[tensor.datatype];
  if (mapping === undefined)
    throw new ServingError(
      "invalid-argument",
      `tensor '${tensor.name}': ONNX Runtime for Node has no datatype ${tensor.datatype}; it has ${Object.keys(MAPPINGS).join(", ")}, BYTES`,
    );
  const size = DATATYPES[tensor.datatype];
  const problem = byteCountProblem(tensor);
  if (problem !== null) throw new ServingError("invalid-argument", problem);
  // Typed views must start at a multiple of their element size.
  const data = tensor.data.byteOffset % size === 0 ? tensor.data : Uint8Array.from(tensor.data);
  const view = mapping.view(data.buffer, data.byteOffset, count);
  return new ort.Tensor(mapping.type as "float32", view as Float32Array, tensor.shape);
}

const REPLACEMENT = Buffer.from("\ufffd");
const isReplaced = ({ datatype, data }: Tensor): boolean =>
  datatype === "BYTES" && Buffer.from(data.buffer, data.byteOffset, data.byteLength).includes(REPLACEMENT);

/**
 * The runtime's binding puts U+FFFD where an output is not UTF-8. If no input has that character, a value was changed.
 *
 * @throws ServingError internal naming the output.
 */
export function checkText(outputs: readonly Tensor[], inputs: readonly Tensor[]): void {
  const replaced = outputs.find(isReplaced);
  if (replaced !== undefined && !inputs.some(isReplaced))
    throw new ServingError("internal", `output '${replaced.name}' is not UTF-8 text, which this runtime cannot carry`, {
      reason: "model-error",
    });
}

/** @throws ServingError internal for an output type that the protocol cannot carry. */
export function fromOrt(name: string, tensor: OrtTensorType): Tensor {
  const shape = tensor.dims;
  if (tensor.type === "string") {
    const elements = (tensor.data as string[]).map((text) => Buffer.from(text));
    return { name, datatype: "BYTES", shape, data: packBytes(elements) };
  }
  const datatype = DATATYPE_OF.get(tensor.type);
  if (datatype === undefined)
    throw new ServingError("internal", `output '${name}' has type ${tensor.type}, which the protocol cannot carry`);
  const view = tensor.data as unknown as ArrayBufferView;
  return { name, datatype, shape, data: new Uint8Array(view.buffer, view.byteOffset, view.byteLength) };
}
