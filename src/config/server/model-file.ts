/**
 * `rubato.yaml` in a model's folder: what no model file can say (the promise, who may share a batch) and what an owner
 * may want to override. Unknown keys are errors; every message names file, field, bound and value.
 */
import { z } from "zod";
import { LIVE_DEFAULT, LIVE_POLICIES, NEED_SLO } from "../../policies/live.js";
import { policyNamed } from "../../policies/registry.js";
import { APP_NAME_BOUND, APPS_MAX, isAppName } from "../app-name.js";
import { ConfigError, formatValue } from "../config-error.js";
import { elasticProblems, elasticSchema } from "../elastic.js";
import { validatePolicyOptions } from "../policy-options.js";
import { IssueList, parseSource } from "../source.js";
import { validate } from "../validate.js";

const DATATYPE = z.enum([
  "BOOL",
  "UINT8",
  "UINT16",
  "UINT32",
  "UINT64",
  "INT8",
  "INT16",
  "INT32",
  "INT64",
  "FP16",
  "BF16",
  "FP32",
  "FP64",
  "BYTES",
]);
const axis = z.int().min(0).max(31);
const batchAxis = z.union([axis, z.literal("none")]);
const shape = z.array(z.int().min(-1)).max(32);

const input = z.strictObject({
  datatype: DATATYPE.optional().describe("Only for emulated models; a model file says it itself."),
  shape: shape.optional().describe("-1 = variable; the batch dimension included."),
  batch_axis: batchAxis.optional().describe("Where requests are put together; none: values must be equal to share."),
  variable_axis: axis.optional().describe("An axis whose extent differs between requests."),
  mode: z.enum(["pad", "equal"]).optional().describe("pad: up to the next bucket; equal: only equal extents share."),
  buckets: z.array(z.int().min(1)).min(1).max(64).optional().describe("Increasing extents of the variable axis."),
  pad_value: z.number().optional().describe("What padding is filled with; default 0."),
  mask: z.boolean().optional().describe("An attention mask: made where a request leaves it out, padded with 0."),
  profile_value: z.number().optional().describe("What warm-up and profiling feed; default 0, for masks 1."),
  profile_shape: shape
    .optional()
    .describe("Extents for warm-up and profiling where the shape leaves them open; default 32 each."),
});

const output = z.strictObject({
  datatype: DATATYPE.optional().describe("Only for emulated models."),
  shape: shape.optional().describe("-1 = variable; the batch dimension included."),
  batch_axis: batchAxis.optional().describe("Where the rows of the requests lie."),
  unpad: z
    .strictObject({
      axis: axis.describe("Of the output."),
      of: z.string().min(1).describe("The padded input whose extent this axis follows."),
      scale: z.number().positive().default(1).describe("Output extent per input extent, e.g. 0.125."),
    })
    .optional()
    .describe("Cuts the output back to the request's own extent."),
});

const emulated = z
  .strictObject({
    alpha_ms: z.number().min(0).optional().describe("Milliseconds that each row adds."),
    beta_ms: z.number().min(0).optional().describe("Milliseconds that a batch costs whatever its size."),
    table_ms: z
      .array(z.number().positive())
      .min(1)
      .max(4096)
      .optional()
      .describe("Instead: milliseconds of 1, 2, 3, ... rows."),
  })
  .refine((value) => (value.table_ms === undefined) === (value.alpha_ms !== undefined && value.beta_ms !== undefined), {
    message: "must give either alpha_ms and beta_ms, or table_ms",
  });

