import { it } from "vitest";

/** A test over many seeds, in parts: a part that fails names its seed, and the next ones still run. */
export function itOverSeeds(title: string, seeds: number, parts: number, check: (seed: number) => Promise<void>): void {
  for (let part = 0; part < parts; part++)
    it(`${title}, part ${part}`, async () => {
      for (let seed = part; seed < seeds; seed += parts)
        try {
          await check(seed);
        } catch (error) {
          throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
        }
    });
}
