/** `task.json` in a task's folder: what is known of the task beside its weights. */
import { z } from "zod";
import { durationUs, sloUsFromMs } from "../../core/time.js";
import { ConfigError } from "../config-error.js";
import type { ElasticSpec, TaskSpec } from "../elastic.js";
import { parseSource } from "../source.js";
import { validate } from "../validate.js";
import { ModelFileError } from "./model-file.js";

const NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/;
export const TASK_NAME_BOUND = "1 to 64 letters, digits, '._-', the first no '.' or '-'";
export const isTaskName = (name: unknown): name is string => typeof name === "string" && NAME.test(name);

/** A promise that no model keeps: every query of it would be late. */
export const TASK_SLO_MS_MIN = 1;

const CLASS_CHARS_MAX = 256;

const taskFileSchema = z.strictObject({
  name: z.string().refine(isTaskName, `must be ${TASK_NAME_BOUND}`).describe("That of its folder."),
  model_version: z.string().optional().describe("Version of the model that it was made for; absent: any."),
  classes: z.array(z.string().min(1).max(CLASS_CHARS_MAX)).min(2).describe("A name for each column of the head."),
  utility: z
    .number()
    .positive()
    .default(1)
    .describe("What a right answer in time is worth where a request does not say."),
  slo_ms: z
    .number()
    .min(TASK_SLO_MS_MIN)
    .max(86_400_000)
    .optional()
    .describe("The promise to its requests; default the model's."),
  gammas: z
    .array(z.int().positive())
    .optional()
    .describe("Those that it has prompts for: all of the model's that are > 0."),
  accuracy: z
    .record(z.string(), z.number().min(0).max(1))
    .optional()
    .describe("By gamma, the share of its profiling set that was right. Absent: it is profiled when it is loaded."),
  latency_us: z
    .record(z.string(), z.record(z.string(), z.number().positive()))
    .optional()
    .describe("By gamma and batch size, execution as it was measured with the profiling set."),
  images: z.int().min(0).default(0).describe("Of its profiling set, which lies beside it; 0: none is kept."),
  notes: z.unknown().optional().describe("Anything that its author wants to keep with it."),
});

type TaskFile = z.infer<typeof taskFileSchema>;

export interface TaskPlace {
  readonly name: string;
  readonly version: number;
  readonly folder: string;
  /** Of the model: version served, and largest timeout. */
  readonly model: { readonly version: string; readonly timeoutMaxUs: number };
}

/** @throws ModelFileError listing every problem as `FILE: FIELD: what it must be; was VALUE`. */
export function parseTaskFile(text: string, file: string, elastic: ElasticSpec, place: TaskPlace): TaskSpec {
  const data = readValid(text, file);
  const problems = crossChecks(data, elastic, place).map((problem) => `${file}: ${problem}`);
  if (problems.length > 0) throw new ModelFileError(problems);
  const { name, version, folder } = place;
  const { classes, utility, slo_ms, latency_us, images } = data;
  return {
    name,
    version,
    folder,
    classes,
    utility,
    sloUs: slo_ms === undefined ? null : durationUs(sloUsFromMs(slo_ms)),
    accuracy: accuracyOf(data, elastic),
    latencyUs: latency_us ?? null,
    images,
  };
}

/** @returns null: it is to be profiled, since it was not, or other gammas were served then. */
function accuracyOf({ accuracy }: TaskFile, { gammas }: ElasticSpec): readonly number[] | null {
  const known = gammas.flatMap((gamma) => accuracy?.[String(gamma)] ?? []);
  return known.length === gammas.length ? known : null;
}

function readValid(text: string, file: string): TaskFile {
  try {
    return validate(taskFileSchema, parseSource(text, file));
  } catch (error) {
    if (error instanceof ConfigError) throw new ModelFileError(error.message.split("\n"));
    throw error;
  }
}

function crossChecks(data: TaskFile, elastic: ElasticSpec, { name, model }: TaskPlace): string[] {
  const problems: string[] = [];
  const { gammas, classesMax, utilityMax, imagesMax } = elastic;
  if (data.name !== name) problems.push(`name: must be that of its folder, ${name}; was ${data.name}`);
  if (data.model_version !== undefined && data.model_version !== model.version)
    problems.push(`model_version: must be ${model.version}, which is served; was ${data.model_version}`);
  if (data.classes.length > classesMax)
    problems.push(`classes: must be at most ${classesMax}; were ${data.classes.length}`);
  const twice = data.classes.find((each, at) => data.classes.indexOf(each) !== at);
  if (twice !== undefined) problems.push(`classes: must differ; '${twice}' is there twice`);
  if (data.utility > utilityMax) problems.push(`utility: must be at most ${utilityMax}; was ${data.utility}`);
  if (data.slo_ms !== undefined && data.slo_ms * 1000 > model.timeoutMaxUs)
    problems.push(`slo_ms: must be at most timeout_max_ms ${model.timeoutMaxUs / 1000}; was ${data.slo_ms}`);
  if (data.images > imagesMax) problems.push(`images: must be at most ${imagesMax}; was ${data.images}`);
  const withPrompts = gammas.filter((gamma) => gamma > 0);
  const missing = data.gammas === undefined ? [] : withPrompts.filter((gamma) => !data.gammas!.includes(gamma));
  if (missing.length > 0)
    problems.push(
      `gammas: must hold every gamma > 0 of the model, ${withPrompts.join(", ")}; lacks ${missing.join(", ")}`,
    );
  if (data.accuracy !== undefined) {
    const without = gammas.filter((gamma) => data.accuracy![String(gamma)] === undefined);
    if (without.length > 0 && data.images === 0)
      problems.push(
        `accuracy: must be given for each gamma of the model, ${gammas.join(", ")}; lacks ${without.join(", ")}`,
      );
  } else if (data.images === 0) problems.push("accuracy: must be given where no profiling set is kept; was nothing");
  return problems;
}
