/** f(q) of OTAS (Table I): up to which rate each way is chosen. */
import type { ElasticTimes } from "../elastic-times.js";

/** Table I as printed, its first row in the order of the gamma list: gamma, and the rate (requests/s) below which it is chosen. 349 is in no row. */
export const TABLE_1 = [
  [-20, Number.POSITIVE_INFINITY],
  [-15, 1000],
  [-10, 520],
  [-5, 450],
  [0, 380],
  [2, 350],
  [4, 320],
  [8, 280],
] as const;

/**
 * "f can be profiled offline according to the throughput of different gamma values": a way keeps up with what it does per second at
 * its best size. @param headroom part of that which counts.
 */
export const limitsByProfile = (times: ElasticTimes, sizeMax: number, headroom: number): Float64Array =>
  Float64Array.from({ length: times.count }, (_, way) =>
    way === 0 ? Number.POSITIVE_INFINITY : headroom * times.throughput(way, sizeMax),
  );

/** Table I; a gamma that it has not is chosen as the next one above it, one above all of them as the last. @param gammas ascending. */
export const limitsByTable = (gammas: readonly number[]): Float64Array =>
  Float64Array.from(gammas, (gamma, way) =>
    way === 0 ? Number.POSITIVE_INFINITY : (TABLE_1.find(([of]) => of >= gamma) ?? TABLE_1.at(-1)!)[1],
  );
