/**
 * `pipeline.yaml` (or `.json`) in a folder of the model repository: models run one after another and beside each other for
 * one request, with one deadline. Unknown keys are errors; every message names file, field, bound and value.
 */
import { z } from "zod";
import { MODULES_MAX, pipelineProblems } from "../../../system/pipeline.js";
import { ConfigError } from "../../config-error.js";
import { budgetField, idleOptions, moduleFields, moduleSpecs } from "../../pipeline-modules.js";
import { IssueList, parseSource, type Source } from "../../source.js";
import { validate } from "../../validate.js";
import { ModelFileError } from "../model-file.js";
import { checkModules } from "./module-rules.js";
import { shape, stepFields, TENSORS_MAX, tensorName, tensors } from "./step-fields.js";

/** Parts that requests of a pipeline may make at a time, and so at most one alone. */
export const PARTS_MAX = 100_000;
/** Places that one input may come from. */
const ENDS_MAX = 16;
const DEFAULT_ELEMENTS_MAX = 65_536;
/** 128 keys for each module that there may be. A server that loads it does nothing else meanwhile: a second at most. */
const TEXT_BOUNDS = { keysMax: 128 * MODULES_MAX, valuesMax: DEFAULT_ELEMENTS_MAX + 256 * MODULES_MAX };

const element = z.union([z.number(), z.boolean(), z.string().max(65_536)]);

const end = z.strictObject({
  module: z.string().optional().describe("Name of a module before it. Absent: it comes with the request."),
  tensor: tensorName.describe("Name of that module's output, or of the request's input."),
});

const outputEnd = z.strictObject({
  module: z.string().describe("Name of a module."),
  tensor: tensorName.describe("Name of its output."),
});

const moduleSchema = z.strictObject({
  ...moduleFields,
  model: tensorName.optional().describe("The model of the repository that it runs. Default: the one of its name."),
  ...stepFields,
  inputs: tensors(
    z.union([end, z.array(end).min(1).max(ENDS_MAX)]),
    "By name of the model's or step's input, where it comes from; of several places, the first that is there. Default: in a " +
      "module that nothing leads to, the request's input of its name; behind one module alone, that module's output of its name.",
  ).prefault({}),
  defaults: tensors(
    z.strictObject({
      shape: shape.describe("Of the tensor, all extents given."),
      value: element.optional().describe("Of every element."),
      data: z
        .array(element)
        .max(DEFAULT_ELEMENTS_MAX)
        .optional()
        .describe("The elements, row by row, in place of value."),
    }),
    "Beside soft: by name of its output, what its takers get where it is missing.",
  ).optional(),
  fan_out: z
    .strictObject({
      module: z.string().optional().describe("Name of a module before it. Absent: they come with the request."),
      tensors: z
        .array(tensorName)
        .min(1)
        .max(TENSORS_MAX)
        .describe(
          "Outputs of that module whose rows (first axis) or, of a list, whose tensors the parts are, as many in each.",
        ),
    })
    .optional()
    .describe(
      "A request makes a part for each row of these tensors here; each goes on by itself, with its own row, until a module " +
        "with join.",
    ),
  join: z
    .boolean()
    .default(false)
    .describe(
      "Waits for all parts of the fan_out before it and is one request again: what it takes of modules in the parts is put " +
        "together along the first axis, or is a list where the step's input is one. Where there are no parts it runs all the same.",
    ),
  branch: z
    .strictObject({
      tensor: tensorName.describe("An output of this module."),
      element: z.int().min(0).max(1_000_000_000).default(0).describe("Which of its elements, row by row, decides."),
      above: z
        .union([z.number(), z.array(z.number()).min(1).max(MODULES_MAX)])
        .optional()
        .describe(
          "The element goes on to the first of the subs unless it is above this; above the first of several, to the second, " +
            "and so on. Absent: the element is the position of the sub, from 0.",
        ),
    })
    .optional()
    .describe("A request, or a part, takes one of the subs, in the order of `subs`. Default: all subs."),
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
  outputs: tensors(
    z.union([outputEnd, z.array(outputEnd).min(1).max(ENDS_MAX)]),
    "By name, what the pipeline answers; of several places, the first that is there. Default: all outputs of the modules that lead nowhere.",
  ).optional(),
  steps: z
    .strictObject({
      threads: z.int().min(1).max(64).default(1).describe("Threads that run its steps, each one step at a time."),
      queue_max: z.int().min(1).max(100_000).default(1000).describe("Runs of one step that wait; one more is a 429."),
      timeout_ms: z
        .number()
        .min(1)
        .max(600_000)
        .default(1000)
        .describe("A run that takes longer fails its request, and its thread is replaced. Milliseconds."),
      memory_mb: z
        .int()
        .min(8)
        .max(65_536)
        .default(256)
        .describe(
          "JavaScript heap of each thread, MiB; a step that needs more fails its request, and its thread is replaced; by one allocation at once, the process of its pipeline's steps.",
        ),
    })
    .prefault({})
    .describe("Where the pipeline has modules with step: how those are run."),
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
      parts_max: z
        .int()
        .min(1)
        .max(PARTS_MAX)
        .default(256)
        .describe("Parts that one request may make, of all fan_outs together; one that makes more fails."),
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
    const source = parseSource(text, file, TEXT_BOUNDS);
    const valid = validate(pipelineFileSchema, source);
    const issues = new IssueList(source);
    for (const { module, field, text: problem } of pipelineProblems(moduleSpecs(valid.modules)))
      issues.add(["modules", module, field], problem);
    checkModules(valid, issues);
    for (const { key, text: problem } of idleOptions((source.value as { budget?: unknown }).budget))
      issues.addKey(["budget"], key, problem);
    if (valid.timeout_max_ms < valid.slo_ms)
      issues.add(["timeout_max_ms"], `must be at least slo_ms ${valid.slo_ms}; was ${valid.timeout_max_ms}`);
    issues.throwIfAny();
    return { file: valid, source };
  } catch (error) {
    if (error instanceof ConfigError) throw new ModelFileError(error.message.split("\n"));
    throw error;
  }
}
