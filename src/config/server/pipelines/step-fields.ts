/** What a module says of itself that runs a step of its pipeline's own in place of a model. */
import { z } from "zod";

export const TENSORS_MAX = 256;
const RANK_MAX = 32;
const EXTENT_MAX = 2 ** 31 - 1;

export const tensorName = z.string().min(1).max(256);

const DATATYPES = [
  "BOOL",
  "UINT8",
  "INT8",
  "UINT16",
  "INT16",
  "UINT32",
  "INT32",
  "UINT64",
  "INT64",
  "FP16",
  "BF16",
  "FP32",
  "FP64",
  "BYTES",
] as const;

export const shape = z.array(z.int().min(0).max(EXTENT_MAX)).max(RANK_MAX);

/** Up to TENSORS_MAX of something by name of a tensor, and no other name has anything: there are tensors called `constructor`. */
export const tensors = <T extends z.ZodType>(each: T, description: string) =>
  z
    .record(tensorName, each)
    .refine((all) => Object.keys(all).length <= TENSORS_MAX, `must be at most ${TENSORS_MAX}`)
    .overwrite((all) => Object.assign(Object.create(null), all))
    .describe(description);

const given = {
  datatype: z.enum(DATATYPES).describe("Open Inference Protocol datatype."),
  shape: z.array(z.int().min(-1).max(EXTENT_MAX)).max(RANK_MAX).describe("-1: any extent."),
  list: z
    .boolean()
    .default(false)
    .describe("Any number of tensors of this datatype and shape, whose open extents may differ. Not for clients."),
};
const taken = {
  ...given,
  optional: z.boolean().default(false).describe("May be left out, or missing."),
};

export const stepFields = {
  step: z
    .string()
    .max(1024)
    .optional()
    .describe(
      "In place of model: a JavaScript module in the pipeline's folder, ./FILE.mjs, whose default export is the step, or " +
        "./FILE.mjs#NAME, whose export NAME is. A function (or an async one) of tensors by name to tensors by name. It is the " +
        "server's code: who may write it owns the server.",
    ),
  takes: tensors(z.strictObject(taken), "Of a step: its inputs.").optional(),
  gives: tensors(z.strictObject(given), "Of a step: its outputs.").optional(),
  time_ms: z
    .number()
    .gt(0)
    .max(600_000)
    .optional()
    .describe(
      "Of a step: what a run takes, milliseconds; measured runs correct it. Default: 1 until one was measured.",
    ),
};

/** `./FILE#NAME`, taken apart. */
export interface StepReference {
  readonly file: string;
  readonly name: string;
}

const REFERENCE = /^(\.\/[^#\\]+\.(?:mjs|cjs|js))(?:#([A-Za-z_$][\w$]*))?$/;

/** @returns null: it is none, or leads out of the folder. */
export function stepReference(text: string): StepReference | null {
  const match = REFERENCE.exec(text);
  if (match === null || text.includes("\0") || match[1]!.split("/").includes("..")) return null;
  return { file: match[1]!, name: match[2] ?? "default" };
}
