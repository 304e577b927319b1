/** Where models are now: the output of `rubato plan --json`, or a file with as much of it as the next plan reads. */
import { z } from "zod";
import { readSource } from "../source.js";
import { validate } from "../validate.js";
import { CLUSTERS_MAX } from "./scenario-schema.js";

export const planFileSchema = z
  .looseObject({
    assignment: z
      .record(
        z.string().min(1).max(128),
        z
          .int()
          .min(0)
          .max(CLUSTERS_MAX - 1),
      )
      .describe("Name of each model: number of the sub-cluster that holds it, from 0."),
  })
  .describe("Where models are now.");

/** @returns the sub-cluster of each model. @throws ConfigError */
export function readPlanFile(file: string): ReadonlyMap<string, number> {
  return new Map(Object.entries(validate(planFileSchema, readSource(file)).assignment));
}
