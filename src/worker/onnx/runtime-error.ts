import { ServingError } from "../../wire/serving-error.js";
import { text } from "../text.js";

/** Texts with which ONNX Runtime refuses what a client sent, as opposed to failing by itself. */
const INPUT_TEXTS =
  /INVALID_ARGUMENT|invalid dimensions|unexpected input data type|out of (data )?bounds|out of range|must be (with)?in|does not match the (model's )?expected|inconsistent (sizes|shapes?)|cannot broadcast|invalid input/i;

/** What ONNX Runtime threw during a run: its text says whether the request is at fault. */
export function runtimeError(cause: unknown): ServingError {
  const message = text(cause);
  const code = INPUT_TEXTS.test(message) ? "invalid-argument" : "internal";
  return new ServingError(code, message, { reason: "model-error", cause });
}
