import { ServingError } from "../wire/serving-error.js";

/** What is wrong with a registration has one reason, whoever finds it. @throws ServingError */
export function asTaskFault(thrown: unknown): never {
  const error = ServingError.from(thrown);
  if (error.code !== "invalid-argument" || error.details.reason !== undefined) throw error;
  throw new ServingError(error.code, error.message, { ...error.details, reason: "task" });
}