export const modelFileSchema = z.strictObject({
  slo_ms: z.number().positive().max(86_400_000).optional().describe("The promise. Absent: served as eager."),
  policy: z.enum(LIVE_POLICIES).optional().describe("When batches leave; default auto, without slo_ms eager."),
  policy_options: z
    .record(z.string(), z.unknown())
    .default({})
    .describe(
      "Options of the policy; see there. Live, idle_dispatch is true by default, and those of auto and deferred+ that concern " +
        "accelerators (early, early_per_idle, early_by_gap, burst_aware, fastest_first) have their defaults.",
    ),
  group: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Accelerator group; auto: whichever the server's `placement` chooses. Default auto where placement has groups of " +
        "the model's kind, else cpu (emulated for emulated models).",
    ),
  memory_mb: z
    .number()
    .min(0)
    .max(1e9)
    .optional()
    .describe(
      "Megabytes that the loaded model holds on every accelerator of its group; read by placement. Default: the size of " +
        "the model file, 0 for emulated models.",
    ),
  dynamic_memory_mb: z
    .number()
    .min(0)
    .max(1e9)
    .default(0)
    .describe("Megabytes that one run of it needs beside memory_mb; read by placement."),
  model_file: z.string().min(1).optional().describe("npm:PACKAGE/path, or a path relative to this folder."),
  tail_file: z
    .string()
    .min(1)
    .optional()
    .describe(
      "As model_file: an ONNX file of the same operator set whose inputs are outputs of the model. It runs behind it, in the same run, and " +
        "gives its outputs in place of those that it takes: a best class in place of thousands of probabilities.",
    ),
  platform: z.enum(["onnx_onnxv1", "rubato_emulated"]).optional().describe("Default onnx_onnxv1."),
  batch_max: z
    .int()
    .min(0)
    .max(4096)
    .optional()
    .describe("Largest batch, rows; 0 = the model does not batch. Default 32, or max_batch_size of config.pbtxt."),
  batch_fixed: z.int().min(1).max(4096).optional().describe("The model accepts only this many rows."),
  default_timeout_ms: z
    .number()
    .positive()
    .max(86_400_000)
    .optional()
    .describe(
      "Deadline of a request without `timeout` where there is no slo_ms, milliseconds. Default 10,000, or " +
        "default_timeout_microseconds of config.pbtxt.",
    ),
  timeout_max_ms: z
    .number()
    .positive()
    .max(86_400_000)
    .default(60_000)
    .describe("Largest `timeout` that a request may ask for, milliseconds."),
  run_max_ms: z
    .number()
    .min(0)
    .max(86_400_000)
    .default(0)
    .describe(
      "Milliseconds that a run may take. For models whose time depends on a value, which no prediction knows: a run " +
        "that computes is ended at the latest of its deadline, this, and workers.hang_factor times its prediction.",
    ),
  queue: z
    .strictObject({
      requests_max: z
        .int()
        .min(1)
        .max(10_000_000)
        .optional()
        .describe("Waiting requests; one more is a 429. Default 1000, or max_queue_size of config.pbtxt."),
      bytes_max: z.int().min(1).default(268_435_456).describe("Bytes of waiting inputs; more is a 429."),
    })
    .prefault({})
    .describe("Limits of the model's queues."),
  inputs: z.record(z.string(), input).default({}).describe("By name, what the model file does not say of an input."),
  outputs: z.record(z.string(), output).default({}).describe("By name, what the model file does not say of an output."),
  emulated: emulated.optional().describe("Times of an emulated model."),
  elastic: elasticSchema
    .optional()
    .describe("The model adds or merges tokens by batch, for tasks; see docs/elastic.md."),
  sizes: z
    .enum(["apart", "together"])
    .optional()
    .describe(
      "Requests of different buckets of the one input that is padded. together: they share batches, each padded to its longest, and the " +
        "bucket is the kind of a request that names no app (at most 12 kinds, size<=N). apart: a queue for each bucket. Default: together " +
        "where the policy may plan by kind (distribution, distribution+; auto with by_app, in one thread), else apart.",
    ),
  apps: z
    .array(z.string().refine(isAppName, `must be ${APP_NAME_BOUND}`))
    .max(APPS_MAX)
    .default([])
    .describe(
      "Apps that send to the model, by name, which the request parameter app says: these have their kinds before others.",
    ),
});

export type ModelFile = z.infer<typeof modelFileSchema>;
export type ModelFileInput = ModelFile["inputs"][string];
export type ModelFileOutput = ModelFile["outputs"][string];

/** Where neither rubato.yaml nor config.pbtxt says it. */
export const DEFAULT_TIMEOUT_MS = 10_000;
export const QUEUE_REQUESTS_MAX = 1000;

/** Longer is not a configuration. */
export const MODEL_FILE_BYTES_MAX = 1024 * 1024;

/** Every problem of one file, each a sentence. */
export class ModelFileError extends Error {
  override readonly name = "ModelFileError";
  constructor(readonly problems: readonly string[]) {
    super(problems.join("\n"));
  }
}

/** @throws ModelFileError listing every problem as `FILE:LINE: FIELD: what it must be; was VALUE`. */
export function parseModelFile(text: string, file: string): ModelFile {
  const data = readValid(text, file);
  const problems = crossChecks(data).map((problem) => `${file}: ${problem}`);
  if (problems.length > 0) throw new ModelFileError(problems);
  return data;
}

