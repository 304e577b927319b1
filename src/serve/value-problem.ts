import type { ModelSpec, TensorSpec } from "../config/model.js";
import { textProblem } from "../wire/bytes-tensor.js";
import type { Tensor } from "../wire/tensor.js";

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
    default:
      return null;
  }
}
