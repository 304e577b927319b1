/** Accelerators that generate text by continuous batching, and the lengths of what they are asked. */
import { z } from "zod";

export const TOKENS_MAX = 1_000_000;
/** More would not fit the tables of a group. */
const SEQUENCES_MAX = 4096;
const QUANTILES_MAX = 100_001;
const MS_MAX = 60_000;

export const llm = z
  .strictObject({
    iteration_ms: z
      .number()
      .gt(0)
      .max(MS_MAX)
      .describe("Milliseconds of an iteration with nothing in it: the weights are read."),
    sequence_ms: z
      .number()
      .min(0)
      .max(MS_MAX)
      .describe("Milliseconds that each sequence adds which generates a token in it."),
    prefill_ms: z.number().min(0).max(MS_MAX).describe("Milliseconds that each token of a prompt adds."),
    sequences_max: z.int().min(1).max(SEQUENCES_MAX).describe("Sequences at a time."),
    tokens_max: z
      .int()
      .min(1)
      .max(TOKENS_MAX)
      .describe(
        "Tokens in an iteration, one of each sequence that generates and of prompts as many as are left: longer ones take several iterations. At least sequences_max.",
      ),
    kv_tokens: z
      .int()
      .min(1)
      .max(1e9)
      .describe(
        "Tokens whose keys and values fit the memory. A sequence holds those of its prompt and answer from when it is admitted, and none is admitted while " +
          "the longest that occurs would not fit.",
      ),
  })
  .describe(
    "Each accelerator runs iterations, and whoever waits is admitted between two of them while there is room (continuous batching). For models with `tokens`, " +
      "and for none else. Its queues have no batches: the policy says who is admitted, and who is given up.",
  );

const length = z.union([
  z.int().min(1).max(TOKENS_MAX),
  z.strictObject({
    quantiles: z
      .array(z.number().min(1).max(TOKENS_MAX))
      .min(2)
      .max(QUANTILES_MAX)
      .describe("Of parts 0 to 1 in equal steps, ascending; straight lines between."),
  }),
]);

const ends = z
  .enum(["first", "last"])
  .default("last")
  .describe(
    "The token of the answer that ends a request. first: it is in time by its time to the first token, and the rest is generated all the same, unless it was late.",
  );

export const tokens = z
  .union([
    z.strictObject({
      input: length.describe("Tokens of a prompt: a number, or quantiles to draw from by the seed."),
      output: length.describe("Tokens of an answer, drawn apart from the prompt's."),
      ends,
    }),
    z.strictObject({
      file: z
        .string()
        .min(1)
        .max(1024)
        .describe(
          "CSV with columns input_tokens, output_tokens: one of its rows, equally likely. Found like a trace. In place of input and output.",
        ),
      ends,
    }),
  ])
  .describe(
    "Lengths of the model's requests. Only in a group with `llm`, with batch_max 1; `profile` is the least that planners reckon with.",
  );

export type ScenarioLlm = z.output<typeof llm>;
export type ScenarioTokens = z.output<typeof tokens>;
