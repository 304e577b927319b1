/** Draws behind samples: made once, so that an estimate changes with what modules say and not with the draw. */
import { seededUniform } from "../seeded-uniform.js";

/** @returns one number of each of `count` equal parts of [0, 1), in random order. @param stream what is drawn: independent of others. */
export function evenDraws(count: number, seed: number, stream: number): Float64Array {
  const uniform = seededUniform(seed, stream);
  const draws = Float64Array.from({ length: count }, (_, part) => (part + uniform()) / count);
  for (let last = count - 1; last > 0; last--) {
    const other = Math.floor(uniform() * (last + 1));
    const moved = draws[last]!;
    draws[last] = draws[other]!;
    draws[other] = moved;
  }
  return draws;
}
