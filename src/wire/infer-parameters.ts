/**
 * Request parameters: a flat record of strings, numbers and booleans, and the one among them that doors read.
 */
import type { DurationUs } from "../core/time.js";
import { checkLength, INFER_LIMITS, tooMany } from "./infer-limits.js";
import { ServingError } from "./serving-error.js";

export type ParameterValue = string | number | boolean;
export type Parameters = Readonly<Record<string, ParameterValue>>;

export const NO_PARAMETERS: Parameters = Object.freeze({});

/** Checks a decoded JSON value to be a flat parameters object. `where` names it in errors, e.g. "input 'x'". */
export function readParameters(value: unknown, where: string): Parameters {
  if (value === undefined) return NO_PARAMETERS;
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ServingError("invalid-argument", `parameters of ${where} must be an object, got ${describe(value)}`);
  const entries = Object.entries(value);
  if (entries.length > INFER_LIMITS.parameters)
    throw tooMany(`parameters of ${where}`, INFER_LIMITS.parameters, "members", entries.length);
  const parameters: Record<string, ParameterValue> = Object.create(null);
  for (const [key, member] of entries) {
    checkParameterLength(key, member, where);
    if (typeof member !== "string" && typeof member !== "number" && typeof member !== "boolean") {
      if (typeof member === "bigint") {
        parameters[key] = member.toString();
        continue;
      }
      throw new ServingError(
        "invalid-argument",
        `parameter '${key}' of ${where} must be a string, a number or a boolean, got ${describe(member)}`,
      );
    }
    parameters[key] = member;
  }
  return parameters;
}

export function checkParameterLength(key: string, value: unknown, where: string): void {
  checkLength(key, INFER_LIMITS.nameLength, `name of a parameter of ${where}`);
  if (typeof value === "string") checkLength(value, INFER_LIMITS.parameterLength, `parameter '${key}' of ${where}`);
}

/**
 * The request parameter `timeout`: microseconds from the receipt of the headers to the answer.
 *
 * @returns null when absent or 0 (0 means "the model's default", as in Triton).
 * @throws ServingError invalid-argument when it is not a whole number in [0, 2^53).
 */
export function readTimeoutUs(parameters: Parameters): DurationUs | null {
  const value = parameters.timeout;
  if (value === undefined) return null;
  const us = typeof value === "string" && /^\d{1,16}$/.test(value) ? Number(value) : value;
  if (typeof us !== "number" || !Number.isSafeInteger(us) || us < 0)
    throw new ServingError(
      "invalid-argument",
      `parameter 'timeout' must be a whole number of microseconds in [0, 2^53), got ${typeof value === "string" ? JSON.stringify(value) : value}`,
    );
  return us === 0 ? null : (us as DurationUs);
}

/** A decoded JSON value in a few words, for error texts. */
export function describe(value: unknown): string {
  if (value === null) return "null";
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "object") return "an object";
  if (typeof value === "string")
    return `the string ${JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)}`;
  return String(value);
}
