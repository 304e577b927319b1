/**
 * The RAG workflow of PARD §7 (Table 2): rewrite, then retrieve and search beside each other, then generate; a request is in time by the first token of
 * its answer. The paper names the models, the GPUs and the SLO, and neither times nor rates: what is chosen here for them, and why.
 */
import type { ScenarioFields } from "../../point.js";
import type { PipelineSystem } from "../systems.js";
import { GENERATED } from "../traces/rates.js";
import { AZURE_CODE, AZURE_CONV, type Lengths, meanLength } from "./lengths.js";

export interface Workflow {
  readonly sloMs: number;
  /** Lengths of the answers of `rewrite` (short, with a long tail: those of code completion), and of what comes to `generate` and from it. */
  readonly rewritten: Lengths;
  readonly generated: Lengths;
  /** Standard deviation of a search, ms. */
  readonly searchSdMs: number;
  readonly sequencesMax: number;
  /** Both accelerators serve both: one group in place of two. */
  readonly isShared: boolean;
}

/**
 * Llama-3-8B in 16 bits on an A100-80GB, one for each of `rewrite` and `generate`. An iteration reads 16 GB of weights at 2 TB/s, 8 ms, and costs the host a few;
 * each sequence reads its keys and values (128 KB a token, of 1,000 tokens 0.07 ms); a token of a prompt is 16 GFLOP at half of 312 TFLOPS. Of 80 GB 90 % are used, less the weights: 420,000 tokens.
 * Tokens of an iteration and sequences are vLLM 0.9's defaults.
 */
const LLAMA = { iteration_ms: 11, sequence_ms: 0.1, prefill_ms: 0.1, tokens_max: 2048, kv_tokens: 420_000 } as const;

/** The instruction and a question of HotpotQA. */
const REWRITE_PROMPT = 128;
/** A search elsewhere: seldom less than this, a second in the mean with a long tail, as many at a time as a pool of threads has. */
const SEARCH = { leastMs: 200, meanMs: 1000, threads: 128 } as const;
/** 483,000 vectors on one device: a query is embedded and compared with all; most is the same for a batch. */
const RETRIEVE = { alphaMs: 2, betaMs: 30, batchMax: 32 } as const;

export const RAG: Workflow = {
  sloMs: 5000,
  rewritten: AZURE_CODE,
  generated: AZURE_CONV,
  searchSdMs: 800,
  sequencesMax: 256,
  isShared: false,
};

/** Seconds for each step of the trace's rates: bursts must last longer than the SLO, as in the other applications. */
const STEP_S = 10;
export const WARMUP_S = 30;

export const MODULES = ["rewrite", "retrieve", "search", "generate"] as const;
/** Whose time is an accelerator's: threads that wait for a search cost nothing. */
export const ON_GPUS: readonly string[] = ["rewrite", "generate"];

/** Accelerator time of one request in an iteration full of sequences, ms. */
function costMs(prompt: number, answer: number, sequencesMax: number): number {
  const { iteration_ms: iterationMs, prefill_ms: prefillMs, sequence_ms: sequenceMs } = LLAMA;
  return prompt * prefillMs + answer * (sequenceMs + iterationMs / sequencesMax);
}

/** Requests per second that the busier of the two accelerators can do with all its slots taken. */
export function capacityRps(workflow: Workflow): number {
  const { generated, rewritten, sequencesMax } = workflow;
  const rewriteMs = costMs(REWRITE_PROMPT, meanLength(rewritten.output), sequencesMax);
  const generateMs = costMs(meanLength(generated.input), meanLength(generated.output), sequencesMax);
  return 1000 / (workflow.isShared ? (rewriteMs + generateMs) / 2 : Math.max(rewriteMs, generateMs));
}

/** @param load of the capacity, in the mean over the trace. */
export function scenarioOf(
  workflow: Workflow,
  load: number,
  seconds: number,
  budget: PipelineSystem["budget"],
): ScenarioFields {
  const { generated, isShared, rewritten, searchSdMs, sequencesMax, sloMs } = workflow;
  const azure = GENERATED.find(({ name }) => name === "azure")!;
  const meanRps = load * capacityRps(workflow);
  const rate = (factor: number): number => Number((factor * meanRps).toPrecision(6));
  const llm = { ...LLAMA, sequences_max: sequencesMax };
  const least = { profile: { alpha_ms: 0, beta_ms: LLAMA.iteration_ms }, batch_max: 1 };
  return {
    name: "pard-rag-azure",
    duration_s: WARMUP_S + seconds,
    warmup_s: WARMUP_S,
    groups: [
      ...(isShared
        ? [{ name: "both", accelerators: 2, llm }]
        : [
            { name: "rewrite", accelerators: 1, llm },
            { name: "generate", accelerators: 1, llm },
          ]),
      { name: "retrieve", accelerators: 1 },
      { name: "search", accelerators: SEARCH.threads },
    ],
    models: [
      {
        name: "rewrite",
        group: isShared ? "both" : "rewrite",
        ...least,
        tokens: { input: REWRITE_PROMPT, output: { quantiles: rewritten.output }, ends: "last" },
      },
      {
        name: "retrieve",
        group: "retrieve",
        profile: { alpha_ms: RETRIEVE.alphaMs, beta_ms: RETRIEVE.betaMs },
        batch_max: RETRIEVE.batchMax,
      },
      {
        name: "search",
        group: "search",
        profile: { alpha_ms: 0, beta_ms: SEARCH.leastMs },
        batch_max: 1,
        apps: [{ name: "search", time: { lognormal: { mean_ms: SEARCH.meanMs, sd_ms: searchSdMs } } }],
      },
      {
        name: "generate",
        group: isShared ? "both" : "generate",
        ...least,
        tokens: { input: { quantiles: generated.input }, output: { quantiles: generated.output }, ends: "first" },
      },
    ],
    pipelines: [
      {
        name: "rag",
        slo_ms: sloMs,
        budget,
        modules: [
          { id: 0, name: "rewrite", pres: [] },
          { id: 1, name: "retrieve", pres: [0] },
          { id: 2, name: "search", pres: [0] },
          { id: 3, name: "generate", pres: [1, 2] },
        ],
      },
    ],
    arrivals: {
      process: "poisson",
      steps: [
        { at_s: 0, rate_rps: rate(1) },
        ...azure
          .factors(Math.ceil(seconds / STEP_S))
          .map((factor, step) => ({ at_s: WARMUP_S + step * STEP_S, rate_rps: rate(factor) })),
      ],
    },
  };
}
