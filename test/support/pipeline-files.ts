/** Pipeline files as text, and resolved against models that are there. */
import type { ModelSpec } from "../../src/config/model.js";
import { parsePipelineFile } from "../../src/config/server/pipelines/pipeline-file.js";
import { resolvePipeline } from "../../src/config/server/pipelines/pipeline-spec.js";
import type { PipelineSpec } from "../../src/config/server/pipelines/served-pipeline.js";

/** @param modules a line each. @param more further keys. */
export const pipelineText = (modules: readonly string[], more = ""): string =>
  `slo_ms: 100\nmodules:\n${modules.map((module) => `  - ${module}\n`).join("")}${more}`;

export const resolverOf =
  (models: readonly ModelSpec[], policyOf: (model: string) => string | null = () => null) =>
  (text: string): PipelineSpec =>
    resolvePipeline(
      "p",
      "/models/p",
      parsePipelineFile(text, "p/pipeline.yaml"),
      (name) => models.find((model) => model.name === name) ?? "there is no such model",
      policyOf,
    );
