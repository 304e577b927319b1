import type { ModelSpec, TensorSpec } from "../config/model.js";
import { textProblem } from "../wire/bytes-tensor.js";
import { DATATYPES, type Tensor } from "../wire/tensor.js";

/**
 * What of an input's values the model cannot take, or null: found here it costs its sender an answer, found by the
 * runtime it costs the whole batch a run. The tensor must have passed `checkTensorBytes`.
 */
export function valueProblem(model: ModelSpec, spec: TensorSpec, tensor: Tensor): string | null {
  if (model.platform !== "onnx_onnxv1") return null;
  switch (tensor.datatype) {
    case "BYTES":
      return textProblem(tensor.data);
    case "BOOL": {
      // To compiled code such a byte is neither true nor false: `not` of it may be true as well.
      const index = tensor.data.findIndex((byte) => byte > 1);
      return index < 0 ? null : `element ${index} must be 0 or 1 for datatype BOOL, got ${tensor.data[index]}`;
    }
    case "INT32":
    case "INT64":
      return spec.range === undefined ? null : rangeProblem(tensor, spec.range);
    default:
      return null;
  }
}

/** Compared as halves of 32 bits: reading each as a bigint takes several times as long. */
function rangeProblem(tensor: Tensor, [low, high]: readonly [number, number]): string | null {
  const { data } = tensor;
  const size = DATATYPES[tensor.datatype];
  const bytes = data.byteOffset % 4 === 0 ? data : Uint8Array.from(data);
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const step = size / 4;
  for (let at = 0; at < words.length; at += step) {
    const value = size === 4 ? words[at]! : words[at + 1]! * 2 ** 32 + (words[at]! >>> 0);
    if (value >= low && value <= high) continue;
    const exact = size === 4 ? value : new DataView(bytes.buffer, bytes.byteOffset).getBigInt64(4 * at, true);
    return `element ${at / step} must be in [${low}, ${high}], the rows that the model looks up; was ${exact}`;
  }
  return null;
}
