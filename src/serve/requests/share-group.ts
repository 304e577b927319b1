/** Which requests may share a batch: those with equal keys. */
import { bucketFor } from "../../config/buckets.js";
import type { ModelSpec, TensorSpec } from "../../config/model.js";
import { ServingError } from "../../wire/serving-error.js";
import { atOnce } from "../../wire/sliced.js";
import { byteCountProblem, type Tensor } from "../../wire/tensors/tensor.js";
import { valueKey } from "./values/input-values.js";

export interface ShareGroup {
  /** Two requests of one model may share a batch if and only if their keys are equal. */
  readonly key: string;
  /** What a run of it alone will have along the variable axis (the bucket, or the request's own extent); null where there is none. */
  readonly extent: number | null;
}

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * Also refuses what would spoil a batch for its other members, since they would fail with it.
 *
 * @param valueKeys of inputs without a batch axis, as far as they have been made (input-values.ts).
 * @param areSizesTogether requests of different buckets share batches, which are padded to the longest.
 * @throws ServingError invalid-argument, naming input, bound and value: a wrong number of bytes, an extent beyond the last bucket, a wrong
 *   number of axes, rows that differ between inputs, a mask that does not match what it masks.
 */
export function shareGroup(
  spec: ModelSpec,
  inputs: readonly Tensor[],
  valueKeys: ReadonlyMap<string, string> = NONE,
  areSizesTogether = false,
): ShareGroup {
  const parts: string[] = [];
  let extent: number | null = null;
  let ownExtent: number | null = null;
  let rows: number | null = null;
  const given = new Map(inputs.map((tensor) => [tensor.name, tensor]));
  for (const input of spec.inputs) {
    const tensor = given.get(input.name);
    if (tensor === undefined) {
      // Masks are made where they are missing, so giving one or not makes no difference.
      if (input.mask !== true) parts.push("-");
      continue;
    }
    if (tensor.shape.length !== input.shape.length)
      refuse(`input '${input.name}' must have ${input.shape.length} axes; shape is [${tensor.shape}]`);
    const problem = byteCountProblem(tensor);
    if (problem !== null) refuse(problem);
    if (input.batchAxis !== null) {
      const own = tensor.shape[input.batchAxis]!;
      if (own < 1 || (rows !== null && own !== rows))
        refuse(`input '${input.name}' must have ${rows ?? "at least 1"} rows on axis ${input.batchAxis}; was ${own}`);
      rows = own;
    }
    const own = runExtent(input, tensor);
    if (own !== null && input.mask !== true) {
      extent ??= own;
      ownExtent ??= tensor.shape[input.variable!.axis]!;
    }
    const isOpen = areSizesTogether && input.variable?.mode === "pad";
    if (input.mask !== true) parts.push(shapeKey(input, tensor, isOpen ? null : own));
    if (input.batchAxis === null && spec.batchSizeMax > 0)
      parts.push(valueKeys.get(input.name) ?? atOnce(valueKey(tensor)));
  }
  for (const input of spec.inputs) if (input.mask === true) checkMask(input, given.get(input.name), ownExtent);
  return { key: parts.join(";"), extent };
}

function checkMask(input: TensorSpec, tensor: Tensor | undefined, extent: number | null): void {
  if (tensor === undefined || input.variable === null || extent === null) return;
  const own = tensor.shape[input.variable.axis];
  if (own !== extent)
    refuse(`mask '${input.name}' axis ${input.variable.axis} must have extent ${extent}, as what it masks; was ${own}`);
}

function refuse(message: string): never {
  throw new ServingError("invalid-argument", message);
}

function runExtent(input: TensorSpec, tensor: Tensor): number | null {
  if (input.variable === null) return null;
  const own = tensor.shape[input.variable.axis]!;
  if (input.variable.mode === "equal") return own;
  const { buckets, axis } = input.variable;
  const bucket = bucketFor(input.variable, own);
  if (bucket === null)
    refuse(`input '${input.name}' axis ${axis}: extent must be at most ${buckets.at(-1)}; was ${own}`);
  return bucket;
}

/** Extents of all axes that the specification leaves open, but for the batch axis. */
function shapeKey(input: TensorSpec, tensor: Tensor, own: number | null): string {
  let key = "";
  for (let axis = 0; axis < input.shape.length; axis++) {
    if (input.shape[axis] !== -1 || axis === input.batchAxis) continue;
    key += `${axis === input.variable?.axis ? own : tensor.shape[axis]},`;
  }
  return key;
}
