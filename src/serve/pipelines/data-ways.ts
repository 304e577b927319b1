/** What a request's own data decides: how many parts it makes, which way it goes. */
import { REQUEST, type ServedModule } from "../../config/server/pipelines/served-pipeline.js";
import type { ErrorCode, ServingError } from "../../wire/serving-error.js";
import type { OpenRequest } from "./open-request.js";
import { moduleFault } from "./part-errors.js";
import { elementAt, rowCount } from "./part-tensors.js";

/** Whose fault wrong parts are: of the request's own tensors the client's. */
export const partsFault = ({ fanOut }: ServedModule): ErrorCode =>
  fanOut.every(({ module }) => module === REQUEST) ? "invalid-argument" : "internal";

/** @param frame in which the module makes them. @returns how many; or why that cannot be said. */
export function partCount(spec: ServedModule, open: OpenRequest, frame: number): number | ServingError {
  const { fanOut } = spec;
  const counts = fanOut.map((end) => {
    const value = open.at(end, frame);
    return value === undefined ? 0 : rowCount(value);
  });
  const [count = 0] = counts;
  const other = counts.findIndex((each) => each !== count);
  if (other < 0) return count;
  const [first] = fanOut;
  return moduleFault(
    `fan_out: '${fanOut[other]!.tensor}' must have as many rows as '${first!.tensor}' (${count}); has ${counts[other]}`,
    partsFault(spec),
  );
}

/** @returns the position of the sub that the module leads to; or why that cannot be said. */
export function wayOf(
  { branch, subs }: ServedModule,
  open: OpenRequest,
  module: number,
  frame: number,
): number | ServingError {
  const { tensor: name, element, above } = branch!;
  const tensor = open.own(module, name, frame);
  const value = tensor === undefined ? null : elementAt(tensor, element);
  if (value === null)
    return moduleFault(
      `branch: output '${name}' must have element ${element}; is of shape [${tensor?.shape ?? "none"}]`,
    );
  if (above !== null && !Number.isNaN(value)) return above.filter((bound) => value > bound).length;
  if (above === null && Number.isInteger(value) && value >= 0 && value < subs.length) return value;
  const must = above === null ? `a position of its subs, in [0, ${subs.length - 1}]` : "a number";
  return moduleFault(`branch: element ${element} of output '${name}' must be ${must}; was ${value}`);
}
