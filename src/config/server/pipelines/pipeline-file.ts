/**
 * `pipeline.yaml` (or `.json`) in a folder of the model repository: models run one after another and beside each other for
 * one request, with one deadline. Unknown keys are errors; every message names file, field, bound and value.
 */
import { z } from "zod";
import { MODULES_MAX, pipelineProblems } from "../../../system/pipeline.js";
import { ConfigError } from "../../config-error.js";
import { budgetField, moduleFields, moduleSpecs } from "../../pipeline-modules.js";
import { IssueList, parseSource, type Source } from "../../source.js";
import { validate } from "../../validate.js";
import { ModelFileError } from "../model-file.js";

const tensorName = z.string().min(1).max(256);
const TENSORS_MAX = 256;

const moduleSchema = z.strictObject({
  ...moduleFields,
  model: tensorName.optional().describe("The model of the repository that it runs. Default: the one of its name."),
  inputs: z
    .record(
      tensorName,
      z.strictObject({
        module: z.string().optional().describe("Name of a module before it. Absent: it comes with the request."),
        tensor: tensorName.describe("Name of that module's output, or of the request's input."),
      }),
    )
    .refine((inputs) => Object.keys(inputs).length <= TENSORS_MAX, `must be at most ${TENSORS_MAX}`)
    .default({})
    .describe(
      "By name of the model's input, where it comes from. Default: in a module that nothing leads to, the request's input of " +
        "its name; behind one module alone, that module's output of its name.",
    ),
});

export const pipelineFileSchema = z.strictObject({
  slo_ms: z
    .number()
    .positive()
    .max(86_400_000)
    .describe("The promise: milliseconds from the receipt of a request to its answer, over all modules."),
  timeout_max_ms: z
    .number()
    .positive()
    .max(86_400_000)
    .default(60_000)
    .describe("Largest `timeout` that a request may ask for, milliseconds."),
  budget: budgetField,
  modules: z
    .array(moduleSchema)
    .min(1)
    .max(MODULES_MAX)
    .describe("The graph: a vertex each, with the ids of what leads to it and of what it leads to."),
  outputs: z
    .record(
      tensorName,
      z.strictObject({
        module: z.string().describe("Name of a module."),
        tensor: tensorName.describe("Name of its output."),
      }),
    )
    .refine((outputs) => Object.keys(outputs).length <= TENSORS_MAX, `must be at most ${TENSORS_MAX}`)
    .optional()
    .describe("By name, what the pipeline answers. Default: all outputs of the modules that lead nowhere."),
  queue: z
    .strictObject({
      requests_max: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(1000)
        .describe("Requests in it at a time; one more is a 429."),
      bytes_max: z
        .int()
        .min(1)
        .default(268_435_456)
        .describe(
          "Bytes of their inputs and of tensors between modules, those that are still to come by what requests held lately; " +
            "more is a 429. One request is always let in.",
        ),
    })
    .prefault({})
    .describe("Limits at the entrance."),
});

export type PipelineFile = z.output<typeof pipelineFileSchema>;

export interface ReadPipeline {
  readonly file: PipelineFile;
  /** For messages. */
  readonly source: Source;
}

/** @throws ModelFileError listing every problem as `FILE:LINE: FIELD: what it must be; was VALUE`. */
export function parsePipelineFile(text: string, file: string): ReadPipeline {
  try {
    const source = parseSource(text, file);
    const valid = validate(pipelineFileSchema, source);
    const issues = new IssueList(source);
    for (const { module, field, text: problem } of pipelineProblems(moduleSpecs(valid.modules)))
      issues.add(["modules", module, field], problem);
    if (valid.timeout_max_ms < valid.slo_ms)
      issues.add(["timeout_max_ms"], `must be at least slo_ms ${valid.slo_ms}; was ${valid.timeout_max_ms}`);
    issues.throwIfAny();
    return { file: valid, source };
  } catch (error) {
    if (error instanceof ConfigError) throw new ModelFileError(error.message.split("\n"));
    throw error;
  }
}
