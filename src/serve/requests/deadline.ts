import type { ModelSpec } from "../../config/model.js";
import { ServingError } from "../../wire/serving-error.js";
import type { InferCall } from "../gateway.js";

/**
 * The earliest of what the request, its transport and its model say.
 *
 * @throws ServingError invalid-argument: it asks for more time than the model gives.
 */
export function deadlineOf(spec: ModelSpec, call: InferCall): number {
  if (call.timeoutUs !== null && call.timeoutUs > spec.timeoutMaxUs)
    throw new ServingError(
      "invalid-argument",
      `parameter 'timeout' for model '${spec.name}' must be at most ${spec.timeoutMaxUs} microseconds; was ${call.timeoutUs}`,
      { reason: "timeout-out-of-range" },
    );
  const deadline = call.receivedAt + timeoutOf(spec, call);
  return Math.min(deadline, call.transportDeadlineAt ?? Number.POSITIVE_INFINITY);
}

function timeoutOf(spec: ModelSpec, { timeoutUs }: InferCall): number {
  const own = spec.sloUs ?? spec.defaultTimeoutUs;
  if (timeoutUs === null || spec.timeoutOverride === "never") return own;
  return spec.timeoutOverride === "shorten" ? Math.min(own, timeoutUs) : timeoutUs;
}
