/**
 * Triton's reshape: clients see one shape, the model another of the same elements in the same order, so that only the
 * shape changes and no value moves. Axes of open extent keep their order.
 */
import type { ModelSpec, TensorSpec } from "../../../config/model.js";
import { ServingError } from "../../../wire/serving-error.js";
import type { Tensor } from "../../../wire/tensors/tensor.js";
import type { InferHandler } from "../../gateway.js";

const isReshaped = ({ clientShape }: TensorSpec): boolean => clientShape !== undefined;

/** As the model has them. @throws ServingError invalid-argument: a shape is not what clients are told. */
export function toModelShapes(model: ModelSpec, tensors: readonly Tensor[]): readonly Tensor[] {
  if (!model.inputs.some(isReshaped)) return tensors;
  return tensors.map((tensor) => {
    const spec = model.inputs.find(({ name }) => name === tensor.name);
    if (spec?.clientShape === undefined) return tensor;
    const shape = reshaped(tensor.shape, spec.clientShape, spec.shape);
    if (shape !== null) return { ...tensor, shape };
    throw new ServingError(
      "invalid-argument",
      `unexpected shape for input '${tensor.name}' for model '${model.name}'. Expected [${spec.clientShape.join(",")}], got [${tensor.shape.join(",")}]`,
    );
  });
}

/** Hands on replies as clients see them. */
export function toClientShapes(model: ModelSpec, handler: InferHandler): InferHandler {
  if (!model.outputs.some(isReshaped)) return handler;
  return {
    onReply: (reply) => {
      const wrong: string[] = [];
      const outputs = reply.outputs.map((tensor) => {
        const spec = model.outputs.find(({ name }) => name === tensor.name);
        if (spec?.clientShape === undefined) return tensor;
        const shape = reshaped(tensor.shape, spec.shape, spec.clientShape);
        if (shape === null) wrong.push(`output '${tensor.name}' must be [${spec.shape}]; was [${tensor.shape}]`);
        return { ...tensor, shape: shape ?? tensor.shape };
      });
      if (wrong.length === 0) handler.onReply({ ...reply, outputs });
      else handler.onError(new ServingError("internal", `model '${model.name}': ${wrong.join("; ")}`));
    },
    onError: (error) => handler.onError(error),
  };
}

/** @returns the shape in terms of `to`; null: it does not fit `from`. */
function reshaped(shape: readonly number[], from: readonly number[], to: readonly number[]): number[] | null {
  if (shape.length !== from.length || from.some((extent, axis) => extent !== -1 && extent !== shape[axis])) return null;
  const open = shape.filter((_, axis) => from[axis] === -1);
  return to.map((extent) => (extent === -1 ? open.shift()! : extent));
}
