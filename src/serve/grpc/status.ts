/** ServingError as a gRPC status: the code of the one table, the text as details, the numbers as trailing metadata. */
import { Metadata, type StatusObject } from "@grpc/grpc-js";
import { ERROR_CODES, type ServingError } from "../../wire/serving-error.js";

export function statusOf(error: ServingError): StatusObject {
  const { reason, estimateUs, deadlineUs, retryAfterS, module } = error.details;
  const metadata = new Metadata();
  metadata.set("rubato-reason", ascii(reason ?? error.code));
  if (estimateUs !== undefined) metadata.set("rubato-estimate-us", String(estimateUs));
  if (deadlineUs !== undefined) metadata.set("rubato-deadline-us", String(deadlineUs));
  if (retryAfterS !== undefined) metadata.set("retry-after", String(Math.max(1, Math.ceil(retryAfterS))));
  if (module !== undefined) metadata.set("rubato-module", ascii(module));
  return { code: ERROR_CODES[error.code].grpc, details: error.message, metadata };
}

/** Metadata values are printable ASCII; model names need not be. */
function ascii(text: string): string {
  return /^[\x20-\x7e]*$/.test(text) ? text : encodeURIComponent(text);
}
