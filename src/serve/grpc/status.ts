/** ServingError as a gRPC status: the code of the one table, the text as details, the numbers as trailing metadata. */
import { Metadata, type StatusObject } from "@grpc/grpc-js";
import { ERROR_CODES, type ServingError } from "../../wire/serving-error.js";

export function statusOf(error: ServingError): StatusObject {
  const { reason, estimateUs, estimateSpreadUs, deadlineUs, retryAfterS, module } = error.details;
  const metadata = new Metadata();
  metadata.set("rubato-reason", ascii(reason ?? error.code));
  if (estimateUs !== undefined) metadata.set("rubato-estimate-us", String(estimateUs));
  if (estimateSpreadUs !== undefined) metadata.set("rubato-estimate-spread-us", String(estimateSpreadUs));
  if (deadlineUs !== undefined) metadata.set("rubato-deadline-us", String(deadlineUs));
  if (retryAfterS !== undefined) metadata.set("retry-after", String(Math.max(1, Math.ceil(retryAfterS))));
  if (module !== undefined) metadata.set("rubato-module", ascii(module));
  return { code: ERROR_CODES[error.code].grpc, details: headerText(error.message), metadata };
}

/** Clients take 8 to 16 KiB of trailers, and a character outside ASCII takes up to nine bytes in them. */
const TEXT_LENGTH_MAX = 1024;

/** A text that grpc-js can percent-encode: half a surrogate pair, cut off anywhere before, would throw there. */
function headerText(text: string): string {
  const short = text.length <= TEXT_LENGTH_MAX ? text : `${text.slice(0, TEXT_LENGTH_MAX)}…`;
  return short.replace(/\p{Surrogate}/gu, "\ufffd");
}

/** Metadata values are printable ASCII; model names need not be. */
function ascii(text: string): string {
  return /^[\x20-\x7e]*$/.test(text) ? text : encodeURIComponent(text);
}
