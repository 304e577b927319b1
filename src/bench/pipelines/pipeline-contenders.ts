/** Who is compared on one pipeline, and the repository that holds it once for each of them. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { CPU_WORKERS } from "../serving/measured-profile.js";
import { shippedModel, writePolicyModels } from "../serving/policy-models.js";

export interface PipelineContender {
  readonly name: string;
  /** null: what pipelines have that name none. */
  readonly budget: "forecast" | "split" | null;
  /** Of its group, whose models then name none. */
  readonly groupPolicy: string | null;
  /** Of its models; null: the server's own. */
  readonly policy: string | null;
}

/** What the server does when nobody chooses. */
export const DEFAULT: PipelineContender = { name: "default", budget: null, groupPolicy: null, policy: null };

export const PARD: PipelineContender = { name: "pard", budget: "forecast", groupPolicy: "pard", policy: null };

export const PIPELINE_CONTENDERS: readonly PipelineContender[] = [
  DEFAULT,
  { name: "forecast", budget: "forecast", groupPolicy: null, policy: null },
  PARD,
  // Each module drops by a part of the SLO from when the page came to it.
  { name: "timeouts", budget: "split", groupPolicy: null, policy: "eager" },
];

const SHIPPED = fileURLToPath(new URL("../../../models/ocr", import.meta.url));
const STEPS = "read.mjs";
/** A page of many lines holds tens of MB between modules, most of it classes: what is dropped is the policies' choice, not that of this limit. */
const BYTES_MAX = 2 ** 30;

interface PipelineFile {
  readonly slo_ms: number;
  readonly queue: Readonly<Record<string, number>>;
  readonly modules: readonly { readonly id: number; readonly name: string; readonly model?: string }[];
}

const shipped = (): PipelineFile => parse(readFileSync(path.join(SHIPPED, "pipeline.yaml"), "utf8")) as PipelineFile;

export const ocrModels = (): string[] => [...new Set(shipped().modules.flatMap(({ model }) => model ?? []))];

/** Modules that a page crosses before its lines are recognised. */
export function modulesBeforeRead(): string[] {
  const { modules } = shipped();
  const read = modules.find(({ model }) => model === "ocr-rec")!;
  return modules.filter(({ id }) => id < read.id).map(({ name }) => name);
}

export const pipelineOf = ({ name }: PipelineContender): string => `${name}-ocr`;

export const groupConfig = ({ groupPolicy }: PipelineContender, workers: number): object => ({
  ...CPU_WORKERS,
  count: workers,
  ...(groupPolicy === null ? {} : { policy: groupPolicy }),
});

/** @param sloMs of the pipeline; its models have theirs in the proportions that ship. @param profiles by model; null: they are measured. */
export function writeOcr(
  folder: string,
  contender: PipelineContender,
  sloMs: number,
  profiles: Readonly<Record<string, string>> | null,
): void {
  const file = shipped();
  const { name: group, budget, policy } = contender;
  for (const model of ocrModels()) {
    const source = shippedModel(model);
    const own = (source.settings.slo_ms as number) * (sloMs / file.slo_ms);
    const named = { name: `${group}-${model}`, group, policy, policyOptions: {} };
    writePolicyModels(folder, source, [named], own, profiles?.[model] ?? null);
  }
  const pipeline = path.join(folder, pipelineOf(contender));
  mkdirSync(pipeline, { recursive: true });
  copyFileSync(path.join(SHIPPED, STEPS), path.join(pipeline, STEPS));
  const modules = file.modules.map((module) =>
    module.model === undefined ? module : { ...module, model: `${group}-${module.model}` },
  );
  const queue = { ...file.queue, bytes_max: BYTES_MAX };
  writeFileSync(
    path.join(pipeline, "pipeline.yaml"),
    stringify({ ...file, slo_ms: sloMs, ...(budget && { budget }), queue, modules }),
  );
}

/** File that a server has written beside its model. */
export const profileOf = (folder: string, { name }: PipelineContender, model: string): string =>
  path.join(folder, `${name}-${model}`, "1", "profile.json");
