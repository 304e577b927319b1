/**
 * The header `grpc-timeout`, before grpc-js (1.14) reads it. That takes the number for one of 32 bits, by which a client that gives a month has none left,
 * and looks for digits and a unit anywhere in what stands there.
 */
import type { IncomingHttpHeaders } from "node:http2";

const NAME = "grpc-timeout";
const TIMEOUT = /^(\d{1,8})([HMSmun])$/;
const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };
/** Of a timer, and of that number. */
const MS_MAX = 2 ** 31 - 1;
/** In place of what is none: it is refused (INTERNAL, as by gRPC elsewhere) with these words. */
const NONE = "must be at most eight digits, then H, M, S, m, u or n";

/** A deadline beyond three weeks is none: what a model gives is shorter. */
export function boundTimeout(headers: IncomingHttpHeaders): void {
  const written = headers[NAME];
  if (written === undefined) return;
  const [, digits, unit] = TIMEOUT.exec(String(written)) ?? [];
  if (digits === undefined || unit === undefined) headers[NAME] = NONE;
  else if (Number(digits) * UNIT_MS[unit]! > MS_MAX) delete headers[NAME];
}