function readValid(text: string, file: string): ModelFile {
  try {
    const source = parseSource(text, file);
    // An empty file asks for the defaults.
    const valid = validate(modelFileSchema, source.value === null ? { ...source, value: {} } : source);
    const issues = new IssueList(source);
    const policy = policyOf(valid);
    const { policy_options: given } = valid;
    for (const [key, option] of Object.entries(policyNamed(policy).options))
      if (option.isShared && given[key] !== undefined)
        issues.add(
          ["policy_options", key],
          `must be absent: it is of the group's arbiter, and scenarios only; was ${formatValue(given[key])}`,
        );
    // What comes back has the defaults of scenarios; the live ones differ.
    validatePolicyOptions(policy, given, ["policy_options"], issues);
    issues.throwIfAny();
    return valid;
  } catch (error) {
    if (error instanceof ConfigError) throw new ModelFileError(error.message.split("\n"));
    throw error;
  }
}

/** The model's policy; without a promise there is nothing to defer for. */
export const policyOf = ({ policy, slo_ms }: ModelFile): string =>
  policy ?? (slo_ms === undefined ? "eager" : LIVE_DEFAULT);

function crossChecks(file: ModelFile): string[] {
  const problems: string[] = [];
  const { default_timeout_ms = DEFAULT_TIMEOUT_MS } = file;
  if (file.timeout_max_ms < default_timeout_ms)
    problems.push(
      `timeout_max_ms: must be at least default_timeout_ms ${default_timeout_ms}; was ${file.timeout_max_ms}`,
    );
  if (file.slo_ms !== undefined && file.timeout_max_ms < file.slo_ms)
    problems.push(`timeout_max_ms: must be at least slo_ms ${file.slo_ms}; was ${file.timeout_max_ms}`);
  if (file.slo_ms === undefined && file.policy !== undefined && NEED_SLO.includes(file.policy))
    problems.push(`policy: ${file.policy} needs slo_ms; was nothing`);
  if (file.platform === "rubato_emulated" && file.emulated === undefined)
    problems.push("emulated: must be given for platform rubato_emulated; was nothing");
  if (file.elastic !== undefined)
    problems.push(...elasticProblems(file.elastic).map((problem) => `elastic.${problem}`), ...elasticChecks(file));
  for (const [name, entry] of Object.entries(file.inputs)) problems.push(...inputChecks(`inputs.${name}`, entry));
  for (const [name, entry] of Object.entries(file.outputs)) {
    const of = entry.unpad?.of;
    if (of !== undefined && file.inputs[of]?.buckets === undefined)
      problems.push(`outputs.${name}.unpad.of: must name an input of mode pad; was ${of}`);
  }
  return problems;
}

/** Tasks take the place of apps, and what an emulated model would be right about nobody knows. */
function elasticChecks({ emulated: times, platform, apps }: ModelFile): string[] {
  const problems: string[] = [];
  if (times !== undefined || platform === "rubato_emulated")
    problems.push("elastic: must be absent for an emulated model; was given");
  if (apps.length > 0) problems.push(`apps: must be absent where elastic is given; was ${JSON.stringify(apps)}`);
  return problems;
}

function inputChecks(field: string, entry: ModelFileInput): string[] {
  const problems: string[] = [];
  const { buckets, mode, mask, pad_value, variable_axis, batch_axis } = entry;
  if (buckets?.some((bucket, i) => i > 0 && bucket <= buckets[i - 1]!))
    problems.push(`${field}.buckets: must increase; was ${JSON.stringify(buckets)}`);
  if (mode === "pad" && buckets === undefined)
    problems.push(`${field}.buckets: must be given with mode pad; was nothing`);
  if (mode === "equal" && buckets !== undefined)
    problems.push(`${field}.buckets: must be absent with mode equal; was ${JSON.stringify(buckets)}`);
  if (variable_axis === undefined && (mode !== undefined || buckets !== undefined))
    problems.push(`${field}.variable_axis: must be given with mode or buckets; was nothing`);
  if (variable_axis !== undefined && variable_axis === batch_axis)
    problems.push(`${field}.variable_axis: must differ from batch_axis; was ${variable_axis}`);
  if (mask === true && pad_value !== undefined && pad_value !== 0)
    problems.push(`${field}.pad_value: must be 0 for a mask; was ${pad_value}`);
  return problems;
}
