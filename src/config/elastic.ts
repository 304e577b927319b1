/**
 * Elastic models (OTAS): one graph that adds (gamma > 0) or merges (gamma < 0) tokens in every layer, and tasks that are
 * registered while it is served, each with a head and with prompts for each gamma > 0.
 */
import { z } from "zod";
import type { DurationUs } from "../core/time.js";

export interface ElasticSpec {
  /** Tokens added or removed in each layer, ascending; 0 is among them. A batch's variant is its index here and 1. */
  readonly gammas: readonly number[];
  /** What batches run with for which the policy chose nothing (variant 0). */
  readonly gamma: number;
  /** Layers that take prompts, and the width of a token: prompts are [layers, gamma, width], heads [width, classes]. */
  readonly layers: number;
  readonly width: number;
  /** Classes of every head as the graph has them; null: any number. */
  readonly classes: number | null;
  readonly tasksMax: number;
  readonly classesMax: number;
  /** Weights of one task. */
  readonly taskBytesMax: number;
  /** Of a profiling set. */
  readonly imagesMax: number;
  readonly utilityMax: number;
  /** A task that is right less often than this at gamma 0 is rejected. */
  readonly accuracyMin: number;
  /** Tasks may be registered and deleted while the model is served. */
  readonly registers: boolean;
  /** The output that says how sure the model is of each answer, FP32 [batch]; null: none does. */
  readonly confidence: string | null;
}

/** Inputs that the server gives, not the client: by name, their datatype and rank. */
export const BOUND_INPUTS = {
  task: { datatype: "INT64", rank: 1 },
  r: { datatype: "INT64", rank: 1 },
  prompts: { datatype: "FP32", rank: 4 },
  heads: { datatype: "FP32", rank: 3 },
  biases: { datatype: "FP32", rank: 2 },
  classes: { datatype: "INT64", rank: 1 },
} as const;
export type BoundInput = keyof typeof BOUND_INPUTS;

/** The output that has a column for each class of a task. */
export const LOGITS = "logits";
/** The output that says how sure the model is, where `rubato.yaml` names none. */
export const CONFIDENCE = "confidence";

/** Files of a task's weights, beside its task.json: float32, little endian. */
export const HEAD_FILE = "head.bin";
export const promptsFile = (gamma: number): string => `prompts-${gamma}.bin`;

/** Its profiling set: images as clients send them, one after another, and a label for each, int32. */
export const IMAGES_FILE = "images.bin";
export const LABELS_FILE = "labels.bin";

/** By gamma, and in it by batch size: execution, µs. */
export type TaskLatency = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** A task as it is stored, and checked. */
export interface TaskSpec {
  readonly name: string;
  /** From 1, as it was registered again. */
  readonly version: number;
  /** That its weights lie in. */
  readonly folder: string;
  /** A name for each column of its head. */
  readonly classes: readonly string[];
  /** What a right answer in time is worth where a request does not say. */
  readonly utility: number;
  /** The promise to its requests; null: the model's. */
  readonly sloUs: DurationUs | null;
  /** Of its profiling set, by the index of the gamma: the share that was right. Null: not profiled yet. */
  readonly accuracy: readonly number[] | null;
  /** Measured while it was profiled; null: it was not, here. */
  readonly latencyUs: TaskLatency | null;
  /** Of its profiling set, as far as that is kept. */
  readonly images: number;
}

/** A task as a worker is given it. */
export interface TaskBinding {
  /** By which batches name it. */
  readonly kind: number;
  /** That its weights lie in. */
  readonly folder: string;
  readonly classes: number;
}

/** Some images of a task's profiling set, as one batch. */
export interface TaskTrial {
  readonly kind: number;
  readonly variant: number;
  readonly first: number;
  readonly count: number;
}

export interface TrialResult {
  /** Images whose largest logit was their label's. */
  readonly right: number;
  /** Execution, µs. */
  readonly us: number;
}

/** Of a batch that runs with this gamma, which is in the list. */
export const variantOf = ({ gammas }: Pick<ElasticSpec, "gammas">, gamma: number): number => gammas.indexOf(gamma) + 1;

/** What a variant stands for; 0: the policy chose nothing. */
export const gammaOf = ({ gammas, gamma }: Pick<ElasticSpec, "gammas" | "gamma">, variant: number): number =>
  variant === 0 ? gamma : gammas[variant - 1]!;

/** Those that need prompts, ascending. */
export const promptSizes = ({ gammas }: Pick<ElasticSpec, "gammas">): readonly number[] =>
  gammas.filter((gamma) => gamma > 0);

const GAMMA_MAX = 256;
const GAMMAS_MAX = 64;

export const elasticSchema = z.strictObject({
  gammas: z
    .array(z.int().min(-GAMMA_MAX).max(GAMMA_MAX))
    .min(1)
    .max(GAMMAS_MAX)
    .describe("Tokens added (> 0) or merged (< 0) in each layer: what a batch may run with. Ascending, with 0."),
  gamma: z
    .int()
    .min(-GAMMA_MAX)
    .max(GAMMA_MAX)
    .default(0)
    .describe("One of gammas: what batches run with where the policy chooses none."),
  tasks_max: z.int().min(1).max(255).default(32).describe("Tasks that the model serves at once."),
  classes_max: z.int().min(2).max(65_536).default(1000).describe("Classes of one task."),
  task_mb_max: z.number().positive().max(1024).default(16).describe("Megabytes of weights of one task."),
  images_max: z.int().min(1).max(100_000).default(4096).describe("Images of a profiling set."),
  utility_max: z.number().positive().max(1e9).default(1000).describe("Largest utility that a request may name."),
  accuracy_min: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("A task that is right on less of its profiling set than this at gamma 0 is rejected."),
  registration: z
    .boolean()
    .default(true)
    .describe("Whether tasks may be registered and deleted by request while the model is served."),
  confidence: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .describe(
      "Output, FP32 [batch], that says how sure the model is of each answer, in [0, 1]: what `accuracy: recent` goes by. Default: `confidence`, where the model " +
        "has one.",
    ),
});

export type ElasticFile = z.infer<typeof elasticSchema>;

/** What the schema cannot say: each a field and what is wrong with it. */
export function elasticProblems({ gammas, gamma }: ElasticFile): readonly string[] {
  const problems: string[] = [];
  const shown = JSON.stringify(gammas);
  if (gammas.some((each, at) => at > 0 && each <= gammas[at - 1]!))
    problems.push(`gammas: must increase; was ${shown}`);
  if (!gammas.includes(0)) problems.push(`gammas: must hold 0; was ${shown}`);
  if (!gammas.includes(gamma)) problems.push(`gamma: must be one of gammas ${shown}; was ${gamma}`);
  return problems;
}
